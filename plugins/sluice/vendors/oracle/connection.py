"""Sessions on Oracle servers over python-oracledb: in its thin mode, which needs no client of Oracle's, unless the
connection asks for the thick one."""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import oracledb

from sluice.database.session import PLAIN, SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.vendors.common.session import Result, tls_context
from sluice.vendors.oracle.errors import converted
from sluice.vendors.oracle.session import EmptyLob, OracleSession, Value, binds_of

SETTINGS = (
    "NLS_NUMERIC_CHARACTERS = '.,' NLS_SORT = BINARY NLS_COMP = BINARY NLS_CALENDAR = GREGORIAN "
    "NLS_DATE_FORMAT = 'YYYY-MM-DD HH24:MI:SS' TIME_ZONE = '+00:00'"
)
DEFINITION_LOCK_SECONDS = 30
TEXT_BYTES, RAW_BYTES = 4_000, 2_000
"""Longer values are sent as a LOB. The driver would send a LONG, which a statement accepts only as a column's value,
not in an expression (ORA-01461), unless the database has MAX_STRING_SIZE = EXTENDED."""
LOBS = frozenset({oracledb.DB_TYPE_CLOB, oracledb.DB_TYPE_BLOB})
ROWS_AT_ONCE = 2_000
KEEPALIVE_MINUTES = 1
"""After so many minutes of silence the server is probed; otherwise a client would wait for a dead one forever."""


class DriverSession(OracleSession):
    """A session over a connection of the driver."""

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

    def _run(self, query: str, values: Mapping[str, Value], *, first: bool) -> Result:
        with self._classified(), self.driver.cursor() as cursor:
            if first:
                cursor.prefetchrows, cursor.arraysize = 0, 1
            else:
                cursor.prefetchrows = cursor.arraysize = ROWS_AT_ONCE
            cursor.setinputsizes(**sizes([values]))
            cursor.execute(query, bound(values))
            if cursor.description is None:
                return Result([], cursor.rowcount)
            rows = [row for row in [cursor.fetchone()] if row is not None] if first else cursor.fetchall()
            return Result([tuple(map(_read, row)) for row in rows], len(rows))

    def stream(self, query: str, values: Mapping[str, Value] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        given = {} if values is None else dict(values)
        with self._alone(), self._classified(), self.driver.cursor() as cursor:
            cursor.prefetchrows = cursor.arraysize = ROWS_AT_ONCE
            cursor.setinputsizes(**sizes([given]))
            cursor.execute(query, bound(given))
            yield [tuple(column[0] for column in cursor.description)]
            while rows := cursor.fetchmany():
                yield [tuple(map(_read, row)) for row in rows]

    def _run_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> list[int]:
        names, counts = binds_of(query), [0] * len(rows)
        given = [{name: row[name] for name in names} for row in rows]
        with self._classified(), self.driver.cursor() as cursor:
            for indices in without_and_with_lobs(given):
                some = [given[index] for index in indices]
                cursor.setinputsizes(**sizes(some))
                cursor.executemany(query, list(map(bound, some)), arraydmlrowcounts=True)
                for index, count in zip(indices, cursor.getarraydmlrowcounts(), strict=True):
                    counts[index] = count
        return counts

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
        """Limits each statement, more exactly each message to the server; a longer one is canceled."""
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
            raise converted(error, self.server) from None


def sizes(rows: Sequence[Mapping[str, Value]]) -> dict[str, Any]:
    """The types of parameters that the driver would otherwise guess wrongly: times with a fraction as DATE, long
    values as LONG, an empty LOB as NULL."""
    types: dict[str, Any] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, datetime):
                types[name] = oracledb.DB_TYPE_TIMESTAMP
            elif value is EmptyLob.TEXT or (isinstance(value, str) and _long(value)):
                types[name] = oracledb.DB_TYPE_CLOB
            elif value is EmptyLob.BYTES or (isinstance(value, bytes) and len(value) > RAW_BYTES):
                types[name] = oracledb.DB_TYPE_BLOB
    return types


def _long(text: str) -> bool:
    return 4 * len(text) > TEXT_BYTES and len(text.encode()) > TEXT_BYTES


