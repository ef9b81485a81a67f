"""The changes that wait for one slave: the first of them, how many they are, and how a person clears all of them."""

from dataclasses import dataclass
from datetime import UTC, datetime

import redis

from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.gate import Gate
from sluice.coordination.records import Events
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.coordination.redis_store import StoreUnreachable
from sluice.counted import counted
from sluice.database.changes import TooManyBytes, WaitingTable
from sluice.database.registry import has_rows, master_of, no_database, reach, vendor_of
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.change import ROW_ACTIONS
from sluice.model.checkpoint import Checkpoint, CheckpointMoved, resume
from sluice.model.event import Event, EventKind
from sluice.model.names import TableName
from sluice.model.position import Window
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState, how_to_load
from sluice.pair import Pair

COUNTED = 1_000_000
"""Changes up to which they are counted."""
SHOWN_BYTES = 8 << 20
"""Bytes of contents of the changes that are shown."""


@dataclass(frozen=True)
class WaitingChange:
    """One change that waits, with texts of the values as ITEMS has them."""

    repl_key: int
    transaction: int
    table: TableName
    action: str
    before: dict[str, str | None]
    """Of a DELETE the whole row, of an UPDATE its key and the columns that differ."""
    after: dict[str, str | None]


@dataclass(frozen=True)
class Waiting:
    """What waits for a slave. `more`: there are more than `changes`."""

    changes: int
    more: bool
    bytes: int
    first: tuple[WaitingChange, ...] = ()

    def __str__(self) -> str:
        return f"{'more than ' if self.more else ''}{counted(self.changes, 'change')}"


@dataclass(frozen=True)
class Cleared:
    """What was cleared, and what to do now."""

    pair: Pair
    waiting: Waiting

    def __str__(self) -> str:
        return (
            f"{self.waiting} cleared. {self.pair.slave.name} is INCONSISTENT: start an initial update, which makes it "
            "equal to its master."
        )


def rest_of(pair: Pair, store: "redis.Redis", master: Session, checkpoint: Checkpoint) -> Window:
    """The window of all that waits for the slave now. Raises outages, `DataLost`."""
    position = checkpoint
    if pair.slave.checkpoint == "redis":
        position, _ = resume(checkpoint, StoredCheckpoint(store, pair.prefix, pair.slave.name).read())
    assert position.position is not None, "a slave that applies has one"
    schema = pair.replication.master.schema
    now = position.target or master_of(pair.master_info.vendor).queue(master, pair.prefix, schema).take(
        position.position
    )
    return Window(position.position, now, position.slice_key or 0)


def read(pair: Pair, store: "redis.Redis", application: str, most: int) -> Waiting:
    """What waits, with its first `most` changes. Nothing is locked. Raises `no-changes-to-clear`, outages."""
    if not has_rows(pair.master_info.vendor):
        raise no_database(pair.master_info.vendor)
    with reach(pair.slave_info, application) as slave, reach(pair.master_info, application) as master:
        checkpoint = _applied(pair, slave)
        return _waiting(pair, rest_of(pair, store, master, checkpoint), application, most)


def clear(pair: Pair, store: "redis.Redis", by: str, reason: str, application: str) -> Cleared:
    """Makes the slave INCONSISTENT: nothing that waits is applied any more, and ITEMS is not held for it.

    Whether its apply runs or not: the state is in its checkpoint, which it locks with each window. Raises
    `no-changes-to-clear`, `CheckpointMoved` if the slave changed its state meanwhile, and outages.
    """
    if not has_rows(pair.master_info.vendor):
        raise no_database(pair.master_info.vendor)
    with reach(pair.slave_info, application) as slave, reach(pair.master_info, application) as master:
        before = _applied(pair, slave)
        if before.state is not SlaveState.NORMAL or before.loading:
            raise Terminal(f"{pair}: an initial update is under way. Cancel it instead.", code="no-changes-to-clear")
        waiting = _waiting(pair, rest_of(pair, store, master, before), application)
        if not waiting.changes:
            raise Terminal(f"{pair}: no change waits, so nothing was done.", code="no-changes-to-clear")
        cleared = Cleared(pair, waiting)
        with slave.transaction(durable=True):
            vendor_of(pair.slave_info.vendor).sessions.limit_lock_waits(slave, seconds=10)
            checkpoints = CheckpointStore.of(pair, slave)
            if checkpoints.configured(lock=True).state is not before.state:
                raise CheckpointMoved(f"{pair}: the slave's state changed meanwhile. Look again whether it is needed.")
            why = f"{waiting} that waited for it cleared by {by}: {reason}"
            checkpoints.move(SlaveState.INCONSISTENT, why)
    remember(pair, store, EventKind.STATE, f"{by} cleared what waited ({reason}): {cleared}")
    return cleared


def _applied(pair: Pair, slave: Session) -> Checkpoint:
    checkpoint = CheckpointStore.of(pair, slave).read()
    state = checkpoint.state if checkpoint else SlaveState.UNCONFIGURED
    if checkpoint is None or state not in (SlaveState.NORMAL, SlaveState.TRANSITION) or checkpoint.position is None:
        raise Terminal(f"{pair}: the slave is {state}: no changes wait for it.", code="no-changes-to-clear")
    return checkpoint


