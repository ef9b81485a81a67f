"""The Oracle server that `SLUICE_TEST_ORACLE` names, as `oracle://sys:password@host:1521/service`.

An account of an administrator's: each test gets an account of its own, which is dropped at its end with all it has.
"""

import os
import secrets
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote, urlsplit

import oracledb

from sluice.model.connection import ConnectionInfo
from tests.oracle import ivorysql

ENVIRONMENT = "SLUICE_TEST_ORACLE"
PRIVILEGES = ("CREATE SESSION", "CREATE TABLE", "CREATE SEQUENCE", "CREATE VIEW", "CREATE PROCEDURE", "CREATE TRIGGER")
PACKAGES = ("DBMS_LOCK", "DBMS_CRYPTO")


@dataclass
class OracleServer:
    """One service of a running server."""

    url: str
    made: list[str] = field(default_factory=list)

    @property
    def _parts(self) -> ConnectionInfo:
        url = urlsplit(self.url)
        assert url.hostname and url.username and url.path.strip("/"), (
            f"{ENVIRONMENT} is oracle://user:password@host/service"
        )
        return ConnectionInfo(
            "oracle",
            url.hostname,
            url.port or 1521,
            url.path.strip("/"),
            unquote(url.username),
            unquote(url.password or ""),
            {"sslmode": "disable"},
        )

    def administrator(self) -> oracledb.Connection:
        info = self._parts
        mode = oracledb.AUTH_MODE_SYSDBA if info.user.lower() == "sys" else oracledb.AUTH_MODE_DEFAULT
        return oracledb.connect(
            user=info.user,
            password=info.password,
            host=info.host,
            port=info.port,
            service_name=info.database,
            mode=mode,
        )

    def version(self) -> str:
        with self.administrator() as connection:
            return f"Oracle {connection.version}"

    def database(self) -> ConnectionInfo:
        """An account with an empty schema."""
        name, password = f"SLUICE_{secrets.token_hex(6).upper()}", secrets.token_urlsafe(20)
        with self.administrator() as connection, connection.cursor() as cursor:
            cursor.execute(f'CREATE USER {name} IDENTIFIED BY "{password}"')
            self.made.append(name)
            cursor.execute(f"GRANT {', '.join(PRIVILEGES)}, UNLIMITED TABLESPACE TO {name}")
            for package in PACKAGES:
                cursor.execute(f"GRANT EXECUTE ON SYS.{package} TO {name}")
        info = self._parts
        return ConnectionInfo("oracle", info.host, info.port, info.database, name, password, dict(info.options))

    def drop(self) -> None:
        with self.administrator() as connection, connection.cursor() as cursor:
            for name in self.made:
                cursor.execute(f"DROP USER {name} CASCADE")
        self.made.clear()


def wanted() -> OracleServer | None:
    """None where no server is named."""
    url = os.environ.get(ENVIRONMENT)
    return OracleServer(url) if url else None


class Named(Protocol):
    """A server, or programs of one, that a variable names."""

    def version(self) -> str: ...


def named() -> dict[str, Named]:
    """By the words that stand in the tests' names."""
    found: dict[str, Named | None] = {"oracle": wanted(), "ivorysql": ivorysql.installation()}
    return {name: server for name, server in found.items() if server is not None}
