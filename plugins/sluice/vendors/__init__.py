"""The databases Sluice speaks to, one package a vendor with the same file names in each.

Drivers are imported only when a vendor is asked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from sluice.database.session import Session
from sluice.domain.connection import ConnectionInfo
from sluice.errors import Terminal

_PACKAGES = {"postgres": "sluice.vendors.postgres"}


class UnknownVendor(Terminal):
    """The configuration names a database vendor Sluice has no package for."""

    def __init__(self, vendor: str):
        super().__init__(f"{vendor!r} is no vendor Sluice knows. Known are: {', '.join(sorted(_PACKAGES))}.")
        self.vendor = vendor


def names() -> list[str]:
    """The vendors a configuration may name."""
    return sorted(_PACKAGES)


def module(vendor: str, noun: str) -> ModuleType:
    """`module("postgres", "catalog")` is `sluice.vendors.postgres.catalog`. Raises `UnknownVendor`."""
    if vendor not in _PACKAGES:
        raise UnknownVendor(vendor)
    return import_module(f"{_PACKAGES[vendor]}.{noun}")


@contextmanager
def reach(info: ConnectionInfo, application: str, seconds: int | None = None) -> Iterator[Session]:
    """A session in autocommit mode that ends with the block.

    `seconds`: so long each statement may take. Raises `DatabaseUnreachable`, `DatabaseRefused`.
    """
    driver = module(info.vendor, "connection")
    settings = {} if seconds is None else {"statement_timeout": f"{seconds}s"}
    session: Session = driver.connect(info, application=application, autocommit=True, settings=settings)
    try:
        yield session
    finally:
        session.close()
