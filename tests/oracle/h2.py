"""H2, a database in Java, in its Oracle mode: an independent parser of Oracle's plain DML and queries.

H2 has no PL/SQL, no LONG, no dictionary views and no packages of Oracle. `stand_in_h2.sql` creates views, `REWRITTEN`
replaces a few functions, and `NOT_TAKEN` of `test_on_h2.py` and `NOT_KEPT` here name the rest.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JJavaError

from devstack import machine
from sluice.database.session import PLAIN, SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.vendors.common.session import Result
from sluice.vendors.oracle import errors
from sluice.vendors.oracle.session import BIND, EmptyLob, OracleSession, Value, literal
from sluice.vendors.oracle.sessions import OracleSessions
from sluice.vendors.oracle.vendor import Oracle

STAND_IN = Path(__file__).with_name("stand_in_h2.sql")
SETTINGS = "MODE=Oracle;DEFAULT_NULL_ORDERING=HIGH;NON_KEYWORDS=VALUE;DB_CLOSE_DELAY=-1;TIME ZONE=UTC"

NOT_KEPT = {
    "test_two_loaders_never_claim_the_same_block": "SKIP LOCKED is not known",
    "test_every_value_is_kept_and_read_back": "neither a function that comes with a query nor IS NAN is known",
    "test_any_value_is_kept_found_by_its_former_value_and_read_back": "the same",
    "test_each_session_has_a_scratch_table_of_its_own": "a temporary table has the same rows in all sessions",
}
"""Tests of the contract that fail on it, and why. The list may only get shorter: one that passes is a failure."""

REWRITTEN = {
    r"SYS_EXTRACT_UTC\(SYSTIMESTAMP\)": "LOCALTIMESTAMP",
    r"TO_[BC]LOB\(": "COALESCE(",
    r"TO_BINARY_DOUBLE\(([^()]*)\)": r"CAST(\1 AS DOUBLE PRECISION)",
    r"DBMS_LOB\.COMPARE\(([^,]*), (.*?)\) = 0": r"\1 = \2",
    r"DBMS_LOB\.GETLENGTH\(": "LENGTH(",
    r"STANDARD_HASH\(": "HASH('MD5', ",
    r"DBMS_CRYPTO\.HASH\(": "HASH('MD5', ",
    r", ('MD5'|2)\)": ")",
    r"TO_NUMBER\((SUBSTR\(.*?, \d+, 15\)), 'X{15}'\)": r"CAST(HEXTORAW('0' || \1) AS BIGINT)",
    r"^SET CONSTRAINTS .*$": "SELECT 1 FROM DUAL",
    r"\s+FOR UPDATE SKIP LOCKED$": "",
    r" PURGE$": "",
}
"""Statements, by a pattern, that H2 does not run as they are, and what is run in their place."""

CODES = {
    23505: "ORA-00001", 23502: "ORA-01400", 23506: "ORA-02291", 23503: "ORA-02292", 23513: "ORA-02290",
    22001: "ORA-12899", 22003: "ORA-01438", 22018: "ORA-01722", 42102: "ORA-00942", 42122: "ORA-00904",
    42101: "ORA-00955", 50200: "ORA-00054", 40001: "ORA-00060",
}  # fmt: skip
"""What Oracle says in place of a number of H2's."""


class H2:
    """The database engine, in a Java process; it ends with `close`, or with this process."""

    def __init__(self) -> None:
        machine.ensure_h2()
        java = machine.ensure_java(os.environ) / "bin" / "java"
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._gateway = JavaGateway.launch_gateway(
            classpath=str(machine.H2), java_path=str(java), die_on_exit=True, enable_auth=True, javaopts=options
        )

    def connect(self, name: str) -> JavaObject:
        connection = self._gateway.jvm.java.sql.DriverManager.getConnection(f"jdbc:h2:mem:{name};{SETTINGS}")
        connection.setAutoCommit(False)
        return connection

    def database(self, name: str) -> ConnectionInfo:
        """Creates a database, with the stand-ins for the rest of Oracle."""
        info = ConnectionInfo("oracle", "h2", 0, name, "sluice", "")
        ENGINES[name] = self
        with connect(info, application="stand-in") as session:
            for statement in STAND_IN.read_text().split(";\n"):
                session.run(statement)
        return info

    def close(self) -> None:
        self._gateway.shutdown()


