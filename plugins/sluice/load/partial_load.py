"""An initial update of a part of a slave that is NORMAL: some tables, a range of keys, rows that meet a condition.

Changes of all else are applied on and on. A chosen range is a block, or several, as in any load: its rows on the slave
are replaced when it is stored, and it catches up with what followed its marker. What lies between the chosen ranges of
a table counts as stored and caught up, so that every change to it is applied.

A condition chooses ranges too: each run of neighbouring rows, in key order, for which it holds on the master, small
gaps between them included, and the places of rows for which it holds on the slave alone.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.counted import counted
from sluice.database.placed import vendor_at
from sluice.database.registry import vendor_of
from sluice.database.rows import KeyOrder
from sluice.database.selection import SelectionInvalid
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.load import selection
from sluice.load.load_ownership import owner_of
from sluice.load.sessions import on_slave
from sluice.load.update import Update
from sluice.model.blocks import Block, Key
from sluice.model.guid import key_values
from sluice.model.key_ranges import Part, Range, joined, without_small_gaps
from sluice.model.names import TableName
from sluice.model.reject import Reject
from sluice.model.shape import TableShape
from sluice.model.slave_state import SlaveState

log = logging.getLogger("sluice.load")

MOST_RANGES = 1_000
"""Of one table: the apply looks at all of them with each window. Where there are more, neighbours are joined."""
SKIPPED_ROWS = 1_000
"""Rows between two runs that meet a condition, up to which both are one range: reading them costs less than a block."""
MOST_STRAYS = 20_000
"""Rows of the slave alone that meet a condition."""


class SelectionRefused(Terminal):
    """What the form asks for cannot be loaded alone."""

    def __init__(self, update: Update, reason: str):
        super().__init__(f"{update}: {reason.rstrip('.')}. Nothing was changed.")


class WhereNotAllowed(SelectionRefused):
    """The form brings SQL, and the configuration does not allow it."""

    def __init__(self, update: Update):
        super().__init__(
            update, f"where: a condition is SQL that both accounts execute, and {update.replication.source} allows "
            "none. The person who keeps that file may add there: initial: {where: true}; docs/security.md says what "
            "that grants. Or choose rows by key_from and key_to"
        )  # fmt: skip


def check(update: Update, master: Session, slave: Session) -> None:
    """Raises `SelectionRefused` for a choice that cannot be carried out; reads no rows and changes nothing."""
    _expect_allowed(update)
    _expect_normal(update, slave)
    existing = vendor_of(update.master_info.vendor).rows.tables(master)
    tables = _named(update, [resolved.table for resolved in update.replication.resolve(existing)])
    _within(update, master, slave, tables)


def parts(update: Update, master: Session, slave: Session, captured: Iterable[TableName]) -> list[Part]:
    """What is to be loaded of the `captured` tables. Where there is a condition, the table is read once on both sides.

    Raises `SelectionRefused`.
    """
    _expect_allowed(update)
    tables = _named(update, list(captured))
    found = _within(update, master, slave, tables)
    if found is None:
        return [Part(table) for table in tables]
    ours, theirs, (lo, hi) = found
    if update.selection.where is None:
        return [Part(tables[0], ((lo, hi),))]
    runs = _matching(update, master, slave, update.selection.where, ours, theirs, (lo, hi))
    if not runs:
        raise SelectionRefused(update, f"where: no row of {tables[0]} meets {update.selection.where!r}, here or there")
    log.info("%s: %s of %s to load", update, counted(len(runs), "range"), tables[0])
    return [Part(tables[0], tuple(runs))]


def planned(update: Update, slave: Session) -> list[Part]:
    """What is still to be loaded by the update under way, as BLOCKS has it."""
    found = BlockStore.of(update, slave).map().tables
    loaded = {
        table: [(block.lo, block.hi) for block in blocks.blocks if not block.caught_up]
        for table, blocks in found.items()
    }
    return [Part(table, tuple(joined(ranges, len(ranges)))) for table, ranges in loaded.items() if ranges]


def clear(update: Update, master: Session, slave: Session, shapes: Sequence[TableShape], parts: Sequence[Part]) -> None:
    """Makes way for the chosen parts where replacing them block by block cannot be exact.

    Indexes that keep values unique, and that the master has too, go until the load is done: a value may stand in two
    rows of blocks that were read at different moments. Where the two databases order the keys differently, the rows of
    the chosen ranges are deleted now.
    """
    here, there = vendor_at(update), vendor_of(update.master_info.vendor)
    target = here.load_target
    unique = target.with_unique_values(slave, [shape.table for shape in shapes])
    if unique:
        indexes = there.schemas.indexes(master, list(unique))
        stripped = target.strip(slave, [index for index in indexes if index.unique or index.constraint_kind], [])
        if stripped:
            log.info("%s: dropped until the load is done: %s", update, ", ".join(stripped))
    by_table = {part.table: part for part in parts}
    with on_slave(update) as own_session:
        # Foreign keys and triggers of the slave do not act: the rows come again.
        here.sessions.begin_applying(own_session, origin=str(update.prefix))
        for shape in (shape for shape in shapes if shape.table in by_table):
            _clear(update, master, own_session, shape, by_table[shape.table])


def _clear(update: Update, master: Session, slave: Session, shape: TableShape, part: Part) -> None:
    """Deletes the rows of the part where both databases order its table's keys differently."""
    here, there = vendor_at(update), vendor_of(update.master_info.vendor)
    ours = there.rows.shape(master, shape.table)
    if ours is None or ours.keyless:
        return
    order = there.rows.key_order(master, ours)
    own = here.rows.key_order(slave, shape)
    if order.same_everywhere and own.same_everywhere:
        return
    if part.whole:
        here.load_target.clear(slave, own, Block(shape.table, 1))
    else:
        count = _delete(update, master, slave, order.shape, own, part)
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
            update, f"the slave is {state}, and a part of it can be loaded only where the rest is right. Start an "
            "initial update without tables, where, key_from and key_to"
        )  # fmt: skip


