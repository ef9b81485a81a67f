"""Asks a query of the master and of its slaves at one position, and collects what they answer.

    queued = broadcast.ask(replication, info, "SELECT count(*) FROM public.orders", person="anna")
    found = broadcast.read(replication, info, queued)         # Broadcast: .master, .slaves, .state(slave), .waiting
    recent = broadcast.recent(replication, info)             # the last ones, newest first

The query reads, and nothing else, with the rights of Sluice's accounts: the configuration must say `broadcast: true`.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

from sluice.configuration.model import Replication
from sluice.database import lock_waits
from sluice.database.broadcasts import Query, Queued
from sluice.database.registry import has_rows, reach, vendor_of
from sluice.database.session import Session, SessionOptions
from sluice.database.vendor import Vendor
from sluice.errors import SluiceError, Terminal
from sluice.model.broadcast import MOST_ROWS, Answer, Broadcast
from sluice.model.connection import ConnectionInfo
from sluice.model.mask import SECRET

log = logging.getLogger("sluice.operate")

SECONDS = 10.0
"""How long a query may take on each server; on a slave nothing is applied meanwhile."""
SHOWN = 10
"""Rows of an answer that are kept."""
RECENT = 50
LOOK_SECONDS = 0.2
"""Between two looks for answers."""


class NotOffered(Terminal):
    """Queries cannot be asked of this replication."""


class QueryRefused(Terminal):
    """The master does not answer the query, so no slave is asked."""

    def __init__(self, reason: str):
        super().__init__(f"The master does not answer the query, and it was taken back: {reason}")


def ask(
    replication: Replication,
    master: ConnectionInfo,
    statement: str,
    *,
    person: str,
    slaves: Sequence[str] = (),
    seconds: float = SECONDS,
    shown: int = SHOWN,
) -> int:
    """The number of the query, once the master has answered it. `slaves`: all of the configuration where empty.

    Waits for writers of the replicated tables, and holds them up for some milliseconds. Raises `NotOffered`,
    `QueryRefused`, `UnknownSlave`, and `Transient` for outages.
    """
    _require(replication)
    wanted = statement.strip().rstrip(";").rstrip()
    names = tuple(replication.slave(name).name for name in slaves) or tuple(replication.slaves)
    # Values of masked columns leave the databases nowhere.
    kept = 0 if replication.verify.mask or SECRET.search(wanted) else shown
    query = Query(wanted, names, person, seconds, kept)
    vendor, schema, prefix = vendor_of(master.vendor), replication.master.schema, replication.prefix
    options = SessionOptions(statement_seconds=seconds, read_only=True)
    application = f"sluice {prefix} broadcast"
    with reach(master, application) as queueing:
        if not vendor.broadcasts.offered(queueing, prefix, schema):
            raise NotOffered(f"{prefix}: the DbResources are of an older release. Run the DAG install_resources.")

        def queue() -> tuple[int, Answer]:
            with vendor.sessions.connect(master, application=application, autocommit=True, options=options) as reading:
                queued = vendor.broadcasts.ask(queueing, prefix, schema, query)
                return _answered(vendor, reading, query, queued, hidden=bool(replication.verify.mask))

        id_, answer = lock_waits.until_unlocked(queue)
        if answer.error:
            vendor.broadcasts.withdraw(queueing, prefix, schema, id_)
            raise QueryRefused(answer.error)
        vendor.broadcasts.answer(queueing, prefix, schema, id_, "", answer)
    log.info("%s: query %d, asked by %s of %s: %s", prefix, id_, person, ", ".join(names), wanted)
    return id_


def _answered(
    vendor: Vendor, reading: Session, query: Query, queue: AbstractContextManager[Queued], *, hidden: bool
) -> tuple[int, Answer]:
    """What the master answers to a query, which is queued as soon as it has begun there."""
    begun: list[int] = []
    with ExitStack() as queueing:
        queued = queueing.enter_context(queue)

        def entered() -> None:
            """Writers go on, and slaves may see the query."""
            queueing.pop_all().close()
            begun.append(queued.id)

        try:
            found = vendor.queries.run(reading, query.statement, MOST_ROWS, entered, queued.snapshot)
        except SluiceError as error:
            if not begun:
                raise
            return queued.id, Answer.failed(error, hidden=hidden)
    return queued.id, Answer.of(*found, query.shown)


def read(replication: Replication, master: ConnectionInfo, id_: int) -> Broadcast:
    """The query `id_` with the answers so far. Raises `Terminal` where there is none of that number."""
    found = _read(replication, master, id_, 1)
    if not found:
        raise Terminal(f"{replication.prefix}: no query has the number {id_}, or it is older than 90 days.")
    return found[0]


def recent(replication: Replication, master: ConnectionInfo, number: int = RECENT) -> list[Broadcast]:
    """The last queries with their answers, the newest first."""
    return _read(replication, master, None, number)


def await_answers(replication: Replication, master: ConnectionInfo, id_: int, seconds: float) -> Broadcast:
    """As `read`, once all slaves have answered, or so many seconds have passed."""
    end = time.monotonic() + seconds
    while (found := read(replication, master, id_)).waiting and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return found


def _read(replication: Replication, master: ConnectionInfo, id_: int | None, number: int) -> list[Broadcast]:
    _require(replication)
    vendor, schema = vendor_of(master.vendor), replication.master.schema
    with reach(master, f"sluice {replication.prefix} broadcast") as session:
        if not vendor.broadcasts.offered(session, replication.prefix, schema):
            return []
        return vendor.broadcasts.read(session, replication.prefix, schema, id_, number)


def _require(replication: Replication) -> None:
    if not has_rows(replication.master.vendor) or replication.master.stream:
        raise NotOffered(f"{replication.prefix}: its changes come from recorded files, and there is no master to ask.")
    if not replication.broadcast:
        raise NotOffered(
            f"{replication.prefix}: queries are not allowed. They read whatever Sluice's accounts may read: an "
            f"administrator who wants that writes broadcast: true into {replication.source}."
        )
