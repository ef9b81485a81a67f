"""IvorySQL: PostgreSQL with Oracle's grammar and PL/SQL, which can run a part of Oracle's statements.

`SLUICE_TEST_IVORYSQL` names the folder of an installation. `stand_in.sql` creates what IvorySQL lacks, `REWRITTEN`
replaces other parts. Such tests prove only our idea of these parts, and docs/oracle.md says so.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.adapt import Dumper

from devstack.ports import HOST, free_port
from devstack.postgres import PostgresServer
from sluice.database.errors import LockNotAvailable
from sluice.database.session import PLAIN, SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.vendors.common.session import Result
from sluice.vendors.oracle import errors
from sluice.vendors.oracle.session import CLAIM, EmptyLob, OracleSession, Value
from sluice.vendors.oracle.sessions import OracleSessions
from sluice.vendors.oracle.vendor import Oracle

STAND_INS = [Path(__file__).with_name(name) for name in ("stand_in.sql", "stand_in_master.sql")]
ENVIRONMENT = "SLUICE_TEST_IVORYSQL"
_ITEM = re.compile(r"TYPE ITEM IS RECORD \((.*?)\);", re.DOTALL)
_PACKAGE = re.compile(r"CREATE OR REPLACE NONEDITIONABLE PACKAGE (?:BODY )?(\w+)")
HOLDS = "holds SCN "
HELD = """
SELECT pg_catalog.split_part(application_name, ' ', 4)::pg_catalog.text FROM pg_catalog.pg_stat_activity
WHERE datname = %(database)s AND application_name LIKE %(holds)s
"""
NEVER_HELD = "00000000-00000000-1"
_BIND = re.compile(r"\"[^\"]*\"|'[^']*'|%|(?<!:):([A-Za-z]\w*)")
CODES = {
    "23505": "ORA-00001", "23502": "ORA-01400", "23503": "ORA-02291", "23514": "ORA-02290", "22001": "ORA-12899",
    "22003": "ORA-01438", "22P02": "ORA-01722", "42P01": "ORA-00942", "42703": "ORA-00904", "42P07": "ORA-00955",
    "55P03": "ORA-00054", "57014": "ORA-01013", "42501": "ORA-01031", "40P01": "ORA-00060", "P0001": "ORA-20000",
}  # fmt: skip
"""What Oracle says in place of a SQLSTATE."""

REWRITTEN = {
    # A function that comes with the query.
    r"WITH FUNCTION .*?\nEND;\s*": "",
    # Formats that are not known.
    r"TO_NUMBER\((SUBSTR\(.*?, \d+, 15\)), 'X{15}'\)": r"hex_number(\1)",
    r"TO_CHAR\(([^()]*), 'TM9'\)": r"plain_text(\1)",
    # TO_CHAR with a format makes a double of a number: digits beyond the fifteenth are lost.
    r"TO_CHAR\(((?:\w+\.)?\"[^\"]*\"), '(FM9*0\.0+)'\)": r"pg_catalog.to_char((\1)::pg_catalog.numeric, '\2')",
    r"EXTRACT\((\w+) FROM ([^()]+)\)": r"part_of('\1', (\2)::text)",
    r"XMLSERIALIZE\(CONTENT ([^()]+) AS CLOB\)": r"(\1)::text",
    r"\b(USER|ALL)_SOURCE\b": "trigger_source",
    # A trigger calls a function.
    r"^(CREATE TRIGGER (\w+) .* FOR EACH ROW) BEGIN NULL; END;$": (
        r"CREATE FUNCTION \2_own() RETURNS trigger AS 'BEGIN RETURN NEW; END;' LANGUAGE plisql; "
        r"\1 EXECUTE FUNCTION \2_own()"
    ),
    # Clauses of definitions.
    r"^CREATE OR REPLACE NONEDITIONABLE VIEW": "CREATE OR REPLACE VIEW",
    r" PURGE$": "",
    r"MODIFY \((\"[^\"]*\") DEFAULT NULL\)": r"ALTER COLUMN \1 DROP DEFAULT",
    r"MODIFY \((\"[^\"]*\") NULL\)": r"ALTER COLUMN \1 DROP NOT NULL",
    r" DEFERRABLE ENABLE NOVALIDATE$": " DEFERRABLE",
    # Another setting.
    r"^ALTER SESSION SET DDL_LOCK_TIMEOUT = (\d+)": r"SET lock_timeout = '\1s'",
    # No text holds that character.
    r"INSTR\([^()]*, CHR\(0\)\) > 0": "1 = 0",
    # Every commit waits for the disk.
    r"^COMMIT WRITE IMMEDIATE WAIT$": "SELECT 1 FROM DUAL",
    # A cursor of which one row is fetched locks one row.
    rf"{CLAIM}$": f"LIMIT 1 {CLAIM}",
}
"""Statements, by a pattern, that IvorySQL does not run as they are, and what is run in their place."""


BLOCK = re.compile(r"(CREATE OR REPLACE NONEDITIONABLE PACKAGE|DECLARE|BEGIN)\b")
REWRITTEN_IN_BLOCKS = {
    # A trigger calls a function, which `make_trigger` makes of its text; its DROP names the table.
    r"EXECUTE IMMEDIATE l_code;": "PERFORM make_trigger(l_code);",
    r"EXECUTE IMMEDIATE 'DROP TRIGGER ' \|\| QUOTED\(g.TRIGGER_NAME\);": "PERFORM remove_trigger(g.TRIGGER_NAME);",
    # How long it waits, the session says.
    r" IN SHARE MODE WAIT 1'": " IN SHARE MODE'",
    r"remove\('TRIGGER', g.TRIGGER_NAME\);": "PERFORM remove_trigger(g.TRIGGER_NAME);",
    r"EXECUTE IMMEDIATE 'DROP TRIGGER ' \|\| QUOTED\((ANOTHER\(.*?\))\);": r"PERFORM remove_trigger(\1);",
    r"EXECUTE IMMEDIATE": "EXECUTE",
    # A package has no types of its own: ITEM is one beside it.
    r"    TYPE ITEM IS RECORD \(.*?\);\n": "",
    r"\bNOCOPY ": "",
    r"SQL%ROWCOUNT = 0": "NOT FOUND",
    r"WITH DEPENDENTS": "WITH RECURSIVE DEPENDENTS",
    r"SELECT k.(OWNER), k.(TABLE_NAME), d": (
        r'SELECT k.\1::varchar2(128) COLLATE "DEFAULT", k.\2::varchar2(128) COLLATE "DEFAULT", d'
    ),
    r"SQLCODE NOT IN \(-54, -4021, -30006\)": "SQLSTATE <> '55P03'",
    # A block is part of the session's transaction.
    r"\b(COMMIT|ROLLBACK);": "NULL;",
    r"PRAGMA AUTONOMOUS_TRANSACTION;": "",
    r"DBMS_LOB\.(CALL|DEFAULT_LANG_CTX|LOBMAXSIZE)\b": "12",
    # Numbers that a session keeps for itself come out of order.
    r"CACHE 1000 ORDER": "NOCACHE",
    r"SYS_CONTEXT\('USERENV', 'CLIENT_INFO'\)": "current_setting('sluice.client_info', true)",
    r"\b(USER|ALL)_SOURCE\b": "trigger_source",
    # Functions under other names.
    r"UTL_RAW\.TRANSLATE\(l_bytes, c_control, c_number_sign\)": "without_control(l_bytes)",
    r"UTL_RAW\.LENGTH": "raw_length",
    r"UTL_RAW\.COMPARE": "raw_compare",
    r"UTL_RAW\.CAST_TO_VARCHAR2": "text_of_raw",
    r"TO_CHAR\(p_value, 'TM9', c_point\)": "plain_text(p_value)",
    r"EXTRACT\((\w+) FROM p_value\)": r"part_of('\1', p_value::text)",
    r"p_value IS NAN": "p_value = 'NaN'::binary_double",
    r"= (-?)BINARY_DOUBLE_INFINITY": r"= '\1Infinity'::binary_double",
    r" PURGE'": "'",
}
"""The same inside of blocks and packages."""


@dataclass(frozen=True)
class Installation:
    """The programs of IvorySQL."""

    folder: Path

    def version(self) -> str:
        program = self.folder / "bin" / "postgres"
        run = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        return run.stdout.strip()


def installation() -> Installation | None:
    """The installation of the environment variable; None without one."""
    found = os.environ.get(ENVIRONMENT)
    return Installation(Path(found)) if found else None


class IvoryServer(PostgresServer):
    """A running server in Oracle mode; `oracle_port` speaks Oracle's dialect."""

    product = "IvorySQL"

    def __init__(self, directory: Path, installed: Installation):
        super().__init__(directory, settings={"fsync": "off"})
        self._installed = installed
        self.oracle_port = free_port()

    @property
    def _programs(self) -> Path:
        return self._installed.folder / "bin"

    def require_release(self) -> None:
        """Does nothing: any installed release is used."""

    def command(self) -> list[str]:
        settings = {"ivorysql.port": self.oracle_port, "ivorysql.listen_addresses": HOST}
        return [*super().command(), *(text for name, value in settings.items() for text in ("-c", f"{name}={value}"))]

    def _initdb_command(self) -> list[str]:
        return [*super()._initdb_command(), "-m", "oracle"]

    def database(self, name: str) -> ConnectionInfo:
        """Creates a database, with the stand-ins for the rest of Oracle."""
        self.create_database(name)
        info = self.info(name)
        made = ConnectionInfo("oracle", HOST, self.oracle_port, name, info.user, info.password)
        with connect(made, application="stand-in") as session:
            for statement in (part for file in STAND_INS for part in file.read_text().split("\n/\n")):
                psycopg.ClientCursor(session.driver).execute(statement.encode())
            session.driver.commit()
        return made


