"""Looks up Airflow's connections without Airflow's code.

Like Airflow it looks into the environment first, `AIRFLOW_CONN_<ID>`. Airflow's API returns everything but passwords,
which are then found as by the database's own programs (PGPASSWORD, ~/.pgpass).
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from sluice.cli import airflow
from sluice.cli.airflow_api import AirflowApi
from sluice.errors import Terminal
from sluice.model.airflow_connection import connection_unusable, converted
from sluice.model.connection import ConnectionInfo


class ConnectionUnknown(Terminal):
    """A connection cannot be looked up."""


def connection_unknown(conn_id: str) -> ConnectionUnknown:
    """Airflow does not have the connection of a replication."""
    return ConnectionUnknown(f"Airflow has no connection {conn_id!r}: add it under Admin, Connections.")


class ConnectionNotGiven(ConnectionUnknown):
    """The connection is not in the environment, and no Airflow is given."""

    def __init__(self, conn_id: str, variable: str) -> None:
        super().__init__(
            f"The connection {conn_id!r} is not known here. Name the Airflow that has it, --airflow URL, or set "
            f"{variable}."
        )


@dataclass(frozen=True)
class StoredConnection:
    """A connection as Airflow stores it, decrypted."""

    conn_type: str
    host: str | None
    port: int | None
    schema: str | None
    login: str | None
    password: str | None = field(repr=False)
    extra: str | None = field(repr=False)

    def info(self, conn_id: str, vendor: str) -> ConnectionInfo:
        """The database of the connection. Raises `connection-unusable`."""
        try:
            extra = json.loads(self.extra or "{}")
        except ValueError:
            extra = {}
        return converted(self, extra if isinstance(extra, dict) else {}, conn_id, vendor)


class Connections:
    """Looks up connections by id. Without `api`, only in the environment."""

    def __init__(self, api: AirflowApi | None) -> None:
        self._api = api

    def __call__(self, conn_id: str, vendor: str) -> ConnectionInfo:
        """Raises `ConnectionUnknown`, `ConnectionNotGiven`, `connection-unusable`, `ApiUnreachable`."""
        variable = f"AIRFLOW_CONN_{conn_id.upper()}"
        if text := os.environ.get(variable):
            return from_variable(text, conn_id).info(conn_id, vendor)
        if self._api is None:
            raise ConnectionNotGiven(conn_id, variable)
        entry = airflow.connection(self._api, conn_id)
        if entry is None:
            raise connection_unknown(conn_id)
        return _stored(entry, password=None).info(conn_id, vendor)


def from_variable(text: str, conn_id: str) -> StoredConnection:
    """Parses a connection in the format of Airflow's variables: JSON or a URI. Raises `connection-unusable`."""
    try:
        if text.lstrip().startswith("{"):
            values = json.loads(text)
            return _stored(values, values.get("password"))
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise connection_unusable(conn_id, "in the environment is neither JSON nor a URI.") from None
    options = dict(parse_qsl(parts.query))
    kind = parts.scheme.replace("-", "_")
    return StoredConnection(
        "postgres" if kind == "postgresql" else kind,
        unquote(parts.hostname or ""),
        port,
        unquote(parts.path.removeprefix("/")),
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        options.get("__extra__") or json.dumps(options),
    )


def _stored(values: Mapping[str, Any], password: str | None) -> StoredConnection:
    extra = values.get("extra")
    port = values.get("port")
    return StoredConnection(
        str(values.get("conn_type")),
        values.get("host"),
        int(port) if port else None,
        values.get("schema"),
        values.get("login"),
        password,
        json.dumps(extra) if isinstance(extra, dict) else extra,
    )
