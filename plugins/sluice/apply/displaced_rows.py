"""Restores rows that safe mode deleted because another row needed their unique value.

Usually the slave is ahead of the window, and a later change in the window inserts such a row again, or deletes it too.
Where the slave's rows were changed locally there is no such change. Then the row is read from the master, as of the end
of the window, and inserted in the same transaction, so that no row is lost. A source without rows gives the row's
values by its next change.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sluice.apply import window_runs
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.slave_changes import keys_of_master, one_by_one
from sluice.database.apply import DisplacedRow, ReplayOptions
from sluice.database.digests import ComparedTable, Texts, by_canonical_texts, compared
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, master_of, vendor_of
from sluice.database.session import Session
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.change import Action, RowChange
from sluice.model.guid import key_text
from sluice.model.names import TableName
from sluice.model.position import Position, Window

log = logging.getLogger("sluice.apply")


Row = Mapping[str, str | None]
RowKey = tuple[TableName, Texts]
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
    """Inserts those of `displaced` that the master has at `at` and the slave lacks.

    Runs in the transaction that deleted them. `may_write`: False if the slave's rows may be newer than `at`.
    `deferrable`: as of `Replayer.replay`. Raises `RowStays` if the slave cannot have all of the master's rows,
    `table-changed`, `ColumnMissing`, outages.
    """
    replayer = sessions.replayer
    missing = replayer.missing(displaced)
    if not missing:
        return
    done: set[RowKey] = set()
    options = ReplayOptions(safe=True, deferrable=deferrable)
    with reading_master(sessions, at) as master:
        while missing:
            keep_lease()
            changes = _changes(sessions, missing, master.rows(missing), done, may_write)
            displaced = replayer.replay(changes, options).displaced.values()
            missing = replayer.missing(displaced)


def _changes(
    sessions: PairSessions,
    missing: Sequence[DisplacedRow],
    rows: Sequence[Row | None],
    done: set[RowKey],
    may_write: bool,
) -> list[RowChange]:
    """The INSERTs that restore rows; none for a row that the master has deleted. `done`: rows restored before."""
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
    earlier = sessions.queue.take(at)
    if not has_rows(info.vendor):
        yield MasterRowsAt(sessions, None, at, earlier)
        return
    session = master_of(info.vendor).sessions.connect(
        info, application=f"{pair.application} at a position", autocommit=True
    )
    try:
        snapshot = master_of(info.vendor).rows
        snapshot.begin_snapshot(session)
        now = (
            master_of(info.vendor)
            .queue(session, pair.prefix, pair.replication.master.schema)
            .position_of_snapshot(earlier, at)
        )
        yield MasterRowsAt(sessions, session, at, now)
    finally:
        session.close()


class MasterRowsAt:
    """Rows of the master as of `at`, from a transaction whose position is `now` and the changes between.

    `session`: None if the source has no rows; then only the changes up to `now` say them.
    """

    def __init__(self, sessions: PairSessions, session: Session | None, at: Position, now: Position):
        self.sessions = sessions
        self.session = session
        self.at = at
        self.now = now

    def rows(self, displaced: Sequence[DisplacedRow]) -> list[Row | None]:
        """For each of `displaced` the row as of `at`, None if there was none.

        Raises `table-changed`, `master-row-unknown`, outages.
        """
        tables: dict[TableName, list[DisplacedRow]] = {}
        for each in displaced:
            tables.setdefault(each.table, []).append(each)
        rows: dict[RowKey, Row | None] = {}
        for table, of_table in tables.items():
            if self.session is not None:
                self._read(self.session, table, of_table, rows)
            self._rewind(table, of_table, rows)
        for each in displaced:
            if (each.table, each.key) not in rows:
                raise Terminal(
                    f"{self.sessions.pair}: the slave's rows were changed by somebody else: {each} is missing or has "
                    "to go, and no later change of the stream says what the master has there. Make the rows of the "
                    f"slave what they were, then {RESTART_APPLY}.",
                    code="master-row-unknown",
                )
        return [rows[each.table, each.key] for each in displaced]

    def _read(
        self, session: Session, table: TableName, displaced: Sequence[DisplacedRow], rows: dict[RowKey, Row | None]
    ) -> None:
        """Adds the rows as of the session's transaction to `rows`."""
        keys = [each.key for each in displaced]
        transformed = self.sessions.transformed.master_rows(session, table, displaced[0].change.key, keys, alike=True)
        if transformed is not None:
            rows.update({(table, key): row for key, row in zip(keys, transformed, strict=True)})
            return
        info, target = self.sessions.pair.master_info, self.sessions.merger.targets[table]
        columns = [target.column(name) for name in displaced[0].change.new]
        slave = self.sessions.pair.slave_info.vendor
        names = [(column.name, column.type) for column in columns if not column.generated]
        typed = compared(vendor_of(slave).types, names)
        of = ComparedTable(table, typed, displaced[0].change.key, by_canonical_texts(info.vendor, slave))
        read = master_of(info.vendor).rows.rows_under(session, of, keys, alike=True)
        for key, row in zip(keys, read, strict=True):
            rows[table, key] = dict(zip((name for name, _ in names), row, strict=True)) if row else None

    def _rewind(self, table: TableName, displaced: Sequence[DisplacedRow], rows: dict[RowKey, Row | None]) -> None:
        """Undoes the changes since `at` in `rows`: a row's first change says what it was before."""
        key = displaced[0].change.key
        pending = {key_text(rows.get((table, each.key)) or each.row, key): (table, each.key) for each in displaced}
        transform = self.sessions.transformed.after(self.at, table)
        guids = {table: keys_of_master(pending, transform)}
        items = self.sessions.reader.key_changes(Window(self.at, self.now), guids=guids, images=True)
        of_table = window_runs.by_table(items).get(table) if items.num_rows else None
        if of_table is None:
            return
        codec = self.sessions.images
        for change in codec.changes(one_by_one(of_table, transform, codec), {table: key}):
            for row, was in ((change.old, change.old or None), (change.new, None)):
                text = key_text(row, key) if row else ""
                row_key = pending.get(text) if row else None
                if row_key is None:
                    continue
                if was is not None and not change.says_former:
                    # Its old image is not known. A change that deletes or moves the row needs none.
                    if change.new and change.key_of(change.new) == change.key_of(change.old):
                        break
                    was = None
                del pending[text]
                rows[row_key] = was
