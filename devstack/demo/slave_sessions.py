"""The demo's own sessions on a slave of any vendor: its statements are those that all of them understand."""

from dataclasses import replace

from devstack.demo.accounts import APPLICATION, PREFIX, SCHEMA
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.vendors import FIRST


def connect(info: ConnectionInfo, purpose: str) -> Session:
    """A session in autocommit mode that gives up quickly. Raises Sluice's errors."""
    info = replace(info, options={**info.options, "connect_timeout": "3"})
    return vendor_of(info.vendor).sessions.connect(info, application=f"{APPLICATION} {purpose}", autocommit=True)


def table(info: ConnectionInfo, name: str) -> str:
    """SQL: a replicated table of the schema public."""
    return f'"public"."{name}"' if info.vendor == FIRST else f'"{name}"'


def control_table(info: ConnectionInfo, name: str) -> str:
    """SQL: a table that Sluice keeps on the slave."""
    full = f'"{PREFIX.lower()}{name}"'
    return f'"{SCHEMA}".{full}' if info.vendor == FIRST else full