def _named(update: Update, known: Sequence[TableName]) -> list[TableName]:
    chosen = update.selection
    for pattern in chosen.tables:
        if not any(selection.names(pattern, table) for table in known):
            listed = ", ".join(map(str, known[:10])) + (", …" if len(known) > 10 else "")
            raise SelectionRefused(update, f"tables: {pattern!r} is no replicated table; there are {listed or 'none'}")
    found = [table for table in known if chosen.covers(table)]
    if chosen.ranged and len(found) != 1:
        named = f"{len(found)} are named" if chosen.tables else "none is named"
        raise SelectionRefused(update, f"where, key_from and key_to choose rows of one table, and {named} under tables")
    return found


def _within(
    update: Update, master: Session, slave: Session, tables: Sequence[TableName]
) -> tuple[KeyOrder, KeyOrder, Range] | None:
    """How both sides order the keys of the one table, and the range of its keys; None where tables are whole."""
    wanted = update.selection
    if not wanted.ranged:
        return None
    (table,) = tables
    ours = vendor_of(update.master_info.vendor).rows.shape(master, table)
    theirs = vendor_at(update).rows.shape(slave, table)
    if theirs is None:
        raise SelectionRefused(update, f"{table} is not on the slave yet: load it as a whole first")
    found = CheckpointStore.of(update, slave).read()
    if found is not None and table in found.tables:
        raise SelectionRefused(update, f"{table} is {found.tables.state(table)} on the slave: load it as a whole first")
    if ours is None or ours.keyless or theirs.keyless:
        raise SelectionRefused(update, f"{table} has no key: it can be loaded as a whole only, without where and keys")
    order = vendor_of(update.master_info.vendor).rows.key_order(master, ours)
    own = vendor_at(update).rows.key_order(slave, theirs)
    named = vendor_of(update.master_info.vendor).selection
    here = vendor_at(update).selection
    try:
        lo = None if wanted.key_from is None else named.key_of(master, ours, wanted.key_from)
        hi = None if wanted.key_to is None else named.key_of(master, ours, wanted.key_to)
        if wanted.where is not None:
            named.check(master, order, wanted.where, update.master_info.place)
            here.check(slave, own, wanted.where, update.slave_info.place)
    except SelectionInvalid as error:
        raise SelectionRefused(update, str(error)) from error
    if lo is not None and hi is not None and _places(update, master, ours, [hi], [lo]) != [0]:
        raise SelectionRefused(update, f"key_from {wanted.key_from!r} is not below key_to {wanted.key_to!r}")
    return order, own, (lo, hi)