ENGINES: dict[str, H2] = {}
"""By the name of a database."""


class H2Session(OracleSession):
    """A session of the tests: like Oracle's, but over JDBC."""

    def __init__(self, info: ConnectionInfo, options: SessionOptions):
        super().__init__(info, options)
        self.driver = ENGINES[info.database].connect(info.database)

    @cached_property
    def schema(self) -> str:
        return "PUBLIC"

    @property
    def closed(self) -> bool:
        return bool(self.driver.isClosed())

    @property
    def broken(self) -> bool:
        return False

    def close(self) -> None:
        self.driver.close()

    def _run(self, query: str, values: Mapping[str, Value], *, first: bool) -> Result:
        (_, *rows), count = self._fetched(query, values)
        return Result(rows, count)

    def stream(self, query: str, values: Mapping[str, Value] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        with self._alone():
            (names, *rows), _ = self._fetched(query, values or {})
        yield [names]
        if rows:
            yield rows

    def _run_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> list[int]:
        return [self._fetched(query, row)[1] for row in rows]

    def _fetched(self, query: str, values: Mapping[str, Value]) -> tuple[list[tuple[Any, ...]], int]:
        with self._classified():
            statement = self.driver.createStatement()
            try:
                if not statement.execute(worded(query, values)):
                    return [()], int(statement.getUpdateCount())
                found = statement.getResultSet()
                width = range(1, found.getMetaData().getColumnCount() + 1)
                rows = [tuple(found.getMetaData().getColumnLabel(place) for place in width)]
                while found.next():
                    rows.append(tuple(_read(found.getObject(place)) for place in width))
                return rows, len(rows) - 1
            finally:
                statement.close()

    def result_of(self, call: str, values: Mapping[str, Value]) -> int:
        """Always grants DBMS_LOCK: only one test at a time uses a database."""
        assert call.startswith("DBMS_LOCK."), call
        return 0

    def call(self, procedure: str, values: Mapping[str, Value]) -> None:
        """Does nothing: H2 has no packages."""

    def _commit(self) -> None:
        with self._classified():
            self.driver.commit()

    def _rollback(self) -> None:
        with self._classified():
            self.driver.rollback()

    def begin_read_only(self) -> None:
        """Does nothing: no test changes a row during a read-only transaction."""
        self._rollback()
        self._reading = True

    def limit_lock_waits(self, seconds: float) -> None:
        """Does nothing: the database sets the limit."""

    @contextmanager
    def _classified(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            thrown = error.java_exception
            code, text = CODES.get(thrown.getErrorCode(), ""), str(thrown.getMessage())
            raise errors.made(errors.code_of(code), f"{code}: {text}" if code else text, self.server) from None


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, options: SessionOptions = PLAIN
) -> H2Session:
    """Like `sluice.vendors.oracle.sessions.connect`."""
    del application, autocommit
    return H2Session(info, options)


class _Sessions(OracleSessions):
    """Oracle's sessions, opened on H2."""

    connect = staticmethod(connect)


class OnH2(Oracle):
    """The product's vendor, with sessions on H2."""

    sessions = _Sessions()


def worded(query: str, values: Mapping[str, Value]) -> str:
    """A statement for H2, with its values as literals: H2 must be told the type of a parameter in a query."""
    text = query.strip()
    for pattern, otherwise in REWRITTEN.items():
        text = re.sub(pattern, otherwise, text, flags=re.DOTALL)
    return BIND.sub(lambda found: _literal(values[found[1]]) if found[1] else found[0], text)


def _literal(value: Value) -> str:
    if value is None or value == "":
        return "NULL"
    if isinstance(value, EmptyLob):
        return "CAST(X'' AS BLOB)" if value is EmptyLob.BYTES else "CAST(X'' AS CLOB)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return literal(value) if isinstance(value, str) else str(value)


def _read(value: Any) -> Any:
    """Converts a value as Oracle's driver does."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value) or None
    if isinstance(value, JavaObject):
        kind = value.getClass().getName()
        if "Clob" in kind:
            return value.getSubString(1, value.length()) or None
        if "Blob" in kind:
            return bytes(value.getBytes(1, value.length())) or None
        return datetime.fromisoformat(value.toString()).replace(tzinfo=UTC)
    return None if value == "" else value


ON_H2 = OnH2()
