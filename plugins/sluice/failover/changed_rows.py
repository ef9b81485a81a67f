"""Compares the rows that changed since the slave was compared: the master's queue names their keys.

While the application writes, rows are read on the slave later than on the master. One that differs either has changed
again, and is compared with the next changes, or is wrong. Once the master refuses writes, the last changes are compared
for `SECONDS` at most, however many they are.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from sluice.counted import counted, listed
from sluice.database import registry
from sluice.database.digests import Texts, compared
from sluice.database.errors import DatatypeMismatch, LockNotAvailable, UndefinedObject
from sluice.database.failover import ChangedRows
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session, SessionOptions
from sluice.failover.attempt import ANSWER_SECONDS, Failover
from sluice.failover.steps import done, failover_not_running, last_of, position_of
from sluice.model.connection import ConnectionInfo
from sluice.model.failover import Phase
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.purging import lost
from sluice.model.shape import TableShape

log = logging.getLogger("sluice.failover")

MOST_CHANGES, MOST_FINALLY = 200_000, 20_000
"""The most changes whose rows are compared at once: while the application writes, and while it waits."""
FEW_CHANGES = 1_000
"""Changes whose rows are compared fast enough while the application waits."""
SECONDS = 1.0
"""How long rows are compared while the application waits. The result names what was not compared by then."""
LOCK_SECONDS = 3.0
"""How long a comparison waits for a table that is being altered."""
ROWS_AT_ONCE = 200
EXAMPLES = 3
REPLICATES = {"missing": "I", "extra": "D", "different": "U"}
"""How a row differs → the action that would have to be replicated."""


@dataclass
class Result:
    """What a comparison has found."""

    changes: int = 0
    """How many changes the window had."""
    rows: int = 0
    """How many rows were compared."""
    wrong: dict[TableName, dict[Texts, str]] = field(default_factory=dict)
    """Table → key of a row that differs → how."""
    left_out: list[str] = field(default_factory=list)
    """What was not compared, in words."""
    keys: dict[TableName, list[str]] = field(default_factory=dict)
    """Table → the columns of its key."""

    def __str__(self) -> str:
        equal = self.rows - sum(map(len, self.wrong.values()))
        text = f"changed since the comparison, and equal: {counted(equal, 'row')}"
        return f"{text}; not compared: {'; '.join(self.left_out)}" if self.left_out else text

    def wrong_in_words(self) -> list[str]:
        """The tables whose rows differ, with some of their keys."""
        return [self._table_in_words(table, rows) for table, rows in self.wrong.items() if rows]

    def _table_in_words(self, table: TableName, rows: Mapping[Texts, str]) -> str:
        counts = {kind: sum(one == kind for one in rows.values()) for kind in REPLICATES}
        kinds = ", ".join(f"{counted(count, 'row')} {kind}" for kind, count in counts.items() if count)
        examples = [str(dict(zip(self.keys[table], key, strict=True))) for key in [*rows][:EXAMPLES]]
        return f"{table}: {kinds}, as {'; '.join(examples)}"


def compare_meanwhile(failover: Failover, target: Position) -> Result | None:
    """Compares while the application writes. The slave has `target`, a position of this failover's master.

    Returns None if nothing was compared before, or the master refuses writes already.
    """
    begun = _since(failover, Phase.GUARDED)
    if begun is None:
        return None
    with _sessions(failover) as (master, slave):
        comparison = _Comparison(failover, master, slave)
        result = comparison.of(Window(begun, target), None)
        if any(result.wrong.values()):
            later = comparison.changed(Window(target, position_of(failover, master)))
            if comparison.read == MOST_CHANGES:  # they may be among further ones
                result.wrong.clear()
                return result
            for table, changed in later.items():
                wrong = result.wrong.get(table, {})
                for key in [*wrong] if changed.others else wrong.keys() & changed.keys:
                    del wrong[key]
    if not result.wrong_in_words():
        _note(failover, target)
    return result


def compare_finally(failover: Failover) -> Result:
    """Compares when the master refuses writes and nothing is applied any more."""
    begun, end = _since(failover, Phase.COMPLETED), time.monotonic() + SECONDS
    if begun is None:
        return Result()
    with _sessions(failover) as (master, slave):
        return _Comparison(failover, master, slave).of(Window(begun, last_of(failover, slave)), end)


def _since(failover: Failover, until: Phase) -> Position | None:
    """The position up to which the slave was compared; None if that is not known, or from the phase `until` on."""
    with failover.on_slave() as slave:
        known = failover.record(slave).compared
        return registry.parse_position(known) if known and not done(failover, slave, until) else None


def _note(failover: Failover, position: Position) -> None:
    """Notes that the slave was compared up to `position`."""
    with failover.on_slave() as slave, slave.transaction():
        kept = failover.kept(slave)
        record = kept.read(lock=True)
        if record is None or record.id != failover.id or record.phase is Phase.ABORTED:
            raise failover_not_running(failover, record)
        kept.move(record.phase, compared=position.text())


@contextmanager
def _sessions(failover: Failover) -> Iterator[tuple[Session, Session]]:
    """Sessions on master and slave for which rows that a policy hides are an error."""

    def connected(info: ConnectionInfo) -> Session:
        sessions, options = vendor_of(info.vendor).sessions, SessionOptions(loads=True, lock_seconds=LOCK_SECONDS)
        return sessions.connect(info, application=failover.application, autocommit=True, options=options)

    with (
        closing(connected(failover.master_info.given_up_after(ANSWER_SECONDS))) as master,
        closing(connected(failover.slave_info)) as slave,
    ):
        yield master, slave


class _Comparison:
    def __init__(self, failover: Failover, master: Session, slave: Session):
        self.failover, self.master, self.slave = failover, master, slave
        # Both are of a vendor that fails over.
        self.vendor = master_of(failover.master_info.vendor)
        self.queue = self.vendor.queue(master, failover.prefix, failover.replication.master.schema)
        tables = failover.replication.resolve(self.vendor.rows.tables(master))
        self.actions = {one.table: one.actions for one in tables}
        self.shapes = self.vendor.rows.shapes(master, self.actions)
        self.read = 0
        """How many changes `changed` has read."""

    def changed(self, window: Window, most: int = MOST_CHANGES) -> dict[TableName, ChangedRows]:
        queue = self.failover.prefix, self.failover.replication.master.schema
        rows, self.read = self.vendor.failover.changed_rows(self.master, *queue, window, self.shapes.values(), most)
        return rows

    def of(self, window: Window, end: float | None) -> Result:
        """Compares the rows that changed in the window. `end`: by `time.monotonic()`; None: without a limit."""
        most = MOST_CHANGES if end is None else MOST_FINALLY
        changed = self.changed(window, most)
        keys = {table: [column.name for column in shape.key] for table, shape in self.shapes.items()}
        result = Result(self.read, keys=keys)
        if self.read == most:
            result.left_out.append(f"what changed after the first {counted(most, 'change')}")
        if lost(window.previous, self.queue.purged()):
            result.left_out.append("changes that were purged")
        on_slave = self.vendor.rows.shapes(self.slave, changed)
        for table, rows in sorted(changed.items()):
            if rows.others or not keys[table]:
                result.left_out.append(f"{table} ({listed(sorted(rows.others)) or 'it has no key'})")
                continue
            try:
                shapes = self.shapes[table], on_slave.get(table, self.shapes[table])
                self._compare(shapes, sorted(rows.keys, key=str), result, end)
            except (UndefinedObject, DatatypeMismatch, LockNotAvailable):
                result.left_out.append(f"{table} (it was altered meanwhile)")
        return result

    def _compare(
        self, shapes: tuple[TableShape, TableShape], keys: list[Texts], result: Result, end: float | None
    ) -> None:
        """Compares rows of a table. `shapes`: the master's and the slave's."""
        vendor, (of_master, of_slave) = self.vendor, shapes
        table = of_master.table
        columns = compared(vendor.types, ((one.name, of_slave.column(one.name).type) for one in of_master.replicated))
        wrong = result.wrong.setdefault(table, {})
        for start in range(0, len(keys), ROWS_AT_ONCE):
            if end is not None and time.monotonic() > end:
                result.left_out.append(f"{counted(len(keys) - start, 'row')} of {table} (after {SECONDS:.0f} s)")
                break
            some = keys[start : start + ROWS_AT_ONCE]
            result.rows += len(some)
            on_master = vendor.failover.row_digests(self.master, of_master, columns, some)
            on_slave = vendor.failover.row_digests(self.slave, of_slave, columns, some)
            for key, one, other in zip(some, on_master, on_slave, strict=True):
                kind = "missing" if other is None else "extra" if one is None else "different"
                if one != other and REPLICATES[kind] in self.actions[table]:
                    wrong[key] = kind
