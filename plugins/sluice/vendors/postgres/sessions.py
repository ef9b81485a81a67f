"""Sessions on PostgreSQL for services (`sluice.database.session.Sessions`): how they begin, their locks by name, and
how one watches another."""

import os
import random
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
from psycopg import pq

from sluice import sql_files
from sluice.database.errors import DatabaseError, LockNotAvailable
from sluice.database.session import PLAIN, Session, SessionOptions
from sluice.errors import Transient
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import PostgresSession, literal, native, quoted
from sluice.vendors.postgres.connection import connect as connect_with
from sluice.vendors.postgres.connection import end_with_client as end_with_client
from sluice.vendors.postgres.errors import adopt

GRANTABLE_SETTINGS = 150000
"""From this version on a superuser can grant the right to set a parameter."""
ORIGIN = "sluice.origin"
"""A setting; if it is not empty, capture triggers record nothing, so that replication does not loop."""


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, options: SessionOptions = PLAIN
) -> PostgresSession:
    """A session under the canonical settings and these. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
    return connect_with(info, application=application, autocommit=autocommit, settings=_settings(options))


def _settings(options: SessionOptions) -> dict[str, str]:
    settings: dict[str, str] = {}
    if options.statement_seconds is not None:
        settings["statement_timeout"] = f"{int(options.statement_seconds * 1000)}ms"
    if options.lock_seconds is not None:
        settings["lock_timeout"] = f"{int(options.lock_seconds * 1000)}ms"
    if options.read_only:
        settings["default_transaction_read_only"] = "on"
    if not options.durable:
        settings["synchronous_commit"] = "off"
    if options.loads:
        # Whatever the role has: claims must not fail to serialize.
        settings["default_transaction_isolation"] = "read committed"
        settings["row_security"] = "off"
    if options.origin:
        settings[ORIGIN] = options.origin
    return settings


def begin_applying(connection: Session, origin: str) -> bool:
    """Sets the origin of this session's changes and switches the slave's triggers off. Returns whether the account may.

    Otherwise triggers and foreign keys act on every change; deferrable foreign keys are checked at commit.
    """
    with connection.transaction():
        connection.execute(f"SET {ORIGIN} = {literal(origin)}")
        # One statement joins a large window with its table; with the default of 4 MB it uses files, a third slower.
        connection.execute("SET work_mem = '128MB'")
        # Changed rows are mostly in memory. With the default of 4, meant for hard disks, a window of 1 % of a table's
        # rows is joined by a scan of the table: eight times the CPU at 10,000 changes/s, and more as the table grows.
        connection.execute(
            "SELECT set_config('random_page_cost', '1.1', false)"
            " WHERE pg_catalog.current_setting('random_page_cost')::float8 > 1.1"
        )
        # The cost of large windows exceeds `jit_above_cost`, but compiling their joins takes longer than it saves.
        connection.execute("SET jit = off")
        return _silenced(connection, "SET session_replication_role = replica")


def may_silence(connection: Session) -> bool:
    """Whether this account may switch triggers and foreign keys off for its own session."""
    return _silenced(connection, "SET LOCAL session_replication_role = replica")


def allow_silence(connection: Session) -> str:
    """The statement with which an administrator gives this account the right of `may_silence`."""
    info = native(connection).info
    return silence_statement(quoted(info.user), quoted(info.dbname), info.server_version)


def silence_statement(role: str, database: str, version: int) -> str:
    """As `allow_silence`, for a role and a database (quoted) on a server of this version."""
    if version >= GRANTABLE_SETTINGS:
        return f"GRANT SET ON PARAMETER session_replication_role TO {role}"
    # A superuser can set it for all sessions of a role that may not set it itself.
    return f"ALTER ROLE {role} IN DATABASE {database} SET session_replication_role = replica"


def _silenced(connection: Session, statement: str) -> bool:
    row = connection.execute("SELECT pg_catalog.current_setting('session_replication_role')").fetchone()
    if row == ("replica",):
        return True
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def limit_lock_waits(connection: Session, seconds: float) -> None:
    """Within the transaction, statements that wait longer for a lock raise `LockNotAvailable`."""
    connection.execute(f"SET LOCAL lock_timeout = '{int(seconds * 1000)}ms'")


def be_durable(connection: Session) -> None:
    """Makes the commit of this transaction durable, regardless of the account's `synchronous_commit`."""
    connection.execute("SET LOCAL synchronous_commit = on")


# Locks by name, which only sessions of this account can hold or prevent.
#
# Anybody may take any advisory lock forever. So each holder takes one of 2^32 numbers under the name, drawn at random,
# and a lock counts only if its session belongs to this account, to a member of it, or to a superuser.

SECONDS = 5.0
"""How long a lock is waited for."""
PAUSE_SECONDS = 0.05

SEE_LOCKS = "see pg_stat_activity and pg_locks"
"""Where a person sees which sessions have locks."""


def take(connection: Session, name: str) -> bool:
    """Takes the lock for the session, beyond its transactions, if no other session has it; whether it did."""
    with _in_transaction(connection):
        number = _mark(connection, "lock_session", name)
        if holders(connection, name):
            connection.execute(sql_files.render("postgres", "lock_release"), {"name": name, "number": number})
            return False
    return True


