"""A partial load: some tables, a range of keys, or rows that meet a condition, into a slave that is NORMAL.

All other changes are applied meanwhile. A chosen range is one block or several, as in any load: storing a block
replaces its rows on the slave, and then it catches up with the changes after its marker. The ranges of a table that are
not chosen count as stored and caught up, so that every change to them is applied.

A condition chooses ranges too: each run of rows, neighbors in key order, for which it holds on the master, with small
gaps included, and the places of rows for which it holds only on the slave.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.own_tables import LoadOwner
from sluice.counted import counted
from sluice.database.control import Owner
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of
from sluice.database.rows import KeyOrder, SelectionInvalid
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.load import selection
from sluice.load.load_ownership import LoadEnded, owner_of
from sluice.load.preparation import Preparation, tables_to_load
from sluice.load.update import Update, on_slave
from sluice.model.blocks import Block, BlockState, Key
from sluice.model.compatibility import TablesDiffer
from sluice.model.guid import key_values
from sluice.model.key_ranges import Part, Range, joined, without_small_gaps
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.reject import Reject
from sluice.model.shape import TableShape
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState, TableStates, how_to_load
from sluice.transform.transforms import master_key

log = logging.getLogger("sluice.load")

# The steps of a partial load, in which the slave stays NORMAL.
#
# Only the states of its tables change, in CHECKPOINT:
#
#     unchanged ──begin, create_tables──▶ unchanged ──plan──▶ loading ──apply──▶ ready
#                                                                └───cancel──▶ inconsistent, with the reason
#
# A partial load is running while BLOCKS has blocks to read, or tables are loading. The gate stays open; the slave's
# state and position do not change.


BEHIND_SECONDS, BEHIND_LOOK_SECONDS = 20.0, 0.25
"""How long, and how often, to look whether the apply has passed changes of definitions that may be pending."""
RECONFIGURED = "the configuration gives it other columns than the slave has; a load creates it again"
GIVEN_UP = " (given up)"
"""Appended to the id of a canceled partial load, so that none of its steps or workers continues."""


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
    """Whether the load of this update has not begun. Raises `LoadEnded` if it no longer owns the slave."""
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

    Returns False if that was done before.
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
        for index, part in enumerate(parts):
            BlockStore.of(update, slave).choose(part, index)
    log.info(
        "%s: initial update %s begins: %s to load; everything else continues", update, update.update_id,
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
    """Raises `tables-not-ready` if chosen tables are inconsistent."""
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


MOST_RANGES = 1_000
"""The most ranges of one table, as the apply checks them with each window. If there are more, neighbors are joined."""
SKIPPED_ROWS = 1_000
"""The largest gap, in rows, between two runs that become one range: reading the gap costs less than another block."""
MOST_STRAYS = 20_000
"""The most rows that match a condition on the slave and are in no run of the master."""


class SelectionRefused(Terminal):
    """The selection cannot be loaded."""

    def __init__(self, update: Update, reason: str):
        super().__init__(f"{update}: {reason.rstrip('.')}. Nothing was changed.")


class WhereNotAllowed(SelectionRefused):
    """The selection has a condition in SQL, and the configuration does not allow any."""

    def __init__(self, update: Update):
        super().__init__(
            update, f"where: a condition is SQL that both accounts execute, and {update.replication.source} allows "
            "none. The person who keeps that file may add there: initial: {where: true}; docs/security.md says what "
            "that grants. Or choose rows by key_from and key_to"
        )  # fmt: skip


@dataclass(frozen=True)
class _KeyRange:
    """The range of keys of the one table, and how both databases order its keys."""

    master_order: KeyOrder
    slave_order: KeyOrder
    lo: Key | None
    hi: Key | None


def check(update: Update, master: Session, slave: Session) -> None:
    """Raises `SelectionRefused` for a selection that cannot be loaded. Reads no rows and changes nothing."""
    _expect_allowed(update)
    _expect_normal(update, slave)
    existing = master_of(update.master_info.vendor).rows.tables(master)
    tables = _named(update, [resolved.table for resolved in update.replication.resolve(existing)])
    _within(update, master, slave, tables)


def parts(update: Update, master: Session, slave: Session, captured: Iterable[TableName]) -> list[Part]:
    """The selected parts of the `captured` tables. For a condition, both sides read the table once.

    Raises `SelectionRefused`.
    """
    _expect_allowed(update)
    tables = _named(update, list(captured))
    within = _within(update, master, slave, tables)
    if within is None:
        return [Part(table) for table in tables]
    if update.selection.where is None:
        return [Part(tables[0], ((within.lo, within.hi),))]
    runs = _matching(update, master, slave, update.selection.where, within)
    if not runs:
        raise SelectionRefused(update, f"where: no row of {tables[0]} meets {update.selection.where!r}, here or there")
    log.info("%s: %s of %s to load", update, counted(len(runs), "range"), tables[0])
    return [Part(tables[0], tuple(runs))]


def planned(update: Update, slave: Session) -> list[Part]:
    """The parts that the running update has still to load, from BLOCKS."""
    loaded = {
        table: [(block.lo, block.hi) for block in blocks.blocks if not block.caught_up]
        for table, blocks in BlockStore.of(update, slave).map().tables.items()
    }
    return [Part(table, tuple(joined(ranges, len(ranges)))) for table, ranges in loaded.items() if ranges]


def clear(update: Update, master: Session, slave: Session, shapes: Sequence[TableShape], parts: Sequence[Part]) -> None:
    """Prepares the slave if replacing the parts block by block would not be exact.

    Drops unique indexes that the master has too until the load is done, because blocks read at different moments may
    have the same value in two rows. Where the databases order the keys differently, deletes the rows of the parts now.
    """
    of_slave, of_master = vendor_at(update), master_of(update.master_info.vendor)
    target = of_slave.load_target
    unique = target.with_unique_values(slave, [shape.table for shape in shapes])
    if unique:
        indexes = of_master.schemas.indexes(master, list(unique))
        stripped = target.strip(slave, [index for index in indexes if index.unique or index.constraint_kind], [])
        if stripped:
            log.info("%s: dropped until the load is done: %s", update, ", ".join(stripped))
    by_table = {part.table: part for part in parts}
    with on_slave(update) as own_session:
        # Without foreign keys and triggers, because the rows are inserted again.
        of_slave.sessions.begin_applying(own_session, origin=str(update.prefix))
        for shape in (shape for shape in shapes if shape.table in by_table):
            _clear(update, master, own_session, shape, by_table[shape.table])


def _clear(update: Update, master: Session, slave: Session, shape: TableShape, part: Part) -> None:
    """Deletes the rows of the part if both databases order its table's keys differently."""
    of_slave, of_master = vendor_at(update), master_of(update.master_info.vendor)
    master_shape = of_master.rows.shape(master, shape.table)
    if master_shape is None or master_shape.keyless:
        return
    master_order = of_master.rows.key_order(master, master_shape)
    key = master_key(master_shape, update.transformation(shape.table))
    slave_order = of_slave.rows.key_order(slave, shape.keyed_by(key))
    if master_order.same_everywhere and slave_order.same_everywhere:
        return
    if part.whole:
        of_slave.load_target.clear(slave, slave_order, Block(shape.table, 1))
    else:
        count = _delete(update, master, slave, master_order.shape, slave_order, part)
        log.info(
            "%s: %s of %s deleted: both databases order its keys differently",
            update, counted(count, "row"), shape.table,
        )  # fmt: skip


