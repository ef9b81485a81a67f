"""Sessions on Oracle servers over python-oracledb, in its thin mode: no client of Oracle's is needed."""

import contextlib
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import oracledb

from sluice.database.session import PLAIN, SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.vendors.oracle.errors import converted
from sluice.vendors.oracle.session import Found, OracleSession, Value, binds_of

SETTINGS = (
    "NLS_NUMERIC_CHARACTERS = '.,' NLS_SORT = BINARY NLS_COMP = BINARY NLS_CALENDAR = GREGORIAN "
    "NLS_DATE_FORMAT = 'YYYY-MM-DD HH24:MI:SS' TIME_ZONE = '+00:00'"
)
DEFINITION_LOCK_SECONDS = 30
LONG_TEXT = 8_000
"""From so many characters on, four bytes each, a text goes as a LOB: of a plain one a statement takes 32,767 bytes."""
ROWS_AT_ONCE = 2_000


class DriverSession(OracleSession):
    """Over a connection of the driver."""

    def __init__(self, driver: oracledb.Connection, info: ConnectionInfo, options: SessionOptions):
        super().__init__(info, options)
        self.driver = driver
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed or not self.driver.is_healthy()

    @property
    def broken(self) -> bool:
        return not self._closed and not self.driver.is_healthy()

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(oracledb.Error, OSError):
            self.driver.close()

    def _run(self, query: str, values: Mapping[str, Value], *, first: bool) -> Found:
        with self._classified(), self.driver.cursor() as cursor:
            if first:
                cursor.prefetchrows, cursor.arraysize = 0, 1
            else:
                cursor.prefetchrows = cursor.arraysize = ROWS_AT_ONCE
            cursor.setinputsizes(**sizes([values]))
            cursor.execute(query, dict(values))
            if cursor.description is None:
                return Found([], cursor.rowcount)
            rows = [row for row in [cursor.fetchone()] if row is not None] if first else cursor.fetchall()
            return Found([tuple(map(_read, row)) for row in rows], len(rows))

    def stream(self, query: str, values: Mapping[str, Value] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        given = {} if values is None else dict(values)
        with self._alone(), self._classified(), self.driver.cursor() as cursor:
            cursor.prefetchrows = cursor.arraysize = ROWS_AT_ONCE
            cursor.setinputsizes(**sizes([given]))
            cursor.execute(query, given)
            yield [tuple(column[0] for column in cursor.description)]
            while rows := cursor.fetchmany():
                yield [tuple(map(_read, row)) for row in rows]

    def _run_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> list[int]:
        names = binds_of(query)
        with self._classified(), self.driver.cursor() as cursor:
            cursor.setinputsizes(**sizes(rows))
            cursor.executemany(query, [{name: row[name] for name in names} for row in rows], arraydmlrowcounts=True)
            return list(cursor.getarraydmlrowcounts())

    def result_of(self, call: str, values: Mapping[str, Value]) -> int:
        with self._alone(), self._classified(), self.driver.cursor() as cursor:
            result = cursor.var(int)
            cursor.execute(f"BEGIN :result := {call}; END;", {**values, "result": result})
            return int(result.getvalue())

    def call(self, procedure: str, values: Mapping[str, Value]) -> None:
        with self._alone(), self._classified(), self.driver.cursor() as cursor:
            cursor.execute(f"BEGIN {procedure}; END;", dict(values))

    def _commit(self) -> None:
        with self._classified():
            self.driver.commit()

    def _rollback(self) -> None:
        with self._classified():
            self.driver.rollback()

    def limit_statements(self, seconds: float) -> None:
        """A statement that takes longer is cancelled: of each message to the server that is."""
        self.driver.call_timeout = max(1, round(seconds * 1000))

    def cancel(self) -> None:
        """Cancels what it executes. From any thread; never raises."""
        with contextlib.suppress(oracledb.Error, OSError):
            self.driver.cancel()

    @contextmanager
    def _classified(self) -> Iterator[None]:
        try:
            yield
        except (oracledb.Error, OSError) as error:
            raise converted(error, self.place) from None


def sizes(rows: Sequence[Mapping[str, Value]]) -> dict[str, Any]:
    """What the driver would take for something else: times with a fraction for DATE, long texts for LONG."""
    found: dict[str, Any] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, datetime):
                found[name] = oracledb.DB_TYPE_TIMESTAMP
            elif isinstance(value, str) and len(value) > LONG_TEXT:
                found[name] = oracledb.DB_TYPE_CLOB
            elif isinstance(value, bytes) and len(value) > LONG_TEXT:
                found[name] = oracledb.DB_TYPE_BLOB
    return found


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, options: SessionOptions = PLAIN
) -> DriverSession:
    """A session under settings of Sluice's own. Raises `DatabaseUnreachable`, `DatabaseRefused`.

    The connection's database is the name of a service.
    """
    del autocommit  # what is in no transaction() commits by itself
    oracledb.defaults.fetch_lobs = False
    try:
        driver = oracledb.connect(
            user=info.user,
            password=info.password,
            host=info.host,
            port=info.port,
            service_name=info.database,
            tcp_connect_timeout=float(info.options.get("connect_timeout", "10")),
            program="sluice",
            **_tls(info),
        )
    except (oracledb.Error, OSError) as error:
        raise converted(error, info.place) from None
    session = DriverSession(driver, info, options)
    try:
        session.run(f"ALTER SESSION SET {SETTINGS}")
        waits = DEFINITION_LOCK_SECONDS if options.lock_seconds is None else options.lock_seconds
        session.limit_lock_waits(waits)
        driver.module = application[:48]
        if options.origin:
            session.name_origin(options.origin)
        if options.statement_seconds is not None:
            session.limit_statements(options.statement_seconds)
    except BaseException:
        session.close()
        raise
    return session


def _tls(info: ConnectionInfo) -> dict[str, Any]:
    """The driver's arguments for TLS. Its own encryption of plain TCP the thin mode does not have."""
    mode = info.tls_mode
    if mode in ("disable", "allow", "prefer"):
        return {"protocol": "tcp"}
    context = ssl.create_default_context(cafile=info.options.get("sslrootcert"))
    context.check_hostname = mode == "verify-full"
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    if certificate := info.options.get("sslcert"):
        context.load_cert_chain(certificate, info.options.get("sslkey"))
    return {"protocol": "tcps", "ssl_context": context, "ssl_server_dn_match": mode == "verify-full"}


def _read(value: Any) -> Any:
    """Times of Sluice's own columns are in UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