def _matching(
    update: Update, master: Session, slave: Session, where: str, ours: KeyOrder, theirs: KeyOrder, within: Range
) -> list[Range]:
    """The ranges that the condition chooses."""
    lo, hi = within
    named = vendor_of(update.master_info.vendor).selection
    here = vendor_at(update).selection
    try:
        between = min(SKIPPED_ROWS, update.options.block_rows)
        runs = joined(without_small_gaps(named.runs(master, ours, where, lo, hi), between), MOST_RANGES)
        strays: list[Key] = []
        for keys in here.matching(slave, theirs, where):
            strays += _outside(update, master, ours.shape, keys, runs, within)
            if len(strays) > MOST_STRAYS:
                raise SelectionRefused(
                    update, f"more than {MOST_STRAYS:,} rows of {ours.shape.table} meet the condition on the slave and "
                    "not on the master: load the table as a whole"
                )  # fmt: skip
    except SelectionInvalid as error:
        raise SelectionRefused(update, str(error)) from error
    return joined(_merged(update, master, ours, runs, named.in_order(master, ours.shape, strays), hi), MOST_RANGES)


def _outside(
    update: Update,
    master: Session,
    shape: TableShape,
    keys: Sequence[Key],
    runs: Sequence[Range],
    within: Range,
) -> list[Key]:
    """Those of the slave's `keys` that lie within the range and in none of the runs."""
    bounds = [bound for run in runs for bound in run if bound is not None]
    begins_open = bool(runs) and runs[0][0] is None
    edges = [bound for bound in within if bound is not None]
    inside = 1 if within[0] is not None else 0
    places = _places(update, master, shape, bounds, keys)
    kept = _places(update, master, shape, edges, keys)
    return [
        key
        for key, place, edge in zip(keys, places, kept, strict=True)
        if edge == inside and (place + begins_open) % 2 == 0
    ]


def _merged(
    update: Update, master: Session, order: KeyOrder, runs: Sequence[Range], strays: Sequence[Key], hi: Key | None
) -> Iterator[Range]:
    """Runs and strays in key order; a stray's range ends where the master's next row begins."""
    named = vendor_of(update.master_info.vendor).selection
    ranges: dict[Key | None, Range] = {run[0]: run for run in runs}
    ends: list[Key | None] = []
    for key in strays:
        end = order.next_bound(master, key, hi, 0)
        if end == key:
            end = order.next_bound(master, key, hi, 1)
        end = end or hi
        if ends[-1:] != [end]:  # else the range of the stray before holds it
            ranges[key] = (key, end)
            ends.append(end)
    open_start = [ranges.pop(None)] if None in ranges else []
    yield from open_start
    for start in named.in_order(master, order.shape, [start for start in ranges if start is not None]):
        yield ranges[start]


def _delete(update: Update, master: Session, slave: Session, shape: TableShape, own: KeyOrder, part: Part) -> int:
    """Deletes the slave's rows of the chosen ranges; which those are, the master says."""
    here = vendor_at(update)
    doomed: list[Key] = []
    for keys in here.selection.matching(slave, own, "true"):
        inside = _inside(update, master, shape, part, keys)
        doomed += [key for key, chosen in zip(keys, inside, strict=True) if chosen]
    here.load_target.delete(slave, own, doomed)
    return len(doomed)


def holds(update: Update, master: Session, part: Part, reject: Reject) -> bool:
    """Whether all rows that a change which was set aside touches are in the ranges of the part."""
    shape = vendor_of(update.master_info.vendor).rows.shape(master, part.table)
    if shape is None or not reject.keys or len(shape.key) != len(reject.key):
        return False
    keys = [tuple(key_values(text, len(shape.key))) for text in reject.keys]
    return all(_inside(update, master, shape, part, keys))


def _inside(update: Update, master: Session, shape: TableShape, part: Part, keys: Sequence[Key]) -> list[bool]:
    """For each of `keys` whether it is in the ranges of the part."""
    bounds = [bound for chosen in part.ranges for bound in chosen if bound is not None]
    begins_open = part.ranges[0][0] is None
    return [(place + begins_open) % 2 == 1 for place in _places(update, master, shape, bounds, keys)]


def _places(
    update: Update, master: Session, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]
) -> list[int]:
    return vendor_of(update.master_info.vendor).changes.locate(master, shape, bounds, keys)
