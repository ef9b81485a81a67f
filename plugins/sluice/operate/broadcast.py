"""Asks the master and its slaves one query at one position, and collects their answers.

    number = broadcast.ask(replication, info, Query("SELECT count(*) FROM public.orders", person="anna"))
    query = broadcast.read(replication, info, number)        # Broadcast: .master, .slaves, .state(slave), .waiting
    recent = broadcast.recent(replication, info)             # the last ones, newest first

The query can only read, but with all rights of Sluice's accounts: the configuration must say `broadcast: true`.
"""

import logging
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from sluice.configuration.model import Replication
from sluice.database import lock_waits
from sluice.database.broadcasts import Query, Queued
from sluice.database.registry import has_rows, master_of, reach
from sluice.database.session import Session, SessionOptions
from sluice.database.vendor import Master
from sluice.errors import SluiceError, Terminal
from sluice.model.broadcast import MOST_ROWS, Answer, Broadcast
from sluice.model.connection import ConnectionInfo
from sluice.model.mask import SECRET

log = logging.getLogger("sluice.operate")

RECENT = 50
LOOK_SECONDS = 0.2
"""Between two polls for answers."""


class NotOffered(Terminal):
    """This replication has no queries."""


def ask(replication: Replication, master: ConnectionInfo, query: Query) -> int:
    """Queues the query; returns its number once the master has answered it.

    Waits for writers of the replicated tables, and blocks them for some milliseconds. Raises `NotOffered`,
    `broadcast-refused`, `UnknownSlave`, and `Transient` for outages.
    """
    _require(replication)
    trimmed = query.statement.strip().rstrip(";").rstrip()
    names = tuple(replication.slave(name).name for name in query.slaves) or tuple(replication.slaves)
    # Values of masked columns never leave the databases.
    kept = 0 if replication.verify.mask or SECRET.search(trimmed) else query.shown
    query = replace(query, statement=trimmed, slaves=names, shown=kept)
    vendor, schema, prefix = master_of(master.vendor), replication.master.schema, replication.prefix
    options = SessionOptions(statement_seconds=query.seconds, read_only=True)
    application = f"sluice {prefix} broadcast"
    with reach(master, application) as queueing:
        broadcasts = vendor.broadcasts(queueing, prefix, schema)
        if broadcasts is None or not broadcasts.offered():
            raise NotOffered(f"{prefix}: the DbResources are of an older release. Run the DAG install_resources.")

        def queue() -> tuple[int, Answer]:
            with vendor.sessions.connect(master, application=application, autocommit=True, options=options) as reading:
                queued = broadcasts.ask(query)
                return _answered(vendor, reading, query, queued, hidden=bool(replication.verify.mask))

        id_, answer = lock_waits.until_unlocked(queue)
        if answer.error:
            broadcasts.withdraw(id_)
            raise Terminal(
                f"The master does not answer the query, and it was taken back: {answer.error}", code="broadcast-refused"
            )
        broadcasts.answer(id_, "", answer)
    log.info("%s: query %d, asked by %s of %s: %s", prefix, id_, query.person, ", ".join(names), trimmed)
    return id_


def _answered(
    vendor: Master, reading: Session, query: Query, queue: AbstractContextManager[Queued], *, hidden: bool
) -> tuple[int, Answer]:
    """The master's answer to a query, which is queued as soon as the master has begun it; with its number."""
    begun: list[int] = []
    with ExitStack() as queueing:
        queued = queueing.enter_context(queue)

        def entered() -> None:
            """Commits the queued query: writers continue, and slaves may see it."""
            queueing.pop_all().close()
            begun.append(queued.id)

        try:
            result = vendor.queries.run(reading, query.statement, MOST_ROWS, entered, queued.snapshot)
        except SluiceError as error:
            if not begun:
                raise
            return queued.id, Answer.failed(error, hidden=hidden)
    return queued.id, Answer.of(*result, query.shown)


def read(replication: Replication, master: ConnectionInfo, id_: int) -> Broadcast:
    """The query `id_` with the answers so far. Raises `Terminal` if it does not exist."""
    broadcasts = _read(replication, master, id_, 1)
    if not broadcasts:
        raise Terminal(
            f"{replication.prefix}: no query has the number {id_}, or it is older than 90 days.", code="unknown-query"
        )
    return broadcasts[0]


def recent(replication: Replication, master: ConnectionInfo, number: int = RECENT) -> list[Broadcast]:
    """The last queries with their answers, newest first."""
    return _read(replication, master, None, number)


def await_answers(replication: Replication, master: ConnectionInfo, id_: int, seconds: float) -> Broadcast:
    """As `read`, once all slaves have answered, or after `seconds`."""
    end = time.monotonic() + seconds
    while (broadcast := read(replication, master, id_)).waiting and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return broadcast


def _read(replication: Replication, master: ConnectionInfo, id_: int | None, number: int) -> list[Broadcast]:
    _require(replication)
    vendor, schema = master_of(master.vendor), replication.master.schema
    with reach(master, f"sluice {replication.prefix} broadcast") as session:
        broadcasts = vendor.broadcasts(session, replication.prefix, schema)
        return broadcasts.read(id_, number) if broadcasts is not None and broadcasts.offered() else []


def _require(replication: Replication) -> None:
    if not has_rows(replication.master.vendor) or replication.master.stream:
        raise NotOffered(f"{replication.prefix}: its changes come from recorded files, and there is no master to ask.")
    if not replication.broadcast:
        raise NotOffered(
            f"{replication.prefix}: queries are not allowed. They can read everything that Sluice's accounts may "
            f"read: an administrator who wants that writes broadcast: true into {replication.source}."
        )
