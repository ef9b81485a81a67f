"""The connections of the devstack's Airflow with their passwords, read and decrypted from its database.

Airflow's API shows no password, and its command line takes seconds to start.
"""

from functools import cached_property

import psycopg
from cryptography.fernet import Fernet, InvalidToken

from devstack.airflow import DATABASE, ROLE
from devstack.stack import Stack
from sluice.cli.connections import StoredConnection, connection_unknown
from sluice.errors import SluiceError, Transient
from sluice.model.connection import ConnectionInfo

WAIT_SECONDS = 3


class Connections:
    """Finds connections by id. It reads Airflow's database once, at the first call."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    def __call__(self, conn_id: str, vendor: str) -> ConnectionInfo:
        """Raises `ConnectionUnknown`, `connection-unusable`, `Transient` while Airflow's database is down."""
        own = conn_id.removeprefix("demo_")
        if isinstance(self._rows, SluiceError) or conn_id not in self._rows:
            # The stack knows its own servers; it may run without Airflow.
            if conn_id.startswith("demo_") and own in self.stack.services.places:
                return self.stack.connection(own)
            raise self._rows if isinstance(self._rows, SluiceError) else connection_unknown(conn_id)
        return self._rows[conn_id].info(conn_id, vendor)

    @cached_property
    def _rows(self) -> dict[str, StoredConnection] | SluiceError:
        if not self.stack.blueprint.airflow:
            return {}
        info = self.stack.airflow.metadata.info(DATABASE, ROLE)
        try:
            with psycopg.connect(
                host=info.host, port=info.port, dbname=info.database, user=info.user, password=info.password,
                connect_timeout=WAIT_SECONDS, options=f"-c statement_timeout={WAIT_SECONDS}s",
            ) as connection:  # fmt: skip
                rows = connection.execute(
                    "SELECT conn_id, conn_type, host, port, schema, login, password, is_encrypted, extra,"
                    " is_extra_encrypted FROM connection"
                ).fetchall()
        except psycopg.Error as error:
            return Transient(
                f"Airflow's connections cannot be read from its database: {' '.join(str(error).split())}",
                code="connections-unavailable",
            )
        cipher = Fernet(self.stack.airflow.fernet_key)
        return {
            name: StoredConnection(
                kind, host, port, schema, login, _plain(cipher, password, hidden), _plain(cipher, extra, covered)
            )
            for name, kind, host, port, schema, login, password, hidden, extra, covered in rows
        }


def _plain(cipher: Fernet, text: str | None, encrypted: bool) -> str | None:
    if not text or not encrypted:
        return text
    try:
        return cipher.decrypt(text.encode()).decode()
    except InvalidToken:
        return None
