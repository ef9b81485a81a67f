"""Sessions on MySQL and MariaDB."""

import contextlib
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, LiteralString

import pymysql
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.converters import conversions
from pymysql.cursors import SSCursor

from sluice.database.errors import Contended, DatabaseError, ServerUnproved, StatementFailed
from sluice.database.session import PLAIN, Rows, Session, SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.vendors.common.session import OwnTransactions, Result, tls_context
from sluice.vendors.mysql.errors import TRANSACTION_LOST, WAITED, converted, lock_holders, number_of

SQL_MODE = (
    "ANSI_QUOTES,STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,"
    "NO_AUTO_VALUE_ON_ZERO"
)
LOCK_SECONDS, DEFINITION_LOCK_SECONDS = 10, 30
"""How long a statement waits for a row, and for a table's definition. The server's own are 50 s and a day."""
SCHEMA_SECONDS, SCHEMA_PAUSE = 1.0, 0.02
SHORT = 250_000
"""The number of characters of a statement that every server accepts: 1 MiB, unless it was configured for less."""
LARGEST = 1 << 30
"""The highest number of bytes of a statement for which a server can be configured."""
LEFT_OUT = 1684
"""The server's number of the warning that a table is left out of information_schema."""
PIECE_BYTES = 256 * 1024
"""The size of the packets of LOAD DATA."""
_COUNTS = re.compile(r"Records: (\d+)\s+Deleted: (\d+)\s+Skipped: (\d+)\s+Warnings: (\d+)")


class _Result(MySQLResult):
    """A result that hands LOAD DATA LOCAL what the session sends, and never a file: a server could ask for any."""

    def _read_load_local_packet(self, first_packet: object) -> None:
        driver: Any = self.connection
        pieces, driver.sending = driver.sending, None
        try:
            for piece in pieces if pieces is not None else ():
                data = memoryview(piece)
                for start in range(0, len(data), PIECE_BYTES):
                    driver.write_packet(bytes(data[start : start + PIECE_BYTES]))
        finally:
            # However it ends, the server waits for an empty packet, and the caller rolls back.
            driver.write_packet(b"")
            answer = driver._read_packet()
        if pieces is None:
            raise pymysql.err.OperationalError(2000, "the server asked for a file that nobody offered")
        own: Any = self
        own._read_ok_packet(answer)


class _Driver(Connection):
    """The driver's connection."""

    sending: Iterable[bytes | memoryview] | None = None
    server = ""
    proved = False
    """Whether the server has shown by a certificate who it is."""
    _logging_in = False

    def _request_authentication(self) -> None:
        self._logging_in = True
        super()._request_authentication()  # type: ignore[misc]  # the stubs lack it
        self._logging_in = False

    def write_packet(self, payload: bytes) -> None:
        """Sends no password that whoever listens there could read: only answers to the server's challenge.

        Without a certificate, one that it encrypts is no better: the key is the listener's.
        """
        if self._logging_in and self.password and not self.proved:
            password: bytes = self.password
            asks_for_key = payload in (b"\x01", b"\x02") or bool(self.server_public_key)
            if payload.rstrip(b"\0") == password or asks_for_key:
                raise ServerUnproved(
                    f"{self.server}: the server asks for the password itself, and has not proved who it is: nothing "
                    "was sent. Let it use TLS with a certificate, and write sslmode verify-full or verify-ca and "
                    "sslrootcert in the extras of the connection; or let the account use ed25519 or "
                    "mysql_native_password."
                )
        super().write_packet(payload)

    def _read_query_result(self, unbuffered: bool = False) -> int:
        self._result = None
        result = _Result(self)
        if unbuffered:
            result.init_unbuffered_query()
        else:
            result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return int(result.affected_rows or 0)


