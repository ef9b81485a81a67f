"""Watches sessions of a PostgreSQL server from outside, as a frozen server never answers.

Neither keepalives nor time-outs of TCP detect this, because the server's machine still acknowledges packets.
"""

import os
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress

import psycopg
from psycopg import pq

from sluice import sql_files
from sluice.database.session import Session
from sluice.errors import Transient
from sluice.vendors.postgres.connection import end_with_client, native
from sluice.vendors.postgres.errors import adopt

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