def release(connection: Session, name: str) -> None:
    """Gives the session's lock back."""
    with _in_transaction(connection):
        for number, _ in _marks(connection, name, own=True):
            connection.execute(sql_files.render("postgres", "lock_release"), {"name": name, "number": number})


def holders(connection: Session, name: str) -> list[str]:
    """The other sessions that have the lock, or are just trying to take it, described for a message."""
    return [described for _, described in _marks(connection, name, own=False)]


@contextmanager
def named_lock(connection: Session, name: str) -> Iterator[None]:
    """As of `Sessions.named_lock`."""
    await_lock(connection, name, lambda: take(connection, name), SECONDS)
    try:
        yield
    finally:
        with suppress(DatabaseError):  # a lost session holds no lock
            release(connection, name)


def lock_transaction(connection: Session, name: str) -> None:
    """In a transaction: has the lock until it ends. Raises `LockNotAvailable`."""

    def taken() -> bool:
        alone = False
        with connection.transaction():  # a savepoint: its rollback gives the lock back
            mark(connection, name)
            alone = not holders(connection, name)
            if not alone:
                raise psycopg.Rollback
        return alone

    await_lock(connection, name, taken, 60.0)


def mark(connection: Session, name: str) -> None:
    """In a transaction: shows in `holders` of others until it ends, together with any number of others."""
    _mark(connection, "lock_transaction", name)


def _mark(connection: Session, statement: str, name: str) -> int:
    while True:
        number = random.SystemRandom().randrange(-(2**31), 2**31)
        row = connection.execute(sql_files.render("postgres", statement), {"name": name, "number": number}).fetchone()
        if row and row[0]:
            return number


def _marks(connection: Session, name: str, *, own: bool) -> list[tuple[int, str]]:
    with _in_transaction(connection):
        # A transaction remembers which sessions there are.
        connection.execute("SELECT pg_catalog.pg_stat_clear_snapshot()")
        rows = connection.execute(sql_files.render("postgres", "lock_marks"), {"name": name, "own": own}).fetchall()
    return [(int(number), str(described)) for number, described in rows]


@contextmanager
def _in_transaction(connection: Session) -> Iterator[None]:
    """Unless one is open already, a transaction that ends here: a session without autocommit would begin one that stays
    open, and what follows would be committed with it, or never."""
    if native(connection).info.transaction_status is pq.TransactionStatus.IDLE:
        with connection.transaction():
            yield
    else:
        yield


def await_lock(connection: Session, name: str, taken: Callable[[], bool], seconds: float) -> None:
    """Waits until `taken` says so. Raises `LockNotAvailable`."""
    ends = time.monotonic() + seconds
    while not taken():
        if time.monotonic() > ends:
            raise LockNotAvailable(f"{native(connection).info.host}: another session holds the lock {name!r}")
        time.sleep(PAUSE_SECONDS * (0.5 + random.random()))  # two that gave way to each other come back apart


# Watches sessions from outside, as a frozen server never answers. Neither keepalives nor time-outs of TCP detect this,
# because the server's machine still acknowledges packets.

_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)


class Silent(Transient):
    """The server accepts packets and does not answer."""

    def __init__(self, server: str, seconds: float):
        super().__init__(f"{server}: the server has not answered for {seconds:.0f} s.")


def waiters(connection: Session, holders: Sequence[Session], server: str, seconds: float) -> int:
    """How many sessions wait for locks of `holders`. `seconds`: how long to wait for the answer. Raises `Silent`."""
    pids = [native(session).info.backend_pid for session in holders]
    statement = sql_files.render("postgres", "lock_waiters", pids=",".join(map(str, pids)))
    return int(_ask(connection, statement, server, seconds))


def begin_reading(connection: Session, server: str, idle_seconds: float) -> None:
    """Makes the server end a session with a snapshot when its client is gone.

    `idle_seconds`: the longest time between two statements.
    """
    connection.execute("SET max_parallel_workers_per_gather = 0")
    end_when_idle(connection, idle_seconds)
    end_with_client(connection)


def end_when_idle(connection: Session, seconds: float) -> None:
    """Makes the server end the session when its transaction is idle for so long. Raises psycopg's errors."""
    connection.execute(f"SET idle_in_transaction_session_timeout = {int(1000 * seconds)}".encode())


def interrupt(connection: Session) -> None:
    """Cancels the session's statement, if any. Any thread may call it; it never raises, and takes at most 5 s."""
    with suppress(psycopg.Error):
        if native(connection).info.transaction_status is pq.TransactionStatus.ACTIVE:
            native(connection).cancel_safe(timeout=5.0)


def cut(connection: Session) -> None:
    """Closes the socket, so that a thread that waits for the server ends. Any thread may call it; never raises."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(native(connection).fileno())) as link:
        link.shutdown(socket.SHUT_RDWR)


def _ask(connection: Session, statement: str, server: str, seconds: float) -> str:
    """The single value that a statement returns. After `Silent` the session is lost."""
    end, pgconn = time.monotonic() + seconds, native(connection).pgconn
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    pgconn.send_query(statement.encode())
    answer = ""
    while True:
        while pgconn.flush() or pgconn.is_busy():
            if not poll.poll(max(0, int(1000 * (end - time.monotonic())))):
                raise Silent(server, seconds)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return answer
        if result.status in _FAILED:
            error = psycopg.errors.error_from_result(result)
            adopt(error, server)
            raise error
        answer = (result.get_value(0, 0) or b"").decode()
