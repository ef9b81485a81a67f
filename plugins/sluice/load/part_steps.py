"""What is different in the steps of an initial update that loads a part of a slave: the slave stays NORMAL.

Its tables go through states of their own, in CHECKPOINT:

    as they were ──begin, create_tables──▶ as they were ──plan──▶ loading ──apply──▶ ready
                                                                     └───cancel──▶ inconsistent, with the reason

BLOCKS tells the rest: an update of a part is under way while blocks are to be read, or tables are loading. The gate
stays open, and neither the state of the slave nor its position is touched.
"""

import logging
import time
from collections.abc import Sequence

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.load_owner import LoadOwner
from sluice.counted import counted
from sluice.database.control import Owner
from sluice.database.placed import vendor_at
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.load.load_ownership import LoadEnded, owner_of
from sluice.load.preparation import Preparation
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.compatibility import TablesDiffer
from sluice.model.key_ranges import Part
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState, TableStates, how_to_load

log = logging.getLogger("sluice.load")

BEHIND_SECONDS, BEHIND_LOOK_SECONDS = 20.0, 0.25
"""How long the apply is waited for that may have changes of definitions before it, and how often it is looked at."""
RECONFIGURED = "the configuration gives it other columns than the slave has; a load makes it anew"
GIVEN_UP = " (given up)"
"""Follows the name of an update of a part that was cancelled: nothing of it may go on."""


class TablesNotReady(Terminal):
    """Tables of an update of a part are not ready; `tables` are those that are inconsistent."""

    def __init__(self, update: Update, states: TableStates, tables: Sequence[TableName]):
        listed = "; ".join(f"{table} is {states.explain(table)}" for table in tables)
        super().__init__(
            f"{update}: {listed}. {how_to_load(update.prefix, update.slave.name, tables)}"
            if tables
            else f"{update}: {', '.join(map(str, states.loading))} are still loading. Wait until they are ready."
        )
        self.tables = tuple(tables)


class ApplyBehind(Transient):
    """Tables differ, and what makes them equal may have to be applied yet."""

    def __init__(self, update: Update):
        super().__init__(
            f"{update}: tables of the slave differ from the master's, and the apply is behind by more than "
            f"{BEHIND_SECONDS:g} s: their definitions may follow. Start the DAG cdc_apply unless it runs."
        )


def under_way(update: Update, slave: Session) -> bool:
    """Whether an update, this one or another, loads a part of the slave."""
    found = CheckpointStore.of(update, slave).read()
    if found is None or found.state is not SlaveState.NORMAL:
        return False
    return bool(found.tables.loading) or any(BlockStore.of(update, slave).left())


def preparing(update: Update, slave: Session) -> bool:
    """Whether the tables are still as they were. Raises `LoadEnded` where the slave is not this update's any more."""
    _expect_mine(update, slave)
    found = CheckpointStore.of(update, slave).configured()
    return not found.tables.loading and any(BlockStore.of(update, slave).left())


def untouched(update: Update, slave: Session) -> bool:
    """Whether the tables are loading and no block of them was begun."""
    if not CheckpointStore.of(update, slave).configured().tables.loading:
        return False
    blocks = [block for table in BlockStore.of(update, slave).map().tables.values() for block in table.blocks]
    return all(block.state is BlockState.PLANNED or block.left_alone for block in blocks)


def begin(update: Update, slave: Session, parts: Sequence[Part], anew: Sequence[TableName]) -> bool:
    """The slave belongs to this update; `parts` are planned, and of the tables `anew` nothing is applied any more."""
    with slave.transaction():
        checkpoints = CheckpointStore.of(update, slave)
        found = checkpoints.configured(lock=True)
        if _is_mine(update, owner_of(update, slave)):
            return False
        if under_way(update, slave):
            raise LoadEnded(update, SlaveState.NORMAL, "another initial update loads a part of it")
        LoadOwner.of(update, slave).name(update.update_id)
        if anew:
            checkpoints.put_tables(found.tables.put_all(anew, TableState.INCONSISTENT, RECONFIGURED))
        BlockStore.of(update, slave).delete()
        for place, part in enumerate(parts):
            BlockStore.of(update, slave).choose(part, place)
    log.info(
        "%s: initial update %s begins: %s to load, all else goes on", update, update.update_id,
        counted(len(parts), "table"),
    )  # fmt: skip
    return True


