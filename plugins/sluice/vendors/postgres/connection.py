"""Sessions on PostgreSQL."""

import contextlib
import functools
import hashlib
import os
import secrets
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.abc import PQGen

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.errors import adopt

CANONICAL: dict[str, str] = {
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "pg_catalog, pg_temp",
    "standard_conforming_strings": "on",
    "xmloption": "content",
    "quote_all_identifiers": "off",
    "array_nulls": "on",
    "client_encoding": "UTF8",
}
"""Settings that make the texts of values equal in all sessions, on both databases."""

PATIENT: dict[str, str] = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
"""Overrides time-outs of the role or server, because a large window may take long. The keepalives make the server end
the session of a client whose machine is gone within a minute, and release its locks."""

_SOCKET = frozenset(name for name in PATIENT if name.startswith("tcp_"))
"""Settings of the server's socket, which over a Unix socket always read as 0."""

WRITING: dict[str, str] = {"default_transaction_read_only": "off"}
"""A slave may be read-only for all others. A standby stays read-only."""


class PostgresSession(psycopg.Connection[Any]):
    """A connection that raises the errors of `sluice.database.errors` (see `adopt`), which name the server."""

    vendor = "postgres"
    server = "the database"
    mask: tuple[str, ...] = ()
    """Columns whose values no message may show."""
    trusts_owners = True
    """As of `ConnectionInfo`."""
    pruned = False
    """Whether the records of its reader's former sessions are deleted."""
    _polling: psycopg.Cursor[Any] | None = None

    @functools.cached_property
    def run(self) -> str:
        """A random name of this session, under which a master records how far its reader has come."""
        return secrets.token_hex(8)

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """Waits for the server; all that is sent or received passes through this method."""
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.Error as error:
            adopt(error, self.server, self.mask)
            raise

    def cursor(self, *args: Any, **options: Any) -> Any:
        try:
            return super().cursor(*args, **options)
        except psycopg.Error as error:  # it may be closed
            adopt(error, self.server, self.mask)
            raise

    def poll(self, query: LiteralString) -> object:
        """The value of a statement that is run many times a second. Keeps its cursor: making one costs a third."""
        if self._polling is None:
            self._polling = self.cursor()
        row = self._polling.execute(query).fetchone()
        assert row is not None
        return row[0]

    def execute_many(self, query: LiteralString, rows: Sequence[Mapping[str, object]], /) -> None:
        self.cursor().executemany(query, rows)

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,
        *,
        durable: bool | None = None,
        first: Callable[[], object] | None = None,
    ) -> Iterator[Any]:
        if first is not None and not self.autocommit:
            with self._begun(durable, first):
                yield None
            return
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if durable is not None:
                self.execute(_durable(durable))
            if first is not None:
                first()
            yield transaction

    @contextmanager
    def _begun(self, durable: bool | None, first: Callable[[], object]) -> Iterator[None]:
        """A transaction whose BEGIN travels with the statements of `first`."""
        self.expect_idle()
        self.autocommit = True  # else the driver sends its own BEGIN and waits for it
        try:
            try:
                with together(self):
                    self.execute("BEGIN")
                    if durable is not None:
                        self.execute(_durable(durable))
                    first()
                yield
            except BaseException:
                with contextlib.suppress(psycopg.Error):  # the error that led here is the one to tell
                    self.rollback()
                raise
            self.commit()
        finally:
            if self._is_idle:
                self.autocommit = False

    @property
    def _is_idle(self) -> bool:
        return self.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    def expect_idle(self) -> None:
        if not self._is_idle:
            raise ValueError("This service makes its own transactions; commit or roll back yours first.")

    def ping(self) -> None:
        self.execute("SELECT 1")

    def clock(self) -> datetime:
        row = self.execute("SELECT pg_catalog.clock_timestamp()").fetchone()
        assert row is not None
        now: datetime = row[0]
        return now

    def limit_lock_waits(self, seconds: float) -> None:
        self.execute(f"SET lock_timeout = '{int(seconds * 1000)}ms'".encode())

    @contextmanager
    def pipeline(self) -> Iterator[psycopg.Pipeline]:
        with classified(self), super().pipeline() as pipeline:
            yield pipeline


def native(session: Session) -> psycopg.Connection[Any]:
    """The session as the driver's connection."""
    connection: object = session
    assert isinstance(connection, psycopg.Connection), "a session of another vendor"
    return connection


@contextmanager
def classified(session: Session) -> Iterator[None]:
    """Raises errors of the driver as `PostgresSession` does, for calls that do not pass through its methods."""
    try:
        yield
    except psycopg.Error as error:
        if isinstance(session, PostgresSession):
            adopt(error, session.server, session.mask)
        raise


