"""Sessions and their locks, and Sluice's own tables, on Oracle."""

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from sluice.database.errors import StatementFailed
from sluice.database.session import PLAIN, Session, SessionOptions, Sessions
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.vendors.common.locks import NamedLocks, RowLoadLocks
from sluice.vendors.common.own_tables import PlainOwnTables, not_a_table
from sluice.vendors.oracle import catalog, connection, names
from sluice.vendors.oracle.connection import DriverSession
from sluice.vendors.oracle.session import OracleSession, native, quoted

_NUMBERS = 1 << 30
_GIVEN, _HAD = 0, 4
"""Answers of DBMS_LOCK: the lock was taken, or the session already had it."""


class OracleNamedLocks(NamedLocks):
    """DBMS_LOCK, which uses numbers for them."""

    def take(self, session: Session, name: str, seconds: float = 0) -> bool:
        return _request(session, name, seconds) in (_GIVEN, _HAD)

    def release(self, session: Session, name: str) -> None:
        own = native(session)
        own.result_of("DBMS_LOCK.RELEASE(:lock_id)", {"lock_id": lock_number(name, own.schema)})

    def holder(self, session: Session, name: str) -> str | None:
        if _request(session, name, 0) == _GIVEN:
            self.release(session, name)
            return None
        return "a session of the server that V$LOCK shows with a lock of type UL"


NAMED_LOCKS = OracleNamedLocks()


def lock_number(name: str, schema: str) -> int:
    """The server's number of a lock of this schema."""
    return int.from_bytes(hashlib.sha256(f"sluice {schema} {name}".encode()).digest()[:8]) % _NUMBERS


def _request(session: Session, name: str, seconds: float) -> int:
    own = native(session)
    values = {"lock_id": lock_number(name, own.schema), "seconds": int(seconds)}
    return own.result_of("DBMS_LOCK.REQUEST(:lock_id, 6, :seconds, FALSE)", values)


class OracleSessions(Sessions):
    """Sessions on Oracle for services."""

    SEE_LOCKS = "see V$SESSION, column BLOCKING_SESSION"

    @staticmethod
    def connect(
        info: ConnectionInfo, *, application: str, autocommit: bool = False, options: SessionOptions = PLAIN
    ) -> Session:
        return connection.connect(info, application=application, autocommit=autocommit, options=options)

    def named_lock(self, connection: Session, name: str) -> AbstractContextManager[None]:
        return NAMED_LOCKS.held(connection, name, native(connection).server)

    def end_with_client(self, connection: Session) -> None:
        """Does nothing: SQLNET.EXPIRE_TIME, which the administrator sets, decides when the server looks for dead
        clients."""

    def begin_applying(self, connection: Session, origin: str) -> bool:
        """False: triggers and foreign keys act. To fire none in a session needs a license of GoldenGate."""
        native(connection).name_origin(origin)
        return False

    def may_silence(self, connection: Session) -> bool:
        return False

    def allow_silence(self, connection: Session) -> str:
        """The statement that disables the triggers of one table; nobody can disable those of a session."""
        return "ALTER TABLE … DISABLE ALL TRIGGERS"

    def limit_lock_waits(self, connection: Session, seconds: float) -> None:
        """Sets the limit for the rest of the session: there is no setting of a transaction."""
        connection.limit_lock_waits(seconds)

    def be_durable(self, connection: Session) -> None:
        """Does nothing: every commit waits for the disk."""

    def begin_reading(self, connection: Session, server: str, idle_seconds: float) -> None:
        """Begins reading. A snapshot holds nothing on the server: it does not prolong the life of undo."""

    def end_when_idle(self, connection: Session, seconds: float) -> None:
        """Does nothing: the account's profile decides (IDLE_TIME), which the administrator sets."""

    def waiters(self, connection: Session, holders: Sequence[Session], server: str, seconds: float) -> int:
        """0: readers lock nothing."""
        del connection, holders, server, seconds
        return 0

    def interrupt(self, connection: Session) -> None:
        """Cancels what it executes, if anything. From any thread; never raises."""
        session = native(connection)
        if isinstance(session, DriverSession):
            session.cancel()

    def cut(self, connection: Session) -> None:
        """Ends the connection under a thread that waits for the server. From any thread; never raises."""
        with contextlib.suppress(Exception):
            self.interrupt(connection)
            connection.close()


CLOCK = "SYS_EXTRACT_UTC(SYSTIMESTAMP)"
_THERE = "ORA-955"
_END, _ESCAPE = "\x01\x03", "\x01\x02"
"""The separator of several texts in a column; 0x01 in a text is escaped."""
AMONG = 'INSTR("keys", CHR(1) || CHR(3) || REPLACE(%(key)s, CHR(1), CHR(1) || CHR(2)) || CHR(1) || CHR(3)) > 0'


class OracleTables(PlainOwnTables):
    """Sluice's own tables, in the schema of the connection's account."""

    vendor = "oracle"

    def __init__(self, connection: Session, prefix: Prefix, schema: str = "", slave: str = ""):
        self.session: OracleSession = native(connection)
        super().__init__(prefix, {"schema": quoted(self.session.schema), "clock": CLOCK, "among": AMONG})

    def has(self, table: str) -> bool:
        name = TableName(names.HERE, (self.prefix + table).upper())
        what = catalog.relations(self.session, [name]).get(name)
        if what not in (None, "TABLE"):
            raise not_a_table(self.session.server, name.name, what, "account")
        return what is not None

    def execute(self, statement: str) -> None:
        try:
            with self.session.transaction():
                self.session.run(statement)
        except StatementFailed as error:
            if error.server_code != _THERE:
                raise

    def held(self, name: str) -> AbstractContextManager[None]:
        return NAMED_LOCKS.held(self.session, name, self.session.server)

    def texts(self, values: Sequence[str]) -> object:
        return _END + "".join(value.replace("\x01", _ESCAPE) + _END for value in values)

    def texts_of(self, value: object) -> tuple[str, ...]:
        parts = str(value).split(_END)[1:-1]
        return tuple(part.replace(_ESCAPE, "\x01") for part in parts)


class OracleLoadLocks(RowLoadLocks):
    """Claims wait for one another."""

    named = NAMED_LOCKS

    def names(self, connection: Session, prefix: Prefix) -> Mapping[str, str]:
        return OracleTables(connection, prefix).placeholders
