"""Names in the demo's databases. None of the roles is a superuser."""

from dataclasses import replace

from devstack.services import DATABASE, ROLE
from sluice.configuration.model import DEFAULT_SCHEMA
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.vendors import FIRST

__all__ = ["ACCOUNT", "APPLICATION", "DATABASE", "OWNER", "PREFIX", "SCHEMA"]

PREFIX = "DEMO_"
SCHEMA = DEFAULT_SCHEMA
"""The schema of the replication's resources, on the master and on the slaves."""

ACCOUNT = ROLE
"""The role in Airflow's connections. It owns Sluice's resources on the master, and the replicated tables on a slave."""

OWNER = "shop"
"""The role that owns the master's tables and runs the traffic."""

APPLICATION = "sluice demo"
"""The prefix of `application_name` of the demo's own sessions."""


# The demo's own sessions on a slave of any vendor. They use statements that all vendors accept.


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