def _waiting(pair: Pair, window: Window, application: str, most: int = 0) -> Waiting:
    vendor, schema = master_of(pair.master_info.vendor), pair.replication.master.schema
    with vendor.reader(pair.master_info, pair.prefix, schema, application=application) as reader:
        survey = reader.survey(window, limit=COUNTED)
        if not most or not survey.changes:
            return Waiting(survey.changes, survey.more, survey.bytes)
        beginning = reader.survey(window, limit=most, max_bytes=SHOWN_BYTES)
        part = window.between(window.above, beginning.last if beginning.more else window.up_to)
        try:
            items = reader.items(part, images=True, max_bytes=4 * SHOWN_BYTES).to_pylist()
        except TooManyBytes:  # of one change
            items = []
    row = vendor.images.row
    first = tuple(
        WaitingChange(
            item["repl_key"],
            item["trans_key"],
            TableName(item["schema"], item["table"]),
            item["action"],
            row(item["oldcontent"]) if item["action"] in ROW_ACTIONS and item["oldcontent"] else {},
            row(item["content"]) if item["action"] in ROW_ACTIONS and item["content"] else {},
        )
        for item in items
    )
    return Waiting(survey.changes, survey.more, survey.bytes, first)


def remember(pair: Pair, store: "redis.Redis", kind: EventKind, text: str) -> None:
    """Adds an event to the slave's history; best effort."""
    try:
        Events(store, pair.prefix, pair.slave.name).add([Event(datetime.now(UTC).timestamp(), kind, text)])
    except StoreUnreachable:
        return  # CHECKPOINT has what matters


# Removes the first transaction that waits for a slave, because a person asks for it.
#
# The tables that it changes become inconsistent: none of their changes is applied, this transaction's included,
# until they are loaded again. All other tables are applied as before. So no change is skipped silently, and
# positions stay true.


@dataclass(frozen=True)
class Removed:
    """The tables of the removed transaction."""

    tables: tuple[WaitingTable, ...]
    remedy: str

    def __str__(self) -> str:
        named = ", ".join(str(table) for table in self.tables)
        inconsistent = counted(len(self.tables), "table")
        return f"The transaction is removed. INCONSISTENT until loaded again: {inconsistent}: {named}. {self.remedy}"


def remove(pair: Pair, store: "redis.Redis", by: str, reason: str, application: str) -> Removed:
    """Removes the first transaction of the pair's queue.

    Raises `gate-open`, `no-transaction-to-remove`, `CheckpointMoved` if something was applied or loaded meanwhile,
    and outages.
    """
    if not has_rows(pair.master_info.vendor):
        raise no_database(pair.master_info.vendor)
    if not Gate(store, pair.prefix, pair.slave.name).closures():
        raise Terminal(
            f"{pair}: the apply is not held, so its queue has no first transaction for long. Close the gate, with the "
            "DAG gate and the action close, then remove the transaction.",
            code="gate-open",
        )
    with reach(pair.slave_info, application) as slave, reach(pair.master_info, application) as master:
        before = _configured(pair, slave)
        tables = _first(pair, store, master, before)
        with slave.transaction(durable=True):
            checkpoints = CheckpointStore.of(pair, slave)
            if not checkpoints.configured(lock=True).same_place(before):
                raise CheckpointMoved(f"{pair}: something was applied meanwhile. Look again whether it is needed.")
            why = f"{by} removed its first transaction: {reason}"
            checkpoints.put_tables(before.tables.put_all([one.table for one in tables], TableState.INCONSISTENT, why))
    removed = Removed(tuple(tables), how_to_load(pair.prefix, pair.slave.name, [one.table for one in tables]))
    remember(pair, store, EventKind.TABLE, f"{by} removed the first transaction of the queue ({reason}): {removed}")
    return removed


def _configured(pair: Pair, slave: Session) -> Checkpoint:
    checkpoint = CheckpointStore.of(pair, slave).read()
    state = checkpoint.state if checkpoint else SlaveState.UNCONFIGURED
    if checkpoint is None or state is not SlaveState.NORMAL:
        raise Terminal(
            f"{pair}: the slave is {state}; a transaction is removed only while it is NORMAL.",
            code="no-transaction-to-remove",
        )
    return checkpoint


def _first(pair: Pair, store: "redis.Redis", master: Session, before: Checkpoint) -> list[WaitingTable]:
    queue = master_of(pair.master_info.vendor).queue(master, pair.prefix, pair.replication.master.schema)
    window = rest_of(pair, store, master, before)
    first = queue.first_transaction(window, list(before.tables))
    if not first:
        raise Terminal(
            f"{pair}: no transaction waits that changes a table whose changes are applied.",
            code="no-transaction-to-remove",
        )
    tables = [one for one in first if one.table not in before.tables]
    if loading := [str(one.table) for one in tables if one.table in before.tables.loading]:
        raise Terminal(
            f"{pair}: {', '.join(loading)} is being loaded. Wait for that, or cancel it.",
            code="no-transaction-to-remove",
        )
    return tables
