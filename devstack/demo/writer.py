"""The writer: a process whose sessions change all tables but pgbench's.

    python -m devstack.demo.writer < task

The task is one line of JSON on standard input: `connection` (a ConnectionInfo's values), `seed`, `rate` (row changes a
second of all sessions together). A tally goes to standard output twice a second, one line of JSON each. When standard
input ends, because it was closed or because the starter died, the sessions finish their transactions and the process
ends.
"""

import json
import sys
import threading
import time

import psycopg

from devstack.demo import master
from devstack.demo.session import EXPECTED, Pace, Session, Tally
from devstack.demo.transactions import ROLES, Role
from sluice.model.connection import ConnectionInfo

RECONNECT = 0.2
"""Seconds between two tries to reach the master."""


def work(session: Session, role: Role, pace: Pace) -> None:
    """Run transactions until told to stop; outlives restarts of the master."""
    while not session.stop.is_set():
        try:
            if not session.zoo_columns:
                session.zoo_columns = master.zoo_columns(session.connection)
            outcome = role.draw(session)(session)
            session.tally.add(transactions=1, changes=outcome.committed, rolled_back=outcome.rolled_back)
            delay = pace.delay(outcome.committed + outcome.rolled_back)
            session.stop.wait(max(delay, session.random.uniform(*role.rest)))
        except psycopg.Error as error:
            recover(session, error)
    session.close()


def recover(session: Session, error: psycopg.Error) -> None:
    """Leave the failed transaction behind; what no traffic may meet is noted."""
    state = error.sqlstate or ""
    if session.lost():
        session.tally.add(lost_connections=int(session.forget()))
        session.stop.wait(RECONNECT)
        return
    session.tally.add(failed=1)
    if not state.startswith(EXPECTED):
        session.tally.unexpected(f"{state or type(error).__name__}: {' '.join(str(error).split())[:400]}")
        session.stop.wait(RECONNECT)
    try:
        session.execute("ROLLBACK")
    except psycopg.Error:
        session.stop.wait(RECONNECT)


def main() -> int:
    """Returns the exit status, 0."""
    task = json.loads(sys.stdin.readline())
    info = ConnectionInfo.from_dict(task["connection"])
    stop, tally, pace = threading.Event(), Tally(), Pace(task["rate"])
    threads = [
        threading.Thread(target=work, args=(Session(info, number, task["seed"], tally, stop), role, pace), daemon=True)
        for number, role in enumerate(ROLES, 1)
    ]
    for thread in threads:
        thread.start()
    threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
    while not stop.wait(0.5):
        _report(tally)
    deadline = time.monotonic() + 10
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    _report(tally)
    return 0


def _report(tally: Tally) -> None:
    try:
        print(json.dumps(tally.report()), flush=True)
    except BrokenPipeError:  # the starter is gone; so will we be
        sys.stdout = sys.stderr


def _stop_at_end_of_input(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