class MySQLSession(OwnTransactions):
    """See `sluice.database.session.Session`. Statements outside of `transaction()` commit at once."""

    vendor = "mysql"

    def __init__(self, driver: _Driver, info: ConnectionInfo, options: SessionOptions):
        super().__init__(info, options)
        self.driver = driver
        self._lost = False
        """The server has undone the transaction that is open here."""
        self._broken = False
        self.prepared_account: str | None = None
        """The account whose privileges are looked at, `'user'@'host'`; None: the session's own."""
        self.recorded: Session | None = None
        """Of a master: the session on the folder of its recorded log."""
        self.corrected: Mapping[tuple[str, ...], Mapping[str, str | None] | None] = {}
        """Of a master: rows, by their keys, that a stream of rows has in place of those of the snapshot."""

    @property
    def closed(self) -> bool:
        return not self.driver.open

    @property
    def broken(self) -> bool:
        return self._broken

    @cached_property
    def mariadb(self) -> bool:
        """Whether it is MariaDB; else it is MySQL."""
        return "mariadb" in self._server.lower()

    @cached_property
    def _server(self) -> str:
        driver: Any = self.driver
        return str(driver.get_server_info())

    @cached_property
    def version(self) -> tuple[int, int, int]:
        matched = re.search(r"(\d+)\.(\d+)\.(\d+)", self._server.removeprefix("5.5.5-"))
        assert matched is not None
        return int(matched[1]), int(matched[2]), int(matched[3])

    @cached_property
    def folds_names(self) -> bool:
        """Whether it keeps names of databases and tables in lower case."""
        return bool(self._number_of("lower_case_table_names"))

    def _number_of(self, variable: str) -> int:
        row = self.run(f"SELECT @@{variable}").fetchone()
        assert row is not None
        return int(row[0])

    @property
    def collation(self) -> str:
        """The collation that distinguishes all texts, and orders them by their bytes."""
        return "utf8mb4_nopad_bin" if self.mariadb else "utf8mb4_0900_bin"

    def execute(
        self, query: LiteralString | bytes, params: Sequence[object] | Mapping[str, object] | None = None, /
    ) -> Rows:
        return self.run(query if isinstance(query, str) else query.decode(), params)

    def run(self, query: str, params: Sequence[object] | Mapping[str, object] | None = None) -> Result:
        """`execute` of a statement that the vendor's modules have put together."""
        if self._lost:
            raise Contended(f"{self.server}: the server has undone this transaction")
        with self._classified(), self.driver.cursor() as cursor:
            text = cursor.mogrify(query, _arguments(params))
            self._require_room(text)
            cursor.execute(text)
            return Result(list(cursor.fetchall()), cursor.rowcount)

    def _require_room(self, text: str) -> None:
        """Raises `StatementFailed` for a statement longer than the server accepts, which would end the session like a
        crash."""
        if len(text) > SHORT and (size := len(text.encode())) > self._most:
            raise StatementFailed(
                f"{self.server}: a value needs a statement of {size:,} bytes, and the server takes {self._most:,}. As "
                f"an administrator: SET GLOBAL max_allowed_packet = {LARGEST}, and in the server's configuration."
            )

    @cached_property
    def _most(self) -> int:
        """The maximum length of a statement, in bytes."""
        return self._number_of("max_allowed_packet")

    def read_schema(self, query: str, params: Mapping[str, object] | None = None) -> Result:
        """Runs a query of information_schema. Raises `Contended` if a definition keeps changing.

        If this session holds locks, the server leaves a table out that another session is changing, with only a
        warning, as if it did not exist or had no keys.
        """
        until = time.monotonic() + SCHEMA_SECONDS
        while True:
            result = self.run(query, params)
            answer = self.driver._result
            warned = answer is not None and answer.warning_count
            if not warned or all(code != LEFT_OUT for _, code, _ in self.run("SHOW WARNINGS")):
                return result
            if time.monotonic() > until:
                raise Contended(f"{self.server}: definitions of tables are being changed just now")
            time.sleep(SCHEMA_PAUSE)

    def load(self, statement: str, pieces: Iterable[bytes | memoryview]) -> tuple[int, int]:
        """LOAD DATA LOCAL with `pieces` for its file: how many rows came in, and how often something was wrong.

        What `pieces` raises comes out as it is, when the statement has ended.
        """
        self.driver.sending = pieces
        try:
            self.run(statement)
        finally:
            self.driver.sending = None
        result = self.driver._result
        message: Any = result.message if result is not None else None
        matched = _COUNTS.search(message.decode() if message else "")
        if matched is None:
            return 0, 1
        records, deleted, skipped, warnings = map(int, matched.groups())
        return records, deleted + skipped + warnings

    def stream(self, query: str, rows: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        """The rows of a query, so many at once, without keeping them. After an error close the session."""
        with self._classified(), self.driver.cursor(SSCursor) as cursor:
            cursor.execute(query)
            while found := cursor.fetchmany(rows):
                yield found

    def warnings(self) -> list[str]:
        """The warnings of the last statement."""
        return [str(text) for _, _, text in self.run("SHOW WARNINGS LIMIT 5").fetchall()]

    @contextmanager
    def transaction(
        self, *, durable: bool | None = None, first: Callable[[], object] | None = None
    ) -> Iterator[object]:
        """The server decides for all of its sessions when a commit is on the disk."""
        del durable
        self._depth += 1
        name = f"sluice_{self._depth}"
        outermost = self._depth == 1
        try:
            self.run("START TRANSACTION" if outermost else f"SAVEPOINT {name}")
            try:
                if first is not None:
                    first()
                yield None
            except BaseException:
                self._undo(None if outermost else name)
                raise
            self.run("COMMIT" if outermost else f"RELEASE SAVEPOINT {name}")
        finally:
            self._depth -= 1
            if outermost:
                self._lost = False

    def _undo(self, savepoint: str | None) -> None:
        if self._lost or self.closed:
            return
        # The error that led here is the one to tell.
        with contextlib.suppress(DatabaseError):
            self.run("ROLLBACK" if savepoint is None else f"ROLLBACK TO SAVEPOINT {savepoint}")

    @contextmanager
    def _classified(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.Error, OSError) as error:
            number = number_of(error)
            if self._depth and number in TRANSACTION_LOST:
                self._lost = True
                with contextlib.suppress(pymysql.Error, OSError):
                    self.driver.query("ROLLBACK")
            self._broken = self._broken or not self.driver.open or number in (2006, 2013)
            more = lock_holders(self.driver) if number == WAITED else ""
            raise converted(error, self.server, more) from None

    def ping(self) -> None:
        self.run("SELECT 1")

    def clock(self) -> datetime:
        row = self.run("SELECT UTC_TIMESTAMP(6)").fetchone()
        assert row is not None
        now: datetime = row[0]
        return now

    def limit_lock_waits(self, seconds: float) -> None:
        whole = max(1, round(seconds))
        self.run(f"SET innodb_lock_wait_timeout = {whole}, lock_wait_timeout = {whole}")

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.driver.close()

    @property
    def number(self) -> int:
        """The server's number of the session."""
        driver: Any = self.driver
        return int(driver.thread_id())

    def shut(self) -> None:
        """Ends the connection under a thread that waits for the server; never raises."""
        driver: Any = self.driver
        with contextlib.suppress(OSError, AttributeError):
            driver._sock.shutdown(socket.SHUT_RDWR)


def native(session: Session) -> MySQLSession:
    """The session of this package."""
    made: object = session
    assert isinstance(made, MySQLSession), "a session of another vendor"
    return made


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, options: SessionOptions = PLAIN
) -> MySQLSession:
    """A session under settings of Sluice's own. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
    del autocommit  # what is in no transaction() commits at once
    try:
        driver = _Driver(
            defer_connect=True,
            host=info.host,
            port=info.port,
            user=info.user,
            password=info.password,
            database=info.database,
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.FOUND_ROWS,
            local_infile=True,
            connect_timeout=int(info.options.get("connect_timeout", "10")),
            conv=_CONVERSIONS,
            program_name=application,
            max_allowed_packet=LARGEST,
            **_tls(info),
        )
        driver.server, driver.proved = info.server, info.tls_mode.startswith("verify-")
        driver.connect()
    except (pymysql.Error, OSError, RuntimeError) as error:
        raise converted(error, info.server) from None
    session = MySQLSession(driver, info, options)
    try:
        session.run(f"SET {', '.join(_settings(session, options))}")
        # Not by a variable: its name is another on MySQL, and on newer releases of MariaDB.
        access = "READ ONLY" if options.read_only else "READ WRITE"
        session.run(f"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, {access}")
        if info.database != info.database.lower() and session.folds_names:
            session.info = replace(info, database=info.database.lower())
    except BaseException:
        session.close()
        raise
    return session


_OWN_SETTINGS = (
    f"sql_mode = '{SQL_MODE}'",
    "autocommit = 1",  # the driver does not ask again after init_connect
    "time_zone = '+00:00'",
    "foreign_key_checks = 1",
    "unique_checks = 1",
    "net_read_timeout = 600",
    "net_write_timeout = 600",
    "wait_timeout = 28800",
    "group_concat_max_len = 1048576",
    # What would leave rows out of an answer, or refuse statements.
    "sql_select_limit = 18446744073709551615",
    "sql_big_selects = 1",
    "sql_safe_updates = 0",
    "sql_auto_is_null = 0",
    "completion_type = 0",
    # Warnings, which are counted and read.
    "max_error_count = 64",
    "sql_notes = 1",
    "lc_messages = 'en_US'",
)
_OWN_SETTINGS_MARIADB = (
    "check_constraint_checks = 1",
    "idle_transaction_timeout = 0",
    "idle_readonly_transaction_timeout = 0",
    "idle_write_transaction_timeout = 0",
    "alter_algorithm = 'DEFAULT'",
    "sql_if_exists = 0",
    "innodb_strict_mode = 1",
    "old_mode = ''",
)
"""Whatever the server's defaults are, and its `init_connect`: most of them are silent about what they change."""


