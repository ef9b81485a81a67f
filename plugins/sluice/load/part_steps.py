"""The steps of a partial load, in which the slave stays NORMAL.

Only the states of its tables change, in CHECKPOINT:

    unchanged ──begin, create_tables──▶ unchanged ──plan──▶ loading ──apply──▶ ready
                                                               └───cancel──▶ inconsistent, with the reason

A partial load is running while BLOCKS has blocks to read, or tables are loading. The gate stays open; the slave's state
and position do not change.
"""

import logging
import time
from collections.abc import Mapping, Sequence

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.load_owner import LoadOwner
from sluice.counted import counted
from sluice.database.control import Owner
from sluice.database.placed import vendor_at
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.load.load_ownership import LoadEnded, owner_of
from sluice.load.preparation import Preparation, tables_to_load
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
"""How long, and how often, to look whether the apply has passed changes of definitions that may be pending."""
RECONFIGURED = "the configuration gives it other columns than the slave has; a load makes it anew"
GIVEN_UP = " (given up)"
"""Appended to the id of a cancelled partial load, so that none of its steps or workers continues."""


def tables_not_ready(update: Update, states: TableStates, tables: Sequence[TableName]) -> Terminal:
    """Tables of a partial load are not ready; `tables`: the inconsistent ones."""
    listed = "; ".join(f"{table} is {states.explain(table)}" for table in tables)
    return Terminal(
        f"{update}: {listed}. {how_to_load(update.prefix, update.slave.name, tables)}"
        if tables
        else f"{update}: {', '.join(map(str, states.loading))} are still loading. Wait until they are ready.",
        code="tables-not-ready",
    )


def under_way(update: Update, slave: Session) -> bool:
    """Whether a partial load of this or another update is running."""
    checkpoint = CheckpointStore.of(update, slave).read()
    if checkpoint is None or checkpoint.state is not SlaveState.NORMAL:
        return False
    return bool(checkpoint.tables.loading) or any(BlockStore.of(update, slave).left())


def preparing(update: Update, slave: Session) -> bool:
    """Whether the load of this update has not begun. Raises `LoadEnded` where it no longer owns the slave."""
    _expect_owner(update, slave)
    checkpoint = CheckpointStore.of(update, slave).configured()
    return not checkpoint.tables.loading and any(BlockStore.of(update, slave).left())


def untouched(update: Update, slave: Session) -> bool:
    """Whether the tables are loading and none of their blocks was begun."""
    if not CheckpointStore.of(update, slave).configured().tables.loading:
        return False
    blocks = [block for table in BlockStore.of(update, slave).map().tables.values() for block in table.blocks]
    return all(block.state is BlockState.PLANNED or block.left_alone for block in blocks)


def begin(update: Update, slave: Session, parts: Sequence[Part], inconsistent: Mapping[TableName, str]) -> bool:
    """Makes this update the slave's owner and plans `parts`; the tables `inconsistent` become so, each with its reason.

    Returns False where that was done before.
    """
    with slave.transaction():
        checkpoints = CheckpointStore.of(update, slave)
        checkpoint = checkpoints.configured(lock=True)
        if _owns(update, owner_of(update, slave)):
            return False
        if under_way(update, slave):
            raise LoadEnded(update, SlaveState.NORMAL, "another initial update loads a part of it")
        LoadOwner.of(update, slave).name(update.update_id)
        if inconsistent:
            checkpoints.put_tables(checkpoint.tables.leave_out(inconsistent))
        BlockStore.of(update, slave).delete()
        for place, part in enumerate(parts):
            BlockStore.of(update, slave).choose(part, place)
    log.info(
        "%s: initial update %s begins: %s to load, all else goes on", update, update.update_id,
        counted(len(parts), "table"),
    )  # fmt: skip
    return True


def make_tables(update: Update, master: Session, slave: Session) -> list[TableName]:
    """Makes the planned tables that the slave lacks; those that it refuses are left out. Returns the tables made."""
    preparation = Preparation(update, master, slave, tables_to_load(update, master, slave))
    try:
        return preparation.make()
    finally:
        _note_refused(update, slave, preparation)


def _note_refused(update: Update, slave: Session, preparation: Preparation) -> None:
    """Notes why the slave cannot create tables; those that are left out are not loaded."""
    if not preparation.refused:
        return
    with slave.transaction():
        checkpoints = CheckpointStore.of(update, slave)
        states = checkpoints.configured(lock=True).tables
        refused = {table: why for table, why in preparation.refused.items() if table in states}
        if refused and not states.loading:
            checkpoints.put_tables(states.leave_out(refused))
            for table in preparation.left_out:
                BlockStore.of(update, slave).delete(table)


