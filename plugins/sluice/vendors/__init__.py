"""The databases Sluice speaks to, one package a vendor. Drivers are imported only when a vendor is asked for."""

from importlib import import_module
from types import ModuleType


def module(vendor: str, noun: str) -> ModuleType:
    """`module("postgres", "catalog")` is `sluice.vendors.postgres.catalog`."""
    return import_module(f"sluice.vendors.{vendor}.{noun}")
