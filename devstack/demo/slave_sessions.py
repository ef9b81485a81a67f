"""The demo's own sessions on a slave of any vendor. They use statements that all vendors accept."""

from dataclasses import replace

from devstack.demo.accounts import APPLICATION, PREFIX, SCHEMA
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.vendors import FIRST


def connect(info: ConnectionInfo, purpose: str) -> Session:
    """Returns a session in autocommit mode with a connect timeout of 3 s. Raises Sluice's errors."""
    info = replace(info, options={**info.options, "connect_timeout": "3"})
    return vendor_of(info.vendor).sessions.connect(info, application=f"{APPLICATION} {purpose}", autocommit=True)


def table(info: ConnectionInfo, name: str) -> str:
    """Returns the quoted name of a replicated table of the schema public."""
    return f'"public"."{name}"' if info.vendor == FIRST else f'"{name}"'


def control_table(info: ConnectionInfo, name: str) -> str:
    """Returns the quoted name of a table that Sluice keeps on the slave."""
    full = f'"{PREFIX.lower()}{name}"'
    return f'"{SCHEMA}".{full}' if info.vendor == FIRST else full