def _settings(session: MySQLSession, options: SessionOptions) -> list[str]:
    waits = max(1, round(options.lock_seconds)) if options.lock_seconds is not None else None
    settings = [
        *_OWN_SETTINGS,
        *(_OWN_SETTINGS_MARIADB if session.mariadb else ()),
        f"innodb_lock_wait_timeout = {waits or LOCK_SECONDS}",
        f"lock_wait_timeout = {waits or DEFINITION_LOCK_SECONDS}",
        f"collation_connection = {session.collation}",
    ]
    if options.statement_seconds is not None:
        limit = options.statement_seconds
        settings.append(
            f"max_statement_time = {limit}" if session.mariadb else f"max_execution_time = {int(limit * 1000)}"
        )
    else:
        settings.append("max_statement_time = 0" if session.mariadb else "max_execution_time = 0")
    return settings


def _tls(info: ConnectionInfo) -> dict[str, Any]:
    """The driver's arguments for TLS: without a context of ours it would verify nothing."""
    mode = info.tls_mode
    if mode in ("disable", "allow"):
        return {"ssl_disabled": True}
    if mode == "prefer":
        return {}  # as the server wants
    return {"ssl": tls_context(info)}


def _time(text: str | bytes) -> datetime:
    return datetime.fromisoformat(text.decode() if isinstance(text, bytes) else text).replace(tzinfo=UTC)


_CONVERSIONS: Any = {**conversions, FIELD_TYPE.DATETIME: _time, FIELD_TYPE.TIMESTAMP: _time}


def _arguments(params: Sequence[object] | Mapping[str, object] | None) -> Any:
    """Parameters with times in the session's time zone: the driver would drop their zone."""
    if params is None:
        return None
    if isinstance(params, Mapping):
        return {name: _argument(value) for name, value in params.items()}
    return [_argument(value) for value in params]


def _argument(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def quoted(*parts: str) -> str:
    """A (qualified) identifier in double quotes, which ANSI_QUOTES allows."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def literal(value: str | int | None) -> str:
    """A literal."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"