def examine(
    update: Update, master: Session, slave: Session, tables: Sequence[TableName]
) -> tuple[dict[TableName, str], dict[TableName, str]]:
    """The tables that must be made again, because the configuration gives them other columns than the slave has, and
    those that the slave cannot create, each with the reason.

    Waits for changes of definitions that are not applied yet. Raises `apply-behind` when that takes too long,
    `TablesDiffer` with all problems.
    """
    preparation = Preparation(update, master, slave, tables)
    try:
        preparation.examine()
        # A label that a ready table's ALTER is about to rename must not be added before.
        if not preparation.left_out and not preparation.types_behind():
            return {}, {}
    except TablesDiffer:
        pass
    now = update.queue(master).take()
    deadline = time.monotonic() + BEHIND_SECONDS
    while not _has_applied(update, slave, now):
        if time.monotonic() > deadline:
            raise Transient(
                f"{update}: tables of the slave differ from the master's, and the apply is behind by more than "
                f"{BEHIND_SECONDS:g} s: their definitions may follow. Start the DAG cdc_apply unless it runs.",
                code="apply-behind",
            )
        time.sleep(BEHIND_LOOK_SECONDS)
    preparation = Preparation(update, master, slave, tables)
    remade = preparation.remake_reconfigured()
    try:
        preparation.examine()
    except TablesDiffer:
        _note_refused(update, slave, preparation)
        raise
    return dict.fromkeys(remade, RECONFIGURED), preparation.left_out


def _has_applied(update: Update, slave: Session, position: Position) -> bool:
    reached = CheckpointStore.of(update, slave).configured().position
    return reached is not None and reached.covers_all_of(position)


def load(update: Update, slave: Session) -> list[TableName]:
    """Makes the tables loading: from here on blocks decide on their changes, and ITEMS keeps what follows.

    Call it in a transaction that has locked the checkpoint. Returns the tables.
    """
    checkpoints = CheckpointStore.of(update, slave)
    checkpoint = checkpoints.configured(lock=True)
    assert checkpoint.position is not None, "the slave is NORMAL"
    tables = list(BlockStore.of(update, slave).map().tables)
    checkpoints.put_tables(checkpoint.tables.load(tables, checkpoint.position.text()))
    return tables


def give_up(update: Update, slave: Session, update_id: str | None, reason: str) -> None:
    """Makes the tables that `update_id` was loading inconsistent with `reason`; the slave stays NORMAL.

    Call it in a transaction that has locked the checkpoint.
    """
    locks = vendor_at(update).load_locks
    # A claim adds the block behind its own; without this lock the deletion below would not see that block.
    locks.no_claims(slave, update.prefix, update.slave.name)
    checkpoints = CheckpointStore.of(update, slave)
    states = checkpoints.configured(lock=True).tables
    if states.loading:
        checkpoints.put_tables(states.put_all(states.loading, TableState.INCONSISTENT, reason))
    # An apply in the middle of a window rolls back; loaders find no block to claim, and can store none.
    BlockStore.of(update, slave).delete()
    LoadOwner.of(update, slave).name(f"{update_id}{GIVEN_UP}")


def expect_loaded(update: Update, states: TableStates) -> None:
    """Raises `tables-not-ready` while tables are loading."""
    if states.loading:
        raise tables_not_ready(update, states, [])


def expect_ready(update: Update, states: TableStates) -> None:
    """Raises `tables-not-ready` where chosen tables are inconsistent."""
    inconsistent = [
        table for table in states if states.state(table) is TableState.INCONSISTENT and update.selection.covers(table)
    ]
    if inconsistent:
        raise tables_not_ready(update, states, inconsistent)


def ready_tables(update: Update, master: Session, slave: Session) -> list[TableName]:
    """The replicated tables of the slave that are ready: foreign keys between them can be made."""
    captured = update.queue(master).captured()
    on_slave = vendor_at(update).rows.shapes(slave, list(captured))
    states = CheckpointStore.of(update, slave).configured().tables
    return [table for table in captured if table in on_slave and states.ready(table)]


def _owns(update: Update, owner: Owner | None) -> bool:
    return owner is not None and owner.update_id == update.update_id and owner.state is SlaveState.NORMAL


def _expect_owner(update: Update, slave: Session) -> None:
    owner = owner_of(update, slave)
    if not _owns(update, owner):
        raise LoadEnded.of(update, owner)