def _expect_allowed(update: Update) -> None:
    if update.selection.where is not None and not update.options.where:
        raise WhereNotAllowed(update)


def _expect_normal(update: Update, slave: Session) -> None:
    owner = owner_of(update, slave) if CheckpointStore.of(update, slave).exists() else None
    state = owner.state if owner else SlaveState.UNCONFIGURED
    if owner is not None and owner.update_id == update.update_id and state is not SlaveState.INCONSISTENT:
        return
    if state is not SlaveState.NORMAL:
        raise SelectionRefused(
            update, f"the slave is {state}, and a part of it can be loaded only if the rest is right. Start an "
            "initial update without tables, where, key_from and key_to"
        )  # fmt: skip


def _named(update: Update, known: Sequence[TableName]) -> list[TableName]:
    """The selected ones of the `known` tables. Raises `SelectionRefused`."""
    chosen = update.selection
    for pattern in chosen.tables:
        if not any(selection.names(pattern, table) for table in known):
            listed = ", ".join(map(str, known[:10])) + (", …" if len(known) > 10 else "")
            raise SelectionRefused(update, f"tables: {pattern!r} is no replicated table; there are {listed or 'none'}")
    tables = [table for table in known if chosen.covers(table)]
    if chosen.ranged and len(tables) != 1:
        named = f"{len(tables)} are named" if chosen.tables else "none is named"
        raise SelectionRefused(update, f"where, key_from and key_to choose rows of one table, and {named} under tables")
    return tables


def _within(update: Update, master: Session, slave: Session, tables: Sequence[TableName]) -> _KeyRange | None:
    """The range of keys that is selected; None if tables are loaded as a whole. Raises `SelectionRefused`."""
    chosen = update.selection
    if not chosen.ranged:
        return None
    (table,) = tables
    of_master, of_slave = master_of(update.master_info.vendor), vendor_at(update)
    master_shape = of_master.rows.shape(master, table)
    slave_shape = of_slave.rows.shape(slave, table)
    if slave_shape is None:
        raise SelectionRefused(update, f"{table} is not on the slave yet: load it as a whole first")
    checkpoint = CheckpointStore.of(update, slave).read()
    if checkpoint is not None and table in checkpoint.tables:
        state = checkpoint.tables.state(table)
        raise SelectionRefused(update, f"{table} is {state} on the slave: load it as a whole first")
    if master_shape is None or master_shape.keyless or slave_shape.keyless:
        raise SelectionRefused(update, f"{table} has no key: it can be loaded as a whole only, without where and keys")
    master_order = of_master.rows.key_order(master, master_shape)
    slave_order = of_slave.rows.key_order(
        slave, slave_shape.keyed_by(master_key(master_shape, update.transformation(table)))
    )
    select = of_master.selection
    try:
        lo = None if chosen.key_from is None else select.key_of(master, master_shape, chosen.key_from)
        hi = None if chosen.key_to is None else select.key_of(master, master_shape, chosen.key_to)
        if chosen.where is not None:
            select.check(master, master_order, chosen.where, update.master_info.server)
            of_slave.selection.check(slave, slave_order, chosen.where, update.slave_info.server)
    except SelectionInvalid as error:
        raise SelectionRefused(update, str(error)) from error
    if lo is not None and hi is not None and _places(update, master, master_shape, [hi], [lo]) != [0]:
        raise SelectionRefused(update, f"key_from {chosen.key_from!r} is not below key_to {chosen.key_to!r}")
    return _KeyRange(master_order, slave_order, lo, hi)