def without_and_with_lobs(rows: Sequence[Mapping[str, Value]]) -> list[list[int]]:
    """The places of rows that are sent together. If one value of a parameter is a LOB, all are, each in several
    messages to the server."""
    groups: dict[bool, list[int]] = {False: [], True: []}
    for index, row in enumerate(rows):
        groups[not LOBS.isdisjoint(sizes([row]).values())].append(index)
    return [indices for indices in groups.values() if indices]


def bound(values: Mapping[str, Value]) -> dict[str, Any]:
    """The values for the driver. It makes an empty LOB of '' that is bound as a LOB."""
    return {name: value.value if isinstance(value, EmptyLob) else value for name, value in values.items()}


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, options: SessionOptions = PLAIN
) -> DriverSession:
    """A session under settings of Sluice's own. Raises `DatabaseUnreachable`, `DatabaseRefused`, `ServerUnproved`."""
    del autocommit  # what is in no transaction() commits at once
    oracledb.defaults.fetch_lobs = False
    try:
        driver = opened(info)
    except (oracledb.Error, OSError) as error:
        raise converted(error, info.server) from None
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


def opened(info: ConnectionInfo, mode: int = oracledb.AUTH_MODE_DEFAULT) -> oracledb.Connection:
    """The driver's connection; `mode`: as what kind of administrator. Raises the driver's errors, `TimeoutError`.

    In its own thread: for a server that takes a connection and then says nothing the driver waits forever.
    """
    if thick(info):
        directories = {name: info.options.get(f"thick_mode_{name}") for name in ("lib_dir", "config_dir")}
        oracledb.init_oracle_client(**directories)
    elif oracledb.is_thin_mode():
        # Else all others wait until a process's first connection has come about.
        oracledb.enable_thin_mode()  # type: ignore[no-untyped-call]  # the driver says no types of it
    opened: Future[oracledb.Connection] = Future()

    def open_it() -> None:
        try:
            connection = oracledb.connect(user=info.user, password=info.password, mode=mode, **address(info))
        except BaseException as error:
            opened.set_exception(error)
        else:
            opened.set_result(connection)

    threading.Thread(target=open_it, name="sluice-connect", daemon=True).start()
    seconds = connect_seconds(info)
    try:
        return opened.result(seconds)
    except TimeoutError:
        opened.add_done_callback(_close)
        raise TimeoutError(f"the server did not answer within {seconds:g} s") from None


def _close(opened: "Future[oracledb.Connection]") -> None:
    """Closes a connection that came too late."""
    with contextlib.suppress(oracledb.Error, OSError):
        opened.result().close()


def connect_seconds(info: ConnectionInfo) -> float:
    """How long connecting may take."""
    return float(info.options.get("connect_timeout", "10"))


def thick(info: ConnectionInfo) -> bool:
    """Whether Oracle's own client is used: for all sessions of a process, once one of them needs it."""
    return info.options.get("thick_mode", "").lower() == "true"


def address(info: ConnectionInfo) -> dict[str, Any]:
    """The driver's arguments for the address of the database, and for its proof of identity."""
    return {
        "host": info.host,
        "port": info.port,
        "sid" if "sid" in info.options else "service_name": info.database,
        "tcp_connect_timeout": connect_seconds(info),
        "expire_time": KEEPALIVE_MINUTES,
        "program": "sluice",
        **_tls(info),
    }


def _tls(info: ConnectionInfo) -> dict[str, Any]:
    """The parameters for TLS. For plain TCP, only the thick mode has Oracle's own encryption. A wallet, and in the
    thick mode the client's own settings, have the authorities and the certificate in place of files."""
    mode = info.tls_mode
    if mode in ("disable", "allow", "prefer"):
        return {"protocol": "tcp"}
    own = ("wallet_location", "wallet_password", "ssl_server_cert_dn")
    given = {name: info.options[name] for name in own if name in info.options}
    if thick(info) or "wallet_location" in given:
        return {"protocol": "tcps", "ssl_server_dn_match": mode == "verify-full", **given}
    context = tls_context(info)
    return {"protocol": "tcps", "ssl_context": context, "ssl_server_dn_match": mode == "verify-full", **given}


def _read(value: Any) -> Any:
    """Times of Sluice's own columns are in UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
