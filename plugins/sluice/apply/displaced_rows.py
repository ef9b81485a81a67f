"""Rows of the slave that had to go in safe mode because another needs a unique value that they held.

Mostly the slave is ahead of the window, and a later change of the window brings such a row back, or deletes it. Where
the slave's rows had been changed locally there is no such change: then the row is read from the master, as it
was where the window ends, and put back in the same transaction. So no row that lives on is ever lost for another's.
Where the source has changes alone, the row's next change says what it was.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sluice.apply import window_runs
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.slave_changes import one_by_one
from sluice.database.apply import DisplacedRow
from sluice.database.digests import Texts, by_canonical_texts, compared
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, vendor_of
from sluice.database.session import Session
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.change import Action, RowChange
from sluice.model.guid import key_text
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.window import Window
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")


class RowUnknown(Terminal):
    """A row of the master is needed, and the source of its changes does not say what it is."""

    def __init__(self, pair: Pair, displaced: DisplacedRow):
        super().__init__(
            f"{pair}: the slave's rows were changed by somebody else: {displaced} is missing or has to go, and no "
            "later change of the stream says what the master has there. Make the rows of the slave what they were, "
            f"then {RESTART_APPLY}."
        )
        self.table = displaced.table


Row = Mapping[str, str | None]
Place = tuple[TableName, Texts]
"""A table, and the key of one of its rows."""


def restore_displaced(
    sessions: PairSessions,
    displaced: Iterable[DisplacedRow],
    at: Position,
    keep_lease: Callable[[], None],
    *,
    may_write: bool = True,
    deferrable: bool = False,
) -> None:
    """Makes those of `displaced` (`DisplacedRow`) that the master has at `at`, and the slave has not, the master's.

    In the transaction in which they went. `may_write`: False where a row may be later than `at` on the slave.
    `deferrable`: as of `Replayer.replay`. Raises `RowStays` where rows that the master has cannot be on the slave
    together, `TableChanged`, `ColumnMissing`, outages.
    """
    replayer = sessions.replayer
    missing = replayer.missing(displaced)
    if not missing:
        return
    done: set[Place] = set()
    with reading_master(sessions, at) as master:
        while missing:
            keep_lease()
            changes = _changes(sessions, missing, master.rows(missing), done, may_write)
            displaced = replayer.replay(changes, safe=True, deferrable=deferrable).displaced.values()
            missing = replayer.missing(displaced)


def _changes(
    sessions: PairSessions,
    missing: Sequence[DisplacedRow],
    rows: Sequence[Row | None],
    done: set[Place],
    may_write: bool,
) -> list[RowChange]:
    """What puts the rows back; none where the master has deleted it. `done`: those that were put back before."""
    changes = []
    for each, row in zip(missing, rows, strict=True):
        if row is None:
            continue
        if not may_write or (each.table, each.key) in done:
            other = ", ".join(f"{name} = {value!r}" for name, value in each.row.items())
            reason = f"it needs a unique value that the slave's row {other} has, and the master has both rows"
            raise vendor_at(sessions.pair).applying.row_stays(each.change, reason)
        done.add((each.table, each.key))
        changes.append(RowChange(0, each.table, Action.INSERT, each.change.key, row, {}, None, None))
        log.warning("%s: %s had been changed locally; it gets the master's values", sessions.pair, each)
    return changes


@contextmanager
def reading_master(sessions: PairSessions, at: Position) -> Iterator["MasterRowsAt"]:
    """The master's rows as they were at `at`. Raises outages."""
    info, pair = sessions.pair.master_info, sessions.pair
    earlier = sessions.take_position(at)
    if not has_rows(info.vendor):
        yield MasterRowsAt(sessions, None, at, earlier)
        return
    session = vendor_of(info.vendor).sessions.connect(
        info, application=f"{pair.application} at a position", autocommit=True
    )
    try:
        snapshot = vendor_of(info.vendor).rows
        snapshot.begin_snapshot(session)
        now = snapshot.position_of_snapshot(session, pair.prefix, pair.replication.master.schema, earlier, at)
        yield MasterRowsAt(sessions, session, at, now)
    finally:
        session.close()


class MasterRowsAt:
    """Rows of the master at `at`, read in a transaction whose position is `now`.

    `session`: None where the source has no rows; then what changed up to `now` tells.
    """

    def __init__(self, sessions: PairSessions, session: Session | None, at: Position, now: Position):
        self.sessions = sessions
        self.session = session
        self.at = at
        self.now = now

    def rows(self, wanted: Sequence[DisplacedRow]) -> list[Row | None]:
        """For each of `wanted` the row as it was, None where there was none.

        Raises `TableChanged`, `RowUnknown`, outages.
        """
        tables: dict[TableName, list[DisplacedRow]] = {}
        for each in wanted:
            tables.setdefault(each.table, []).append(each)
        found: dict[Place, Row | None] = {}
        for table, mine in tables.items():
            if self.session is not None:
                self._read(self.session, table, mine, found)
            self._rewind(table, mine, found)
        for each in wanted:
            if (each.table, each.key) not in found:
                raise RowUnknown(self.sessions.pair, each)
        return [found[each.table, each.key] for each in wanted]

    def _read(
        self, session: Session, table: TableName, mine: Sequence[DisplacedRow], found: dict[Place, Row | None]
    ) -> None:
        """The rows as they are in this transaction."""
        transformed = self.sessions.transformed.master_rows(session, table, [each.key for each in mine], alike=True)
        if transformed is not None:
            found.update({(table, each.key): row for each, row in zip(mine, transformed, strict=True)})
            return
        info, target = self.sessions.pair.master_info, self.sessions.merger.targets[table]
        columns = [target.column(name) for name in mine[0].change.new]
        slave = self.sessions.pair.slave_info.vendor
        names = [(column.name, column.type) for column in columns if not column.generated]
        typed = compared(vendor_of(slave).types, names)
        canonical = by_canonical_texts(info.vendor, slave)
        rows = vendor_of(info.vendor).rows.rows_under(
            session, table, mine[0].change.key, typed, [each.key for each in mine], alike=True, canonical=canonical
        )
        for each, row in zip(mine, rows, strict=True):
            found[table, each.key] = dict(zip((name for name, _ in names), row, strict=True)) if row else None

    def _rewind(self, table: TableName, mine: Sequence[DisplacedRow], found: dict[Place, Row | None]) -> None:
        """What happened since is taken back: a row's first change since says what it was before."""
        key = mine[0].change.key
        places = {key_text(found.get((table, each.key)) or each.row, key): (table, each.key) for each in mine}
        items = self.sessions.reader.key_changes(Window(self.at, self.now), guids={table: places}, images=True)
        mine_alone = window_runs.by_table(items).get(table) if items.num_rows else None
        if mine_alone is None:
            return
        transform = self.sessions.transformed.after(self.at, table)
        codec = self.sessions.images
        for change in codec.changes(one_by_one(mine_alone, transform, codec), {table: key}):
            for row, was in ((change.old, change.old or None), (change.new, None)):
                text = key_text(row, key) if row else ""
                place = places.get(text) if row else None
                if place is None:
                    continue
                if was is not None and not change.says_former:
                    # It does not say what the row was. Where the row goes by it, nothing is lost.
                    if change.new and change.key_of(change.new) == change.key_of(change.old):
                        break
                    was = None
                del places[text]
                found[place] = was