def _matching(update: Update, master: Session, slave: Session, where: str, within: _KeyRange) -> list[Range]:
    """The ranges that the condition chooses. Raises `SelectionRefused`."""
    order, shape = within.master_order, within.master_order.shape
    select = master_of(update.master_info.vendor).selection
    try:
        between = min(SKIPPED_ROWS, update.options.block_rows)
        runs = joined(without_small_gaps(select.runs(master, order, where, within.lo, within.hi), between), MOST_RANGES)
        strays: list[Key] = []
        for keys in vendor_at(update).selection.matching(slave, within.slave_order, where):
            strays += _outside(update, master, keys, runs, within)
            if len(strays) > MOST_STRAYS:
                raise SelectionRefused(
                    update, f"more than {MOST_STRAYS:,} rows of {shape.table} meet the condition on the slave and "
                    "not on the master: load the table as a whole"
                )  # fmt: skip
    except SelectionInvalid as error:
        raise SelectionRefused(update, str(error)) from error
    in_order = select.in_order(master, shape, strays)
    return joined(_merged(update, master, order, runs, in_order, within.hi), MOST_RANGES)


def _outside(
    update: Update, master: Session, keys: Sequence[Key], runs: Sequence[Range], within: _KeyRange
) -> list[Key]:
    """The slave's `keys` that are within the range and in none of the runs."""
    shape = within.master_order.shape
    bounds = [bound for run in runs for bound in run if bound is not None]
    begins_open = bool(runs) and runs[0][0] is None
    edges = [bound for bound in (within.lo, within.hi) if bound is not None]
    inside = 1 if within.lo is not None else 0
    indices = _places(update, master, shape, bounds, keys)
    kept = _places(update, master, shape, edges, keys)
    return [
        key
        for key, index, edge in zip(keys, indices, kept, strict=True)
        if edge == inside and (index + begins_open) % 2 == 0
    ]


def _merged(
    update: Update, master: Session, order: KeyOrder, runs: Sequence[Range], strays: Sequence[Key], hi: Key | None
) -> Iterator[Range]:
    """The runs, and a range for each stray up to the master's next row, in key order."""
    select = master_of(update.master_info.vendor).selection
    ranges: dict[Key | None, Range] = {run[0]: run for run in runs}
    ends: list[Key | None] = []
    for key in strays:
        end = order.next_bound(master, key, hi, 0)
        if end == key:
            end = order.next_bound(master, key, hi, 1)
        end = end or hi
        if ends[-1:] != [end]:  # else it is in the range of the stray before
            ranges[key] = (key, end)
            ends.append(end)
    open_start = [ranges.pop(None)] if None in ranges else []
    yield from open_start
    for start in select.in_order(master, order.shape, [start for start in ranges if start is not None]):
        yield ranges[start]


def _delete(update: Update, master: Session, slave: Session, shape: TableShape, own: KeyOrder, part: Part) -> int:
    """Deletes the slave's rows of the chosen ranges, by the master's order of keys. Returns how many."""
    of_slave = vendor_at(update)
    doomed: list[Key] = []
    for keys in of_slave.selection.matching(slave, own, "true"):
        inside = _inside(update, master, shape, part, keys)
        doomed += [key for key, chosen in zip(keys, inside, strict=True) if chosen]
    of_slave.load_target.delete(slave, own, doomed)
    return len(doomed)


def holds(update: Update, master: Session, part: Part, reject: Reject) -> bool:
    """Whether the ranges of the part have all rows of the reject."""
    shape = master_of(update.master_info.vendor).rows.shape(master, part.table)
    if shape is None or not reject.keys or len(shape.key) != len(reject.key):
        return False
    keys = [tuple(key_values(text, len(shape.key))) for text in reject.keys]
    return all(_inside(update, master, shape, part, keys))


def _inside(update: Update, master: Session, shape: TableShape, part: Part, keys: Sequence[Key]) -> list[bool]:
    """For each of `keys` whether it is in the ranges of the part."""
    bounds = [bound for chosen in part.ranges for bound in chosen if bound is not None]
    begins_open = part.ranges[0][0] is None
    return [(index + begins_open) % 2 == 1 for index in _places(update, master, shape, bounds, keys)]


def _places(
    update: Update, master: Session, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]
) -> list[int]:
    return update.queue(master).locate(shape, bounds, keys)
