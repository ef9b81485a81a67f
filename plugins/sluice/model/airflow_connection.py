"""What an Airflow connection says about a database."""

from collections.abc import Mapping
from typing import Protocol

from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo, known_options, option_fault
from sluice.model.vendors import VENDORS

GENERIC = "generic"
"""A type that Airflow's form always offers; types of vendors need their providers."""


class AirflowConnection(Protocol):
    """The fields of a connection, as Airflow names them."""

    @property
    def conn_type(self) -> str | None: ...
    @property
    def host(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...
    @property
    def schema(self) -> str | None: ...
    @property
    def login(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...


def connection_unusable(conn_id: str, reason: str) -> Terminal:
    """The connection `conn_id` does not fit the configuration."""
    return Terminal(
        f"The Airflow connection {conn_id!r} {reason} Correct it under Admin, Connections.", code="connection-unusable"
    )


def converted(connection: AirflowConnection, extra: Mapping[str, object], conn_id: str, vendor: str) -> ConnectionInfo:
    """An Airflow connection with its extras as `ConnectionInfo`. Raises `connection-unusable`."""
    if connection.conn_type not in (vendor, GENERIC):
        raise connection_unusable(
            conn_id, f"is of type {connection.conn_type!r}; it must be {vendor!r} or {GENERIC!r}."
        )
    own = [name for name in VENDORS[vendor].databases if extra.get(name)]
    if len(own) > 1:
        raise connection_unusable(conn_id, f"has {' and '.join(own)}: leave one of them out.")
    host, login = connection.host, connection.login
    database = str(extra[own[0]]) if own else connection.schema
    if not host or not login or not database:
        lacking = next(name for name, value in (("host", host), ("login", login), ("database", database)) if not value)
        raise connection_unusable(conn_id, f"has no {lacking}.")
    # The other extras are for Airflow's own hooks.
    known = known_options(vendor)
    options = {name: str(value) for name, value in extra.items() if name in known and value not in ("", None)}
    if fault := option_fault(options, vendor):
        raise connection_unusable(conn_id, fault)
    port = connection.port or VENDORS[vendor].port
    return ConnectionInfo(vendor, host, port, database, login, connection.password or "", options, conn_id)