def examine(update: Update, master: Session, slave: Session, tables: Sequence[TableName]) -> list[TableName]:
    """The tables that are made anew because the configuration gives them other columns than the slave has.

    Raises `TablesDiffer` with everything that stands in the way of loading `tables`. A change of a definition that has
    only to be applied yet is waited for; raises `ApplyBehind` when that lasts.
    """
    try:
        Preparation(update, master, slave, tables).examine()
        return []
    except TablesDiffer:
        now = vendor_of(update.master_info.vendor).changes.take(master, update.prefix, update.replication.master.schema)
        deadline = time.monotonic() + BEHIND_SECONDS
        while not _has_applied(update, slave, now):
            if time.monotonic() > deadline:
                raise ApplyBehind(update) from None
            time.sleep(BEHIND_LOOK_SECONDS)
    preparation = Preparation(update, master, slave, tables)
    anew = preparation.remake_reconfigured()
    preparation.examine()
    return anew


def _has_applied(update: Update, slave: Session, position: Position) -> bool:
    reached = CheckpointStore.of(update, slave).configured().position
    return reached is not None and reached.covers_all_of(position)


def load(update: Update, slave: Session) -> list[TableName]:
    """From here on the blocks decide, and ITEMS keeps what follows. In a transaction that holds the checkpoint."""
    checkpoints = CheckpointStore.of(update, slave)
    found = checkpoints.configured(lock=True)
    assert found.position is not None, "the slave is NORMAL"
    tables = list(BlockStore.of(update, slave).map().tables)
    checkpoints.put_tables(found.tables.load(tables, found.position.text()))
    return tables


def give_up(update: Update, slave: Session, update_id: str | None, reason: str) -> None:
    """The tables that `update_id` was loading are inconsistent with `reason`; all else of the slave goes on.

    In a transaction that holds the checkpoint.
    """
    locks = vendor_at(update).load_locks
    # A claim under way adds the block behind its own, which a deletion that waits for the claim does not see.
    locks.no_claims(slave, update.prefix, update.slave.name)
    checkpoints = CheckpointStore.of(update, slave)
    states = checkpoints.configured(lock=True).tables
    if states.loading:
        checkpoints.put_tables(states.put_all(states.loading, TableState.INCONSISTENT, reason))
    # An apply in the middle of a window rolls back; loaders find nothing more to read, and can store nothing.
    BlockStore.of(update, slave).delete()
    LoadOwner.of(update, slave).name(f"{update_id}{GIVEN_UP}")


def expect_ready(update: Update, slave: Session) -> None:
    """Raises `TablesNotReady`."""
    states = CheckpointStore.of(update, slave).configured().tables
    inconsistent = [
        table for table in states if states.state(table) is TableState.INCONSISTENT and update.selection.covers(table)
    ]
    if inconsistent or states.loading:
        raise TablesNotReady(update, states, inconsistent)


def ready_tables(update: Update, master: Session, slave: Session) -> list[TableName]:
    """The replicated tables of the slave that are ready: foreign keys between them can hold."""
    changes = vendor_of(update.master_info.vendor).changes
    captured = changes.captured(master, update.prefix, update.replication.master.schema)
    there = vendor_at(update).rows.shapes(slave, list(captured))
    states = CheckpointStore.of(update, slave).configured().tables
    return [table for table in captured if table in there and states.ready(table)]


def _is_mine(update: Update, owner: Owner | None) -> bool:
    return owner is not None and owner.update_id == update.update_id and owner.state is SlaveState.NORMAL


def _expect_mine(update: Update, slave: Session) -> None:
    owner = owner_of(update, slave)
    if not _is_mine(update, owner):
        raise LoadEnded.of(update, owner)