class EmptyLobDumper(Dumper):
    """Writes an empty LOB as a literal, since '' would be NULL."""

    def dump(self, obj: EmptyLob) -> bytes:
        return self.quote(obj)

    def quote(self, obj: EmptyLob) -> bytes:
        return b"EMPTY_CLOB()" if obj is EmptyLob.TEXT else b"EMPTY_BLOB()"


class IvorySession(OracleSession):
    """A session of the tests: like Oracle's, but over PostgreSQL's protocol."""

    def __init__(self, driver: psycopg.Connection[Any], info: ConnectionInfo, options: SessionOptions):
        super().__init__(info, options)
        self.driver = driver
        self._moments: dict[int, psycopg.Connection[Any]] = {}
        """By SCN, connections whose transaction sees what was committed when it was the present one."""

    @classmethod
    def open(cls, info: ConnectionInfo, application: str, options: SessionOptions) -> Self:
        driver = psycopg.connect(
            host=info.host,
            port=info.port,
            dbname=info.database,
            user=info.user,
            password=info.password,
            application_name=application,
        )
        driver.adapters.register_dumper(EmptyLob, EmptyLobDumper)
        return cls(driver, info, options)

    @cached_property
    def schema(self) -> str:
        return "PUBLIC"

    @property
    def closed(self) -> bool:
        return self.driver.closed

    @property
    def broken(self) -> bool:
        return self.driver.broken

    def close(self) -> None:
        self._forget(0)
        self.driver.close()

    def _run(self, query: str, values: Mapping[str, Value], *, first: bool) -> Result:
        if query.startswith(("SAVEPOINT", "ROLLBACK")):
            self.driver.execute(query.encode())
            return Result([], 0)
        if "CURRENT_SCN" in query:
            return Result([(1, self._moment())], 1)
        if item := _ITEM.search(query):
            self._make_type(query, item[1])
        scn = int(str(values["scn"])) if "AS OF SCN :scn" in query else self.seen
        (_, *rows), count = self._fetched(query, values, scn)
        return Result(rows, count)

    def stream(self, query: str, values: Mapping[str, Value] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        with self._alone():
            (names, *rows), _ = self._fetched(query, values or {}, self.seen)
        yield [names]
        if rows:
            yield rows

    def _fetched(self, query: str, values: Mapping[str, Value], scn: int | None) -> tuple[list[tuple[Any, ...]], int]:
        """The names of the columns, and the rows as of an SCN; the number of changed rows."""
        driver = self.driver if scn is None else self._moments[scn]
        with self._classified(), self._statement(driver, undone=scn is not None):
            cursor = psycopg.ClientCursor(driver)
            cursor.execute(_wire(query), _own(values))
            if cursor.description is None:
                return [()], cursor.rowcount
            types = [_name_of(driver, column.type_code) for column in cursor.description]
            rows = [tuple(map(_read, row, types)) for row in cursor.fetchall()]
            return [tuple(column.name for column in cursor.description), *rows], len(rows)

    # An SCN: a transaction that sees what was committed then, which others can take over by its name.

    def _connected(self) -> psycopg.Connection[Any]:
        return type(self).open(self.info, "as of an SCN", self.options).driver

    def _moment(self) -> int:
        with self._statement(self.driver):
            row = psycopg.ClientCursor(self.driver).execute("SELECT scn.NEXTVAL FROM DUAL").fetchone()
        assert row is not None
        scn = int(row[0])
        self._forget(2)
        self._moments[scn] = self.hold(scn)
        return scn

    def hold(self, scn: int) -> psycopg.Connection[Any]:
        """Keeps what is committed now as the state as of `scn`, for every process, until the connection is closed.

        The connection's application name contains the snapshot's name, so that others find it by the SCN.
        """
        driver = self._connected()
        driver.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        row = driver.execute("SELECT pg_catalog.pg_export_snapshot()::pg_catalog.text").fetchone()
        assert row is not None
        driver.execute(f"SET application_name = '{HOLDS}{scn} {row[0]}'".encode())
        return driver

    def _forget(self, kept: int) -> None:
        """Closes all moments but the last `kept`; the current one stays unless `kept` is 0."""
        for scn in list(self._moments)[: len(self._moments) - kept]:
            if scn != self.seen or not kept:
                self._moments.pop(scn).close()

    def see(self, scn: int) -> None:
        if scn not in self._moments:
            with self._statement(self.driver):
                row = self.driver.execute(HELD, {"database": self.info.database, "holds": f"{HOLDS}{scn} %"}).fetchone()
            name = row[0] if row is not None else NEVER_HELD
            driver = self._connected()
            driver.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            try:
                driver.execute(f"SET TRANSACTION SNAPSHOT '{name}'".encode())
            except psycopg.Error as error:
                driver.close()
                raise errors.made("ORA-1555", f"ORA-01555: {error}", self.server) from None
            self._moments[scn] = driver
        self.seen = scn

    def see_now(self) -> None:
        self.seen = None

    def _make_type(self, query: str, fields: str) -> None:
        name = f"{query.split()[5]}_ITEM"
        asked = f"SELECT to_regtype('{name}') IS NULL FROM DUAL".encode()
        row = psycopg.ClientCursor(self.driver).execute(asked).fetchone()
        if row and row[0]:
            self.driver.execute(f"CREATE TYPE {name} AS ({fields})".encode())

    def _run_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> list[int]:
        with self._classified(), self._statement(self.driver):
            cursor, counts = psycopg.ClientCursor(self.driver), []
            for row in rows:
                cursor.execute(_wire(query), _own(row))
                counts.append(cursor.rowcount)
            return counts

    def result_of(self, call: str, values: Mapping[str, Value]) -> int:
        """Only for DBMS_LOCK, whose functions have other parameters here: it uses PostgreSQL's own locks."""
        number = values["lock_id"]
        if "RELEASE" in call:
            self.run("SELECT pg_advisory_unlock(:number)", {"number": number})
            return 0
        mine = (
            "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND objid::text = :number AND pid = "
            "pg_backend_pid()"
        )
        if self.run(mine, {"number": str(number)}).fetchone() != (0,):
            return 4
        self.run(f"SET lock_timeout = '{max(1, 1000 * int(str(values['seconds'])))}ms'")
        try:
            self.run("SELECT pg_advisory_lock(:number)", {"number": number})
        except LockNotAvailable:
            return 1
        finally:
            self.run("SET lock_timeout = 0")
        return 0

    def call(self, procedure: str, values: Mapping[str, Value]) -> None:
        self.run(f"CALL {procedure if '(' in procedure else procedure + '()'}", values)

    def _commit(self) -> None:
        with self._classified():
            self.driver.commit()

    def _rollback(self) -> None:
        with self._classified():
            self.driver.rollback()

    def begin_read_only(self) -> None:
        self.driver.rollback()
        self._reading = True
        self.driver.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    @contextmanager
    def _statement(self, driver: psycopg.Connection[Any], *, undone: bool = False) -> Iterator[None]:
        """Runs a statement. As on Oracle, one that fails leaves the transaction as it was. `undone`: also undoes one
        that succeeds, and so releases its locks: readers have none on Oracle."""
        driver.execute("SAVEPOINT statement")
        try:
            yield
        except BaseException:
            if not driver.closed:
                driver.execute("ROLLBACK TO SAVEPOINT statement")
            raise
        driver.execute(f"{'ROLLBACK TO' if undone else 'RELEASE'} SAVEPOINT statement".encode())

    @contextmanager
    def _classified(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            code = CODES.get(error.sqlstate or "", "")
            text = f"{code}: {error}" if code else str(error)
            raise errors.made(errors.code_of(code), text, self.server, lost=self.driver.closed) from None


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, options: SessionOptions = PLAIN
) -> IvorySession:
    """Like `sluice.vendors.oracle.sessions.connect`."""
    del autocommit
    session = IvorySession.open(info, application, options)
    if options.origin:
        session.name_origin(options.origin)
    return session


class _Sessions(OracleSessions):
    """Oracle's sessions, opened on IvorySQL."""

    connect = staticmethod(connect)


class OnIvory(Oracle):
    """The product's vendor, with sessions on IvorySQL."""

    sessions = _Sessions()


def _wire(query: str) -> bytes:
    """A statement for IvorySQL over psycopg."""

    def put(found: re.Match[str]) -> str:
        return f"%({found[1]})s" if found[1] else found[0].replace("%", "%%")

    text = query.strip().replace("AS OF SCN :scn", "")
    if BLOCK.match(text):
        for pattern, otherwise in REWRITTEN_IN_BLOCKS.items():
            text = re.sub(pattern, otherwise, text, flags=re.DOTALL)
        if package := _PACKAGE.match(text):
            text = re.sub(r"\bITEM,", f"{package[1]}_ITEM,", text)
        return text.replace("%", "%%").encode()
    for pattern, otherwise in REWRITTEN.items():
        text = re.sub(pattern, otherwise, text, flags=re.DOTALL)
    return _BIND.sub(put, text).encode()


def _own(values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: None if value in ("", b"") else value for name, value in values.items()}


def _name_of(driver: psycopg.Connection[Any], oid: int) -> str:
    known: dict[int, str] = driver.__dict__.setdefault("oracle_types", {})
    if oid not in known:
        row = driver.execute("SELECT typname::pg_catalog.text FROM pg_type WHERE oid = %s", [oid]).fetchone()
        known[oid] = str(row[0]) if row else ""
    return known[oid]


def _read(value: Any, type_name: str) -> Any:
    """Converts a value as Oracle's driver does."""
    if value in (None, "", b""):
        return None
    if type_name in ("number", "numeric"):
        number = float(value)
        return int(value) if number.is_integer() and "." not in str(value) else number
    if type_name == "binary_double":
        return float(value)
    if type_name in ("oratimestamp", "oradate") and isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value


ON_IVORY = OnIvory()