@contextmanager
def together(session: Session) -> Iterator[None]:
    """Sends the statements of the block without waiting for each. Their results can be read after it.

    Raises the error of the first that failed; those after it were not run.
    """
    with classified(session), native(session).pipeline() as pipeline:
        try:
            yield
        except psycopg.Error:
            # The statements after the failed one fail because they were skipped.
            with contextlib.suppress(psycopg.Error):
                pipeline.sync()
            raise


def _durable(durable: bool) -> LiteralString:
    return "SET LOCAL synchronous_commit = on" if durable else "SET LOCAL synchronous_commit = off"


_APPLICATION_BYTES = 63


def application_name(text: str) -> str:
    """`text` as `pg_stat_activity` shows it: at most 63 printable bytes, different for different texts."""
    if len(text) <= _APPLICATION_BYTES and text.isascii() and text.isprintable():
        return text
    shown = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{shown[: _APPLICATION_BYTES - len(digest) - 1]}~{digest}"


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, settings: dict[str, str] | None = None
) -> "PostgresSession":
    """Opens a session with the canonical settings, without notices.

    `pg_stat_activity` shows `application`. `settings` adds to the canonical ones or replaces them.
    Raises `DatabaseUnreachable`, `DatabaseRefused`.
    """
    settings = {**CANONICAL, **PATIENT, **WRITING, "client_min_messages": "error", **(settings or {})}
    options = _options(settings)
    try:
        connection = PostgresSession.connect(
            host=info.host,
            port=info.port,
            dbname=info.database,
            user=info.user,
            password=info.password,
            application_name=application_name(application),
            client_encoding="UTF8",
            options=options,
            connect_timeout=int(info.options.get("connect_timeout", "10")),
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            tcp_user_timeout=60_000,
            autocommit=True,
            **{name: value for name, value in _driver_options(info).items() if name != "connect_timeout"},  # type: ignore[arg-type]
        )
    except psycopg.Error as error:
        adopt(error, info.server)
        raise
    connection.server, connection.mask, connection.trusts_owners = info.server, info.mask, info.trusts_owners
    try:
        connection.execute(ensure_settings(settings).encode())
        end_with_client(connection)
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def ensure_settings(settings: Mapping[str, str]) -> str:
    """A statement that gives a session those of `settings` that it lacks, as one behind a pooler does that drops
    `options`, and takes a limit on the length of transactions away, which only releases from 17 on know."""
    values = ", ".join(
        f"({literal(name)}, {literal(value)})" for name, value in settings.items() if name not in _SOCKET
    )
    return sql_files.render("postgres", "ensure_settings", settings=values)


def end_with_client(connection: Session) -> None:
    """Makes the server end a statement soon after its client died, also while it waits for a lock or makes an index.

    Has an effect on PostgreSQL from 14 on, where the operating system reports closed connections.
    """
    with contextlib.suppress(psycopg.errors.InvalidParameterValue):
        connection.execute(
            "SELECT set_config(name, '2s', false) FROM pg_settings WHERE name = 'client_connection_check_interval'"
        )


def uri(info: ConnectionInfo, application: str) -> str:
    """The connection as a URI, for the ADBC driver. It has the password: never log it."""
    options = _options({**CANONICAL, **PATIENT})
    parameters = {
        "application_name": application_name(application),
        "client_encoding": "UTF8",
        "connect_timeout": "10",
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "tcp_user_timeout": "60000",
        **_driver_options(info),
        "options": options,
    }
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    user, password = quote(info.user, safe=""), quote(info.password, safe="")
    host, database = quote(info.host, safe=""), quote(info.database, safe="")
    return f"postgresql://{user}:{password}@{host}:{info.port}/{database}?{query}"


def quoted(*parts: str) -> str:
    """A (qualified) identifier in double quotes: `quoted("a", 'b"c')` is `"a"."b""c"`."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def literal(value: str | int | None) -> str:
    """A literal for statements that take no parameters, such as COPY."""
    return sql.Literal(value).as_string(None)


def _driver_options(info: ConnectionInfo) -> dict[str, str]:
    """The options of the connection, with those for TLS.

    A server that does not prove who it is gets no readable password, unless the connection says so. The certificate
    authorities are those of Python, because the OpenSSL of the driver looks for them in other places.
    """
    options = {**info.options, "sslmode": info.tls_mode}
    if not info.tls_mode.startswith("verify-") and "PGREQUIREAUTH" not in os.environ:
        options.setdefault("require_auth", "!password")
    if info.tls_mode.startswith("verify-") and "sslrootcert" not in options:
        own = os.environ.get("PGSSLROOTCERT") or Path.home() / ".postgresql" / "root.crt"
        authorities = own if Path(own).exists() else ssl.get_default_verify_paths().cafile
        if authorities:
            options["sslrootcert"] = str(authorities)
    return options


def _options(settings: dict[str, str]) -> str:
    # In `options` a backslash escapes spaces and itself. The encoding is a separate parameter.
    escaped = {name: value.replace("\\", "\\\\").replace(" ", "\\ ") for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items() if name != "client_encoding")
