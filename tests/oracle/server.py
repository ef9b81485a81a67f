"""The Oracle server that `SLUICE_TEST_ORACLE` names, as `oracle://sys:password@host:1521/service`.

The account is an administrator's: each test gets its own account, which is dropped afterwards with all its
objects.
"""

import os
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote, urlsplit

import oracledb

from sluice import sql_files
from sluice.model.connection import ConnectionInfo
from tests.oracle import ivorysql

ENVIRONMENT = "SLUICE_TEST_ORACLE"
START_SECONDS = 60.0
"""How long a server that was just started may take to answer."""
_REFUSED = ("ORA-01017", "ORA-01031", "ORA-28000", "ORA-28001", "ORA-28009")
"""What does not pass by waiting."""


class NoAnswer(Exception):
    """The server does not answer, or does not take the account."""


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
            tcp_connect_timeout=START_SECONDS,
        )

    def version(self) -> str:
        return self.awaited(0)

    def awaited(self, seconds: float = START_SECONDS) -> str:
        """The release of the server, if it answers within `seconds`. Raises `NoAnswer`."""
        until = time.monotonic() + seconds
        while True:
            try:
                with self.administrator() as connection:
                    return f"Oracle {connection.version}"
            except (oracledb.Error, OSError) as error:
                reason = " ".join(str(error).split())
            if time.monotonic() > until or reason.startswith(_REFUSED):
                raise NoAnswer(f"{self._parts.server}: {reason}")
            time.sleep(0.5)

    def database(self, *, slave: bool = False) -> ConnectionInfo:
        """Creates an account with an empty schema, and with the privileges of a master or of a slave."""
        name, password = f"SLUICE_{secrets.token_hex(6).upper()}", secrets.token_urlsafe(20)
        with self.administrator() as connection, connection.cursor() as cursor:
            cursor.execute(f'CREATE USER {name} IDENTIFIED BY "{password}"')
            self.made.append(name)
            cursor.execute(f"GRANT UNLIMITED TABLESPACE TO {name}")
            for statement in grants(name, slave=slave):
                cursor.execute(statement)
        info = self._parts
        return ConnectionInfo("oracle", info.host, info.port, info.database, name, password, dict(info.options))

    def drop(self) -> None:
        with self.administrator() as connection, connection.cursor() as cursor:
            for name in self.made:
                cursor.execute(f"DROP USER {name} CASCADE")
        self.made.clear()


def grants(account: str, *, slave: bool = False) -> list[str]:
    """The statements that grant a master's or a slave's privileges to an account, from the file that an administrator
    runs."""
    text = re.sub(r"--.*", "", sql_files.render("oracle", "grants_slave" if slave else "grants", account=account))
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


def wanted() -> OracleServer | None:
    """The named server; None if the variable is not set."""
    url = os.environ.get(ENVIRONMENT)
    return OracleServer(url) if url else None


class Named(Protocol):
    """A server, or its programs, named by an environment variable."""

    def version(self) -> str: ...


def named() -> dict[str, Named]:
    """The named servers, by the word that test names use."""
    found: dict[str, Named | None] = {"oracle": wanted(), "ivorysql": ivorysql.installation()}
    return {name: server for name, server in found.items() if server is not None}
