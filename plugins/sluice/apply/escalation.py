"""Decides what is tried next after a window could not be applied. No I/O; docs/apply.md draws the ladder.

The first attempt is the cheapest: the net changes of each table, in a few statements. Some windows need more: two rows
exchange a unique value, a row is referred to before it is inserted, a conflict must be traced to one change, the master
has altered a table. Each failure rolls the slave's transaction back. Then the rungs of `LADDER` that are for this kind
of failure are tried from the top, and the first one that has another attempt is taken. If none has, the failure stands.

The ladder ends, because each attempt has a higher `Attempt.height` than the one before it, and heights are bounded.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from sluice.apply.pair_sessions import TableGone
from sluice.backoff import Backoff
from sluice.database.conflicts import (
    Collision,
    ColumnMissing,
    CommitRefused,
    Conflict,
)
from sluice.database.errors import LoginRefused, StatementFailed, TableFailure
from sluice.errors import SluiceError, Terminal, Transient
from sluice.model.names import TableName
from sluice.model.position import Window
from sluice.pair import ConnectionsOutdated, Pair
from sluice.transform.table_transform import RowNotTransformed

MOST_COMPARED = 10
"""Conflicts of a window after each of which the definitions are compared; the next one counts."""

Reasons = Mapping[TableName, str]
"""Table → why it is inconsistent."""


class CannotReplay(TableFailure):
    """The changes of `table` can be neither merged nor replayed."""

    def __init__(self, collision: Collision):
        super().__init__(collision.table, str(collision))


class ConstraintsOutdated(SluiceError):
    """Changes would be rejected while the slave still has constraints that the master dropped."""


class SliceTooSmall(Transient):
    """A slice ended between rows that a constraint of the slave ties together; the next slice is larger."""

    def __init__(self, pair: Pair, reason: Exception):
        super().__init__(f"{pair}: a slice of the window is taken again, twice as large: {reason}")


def table_at_fault(failure: Terminal, altering: TableName | None) -> TableName | None:
    """The table that may be isolated; None if the failure is not of one table. `altering`: whose definition was being
    changed. A table that is renamed has its former name, even if the slave names the new one."""
    return failure.table if isinstance(failure, TableFailure) else altering


class Rung(StrEnum):
    """What is done before the next attempt."""

    REPLAY = "replay changes"
    COMMIT = "check or displace at once"
    SLICE = "take a larger slice"
    CONSTRAINTS = "drop outdated constraints"
    COLUMNS = "read the slave's tables again"
    DEFINITIONS = "compare definitions"
    ROWS = "set rows aside"
    TABLE = "isolate the table"


LADDER: Mapping[Rung, tuple[type[SluiceError], ...]] = MappingProxyType({
    Rung.REPLAY: (Collision, Conflict),
    Rung.COMMIT: (CommitRefused,),
    Rung.SLICE: (CommitRefused,),
    Rung.CONSTRAINTS: (Terminal, ConstraintsOutdated),
    Rung.COLUMNS: (ColumnMissing,),
    Rung.DEFINITIONS: (Conflict, TableGone),
    Rung.ROWS: (RowNotTransformed,),
    Rung.TABLE: (Terminal,),
})  # fmt: skip
"""From the top: each rung, and the failures after which it is tried."""

SAME_PLAN = frozenset({Rung.REPLAY, Rung.COMMIT, Rung.CONSTRAINTS})
"""After these the plan's transaction is repeated; after the others the window is read and planned again."""


def rungs(failure: SluiceError) -> Sequence[Rung]:
    """The rungs to be tried after `failure`, in order."""
    return [rung for rung, failures in LADDER.items() if isinstance(failure, failures)]


@dataclass(frozen=True)
class Attempt:
    """How a window is applied this time: what the failures so far have taught.

    The fields stand in the order of the ladder, from the innermost one. What a rung changes resets all before it.
    """

    window: Window
    safe: bool = False
    """Whether the window is applied in safe mode."""
    replayed: frozenset[TableName] = frozenset()
    """Tables whose changes are applied one by one, in the order of their REPL_KEYs."""
    immediate: frozenset[str] = frozenset()
    """Deferrable constraints of the slave that are checked with each change: qualified, quoted names."""
    deferrable: bool = False
    """Whether rows are displaced also for unique values that the commit checks."""
    constraints_dropped: bool = False
    """Whether the slave's constraints that the master dropped are gone."""
    tables_read_again: bool = False
    """Whether the slave's tables were read again, because one lacked a column."""
    compared: tuple[TableName, ...] = ()
    """The tables whose conflicts led to a comparison of the master's definitions."""
    final: bool = False
    """Whether the next conflict counts; otherwise the definitions are compared first."""
    set_aside: int = 0
    """How many times rows were set aside, because they cannot be transformed."""
    isolated: Reasons = field(default_factory=dict)
    """Tables that this window leaves inconsistent."""

    @property
    def height(self) -> tuple[int, ...]:
        """The place on the ladder: of two attempts at a window, the later one is higher."""
        return (
            len(self.isolated) + self.set_aside,
            len(self.compared),
            self.tables_read_again,
            self.constraints_dropped,
            len(self.replayed) + len(self.immediate) + self.deferrable,
        )

    def planned(self, replayed: Collection[TableName]) -> "Attempt":
        """The first attempt at a plan. `replayed`: the tables that are replayed in any case."""
        return replace(
            self, replayed=frozenset(replayed), immediate=frozenset(), deferrable=False, constraints_dropped=False
        )

    def without_constraints(self, replayed: Collection[TableName]) -> "Attempt":
        """After outdated constraints of the slave were dropped; `replayed` as of `planned`."""
        return replace(self.planned(replayed), constraints_dropped=True)

    def with_tables_read(self) -> "Attempt":
        """After the slave's tables were read again."""
        return replace(self, tables_read_again=True)

    def with_definitions(self, table: TableName, window: Window, *, changed: bool, safe: bool) -> "Attempt":
        """After a conflict of `table`, and a comparison of the definitions that found a change, or none.

        Each table may conflict once, and again whenever a comparison found a change: while one is compared, the
        application may alter another. `window` has what the comparison queued.
        """
        compared = (*self.compared, table)
        again = (changed or compared.count(table) == 1) and len(compared) < MOST_COMPARED
        return replace(
            self, window=window, safe=safe, compared=compared, final=safe or not again, tables_read_again=False
        )

    def with_rows_set_aside(self, begin: "Attempt") -> "Attempt":
        """After rows that cannot be transformed were set aside. `begin`: the first attempt at the window."""
        return replace(begin, isolated=self.isolated, set_aside=self.set_aside + 1)

    def with_isolated(self, isolated: Reasons, begin: "Attempt") -> "Attempt":
        """After another table was isolated; `begin` as above."""
        return replace(begin, isolated=isolated, set_aside=self.set_aside)


@dataclass(frozen=True)
class Escalation:
    """The next attempt at the transaction of one plan after a failed one; None if no further one would help."""

    tables: frozenset[TableName]
    """Tables whose rows the window changes."""
    related: Callable[[TableName], Collection[TableName]]
    """The table, and those that must be replayed together with it."""
    safe: bool
    """Whether the window is applied in safe mode."""
    final: bool
    """Whether a conflict counts; otherwise the definitions are compared first."""
    rejecting: bool
    """Whether conflicts go to REJECTS."""
    cascades: bool
    """Whether the slave's foreign keys act on changes."""
    in_slices: bool
    """Whether the window takes several transactions."""

    def after_collision(self, tried: Attempt, table: TableName) -> Attempt | None:
        """After a merge of the table's changes failed, or its replay failed because of another table's rows."""
        if self.tables <= tried.replayed:
            return None
        return self._replaying(tried, self.tables if table in tried.replayed else self.related(table))

    def after_conflict(self, tried: Attempt, table: TableName) -> Attempt | None:
        """After a change did not fit the slave's row.

        It may be a false conflict: changes that fit only in their order across tables, or rows that the slave's foreign
        keys have already changed as the master's did. Replaying tells.
        """
        if self.tables <= tried.replayed or not self.final:
            return None
        if not (tried.replayed or self.rejecting or self.cascades):
            return None
        return self._replaying(tried, self.tables if tried.replayed else self.related(table))

    def after_commit(self, tried: Attempt, refused: CommitRefused) -> Attempt | None:
        """After a constraint that the commit checks refused the rows. None also if a larger slice may help."""
        # The refusing table may be a partition, whose name is not the replicated one.
        again = self.related(refused.table) if refused.table in self.tables else self.tables
        if self.safe and refused.unique and not tried.deferrable:
            # A row outside the window holds the value: in safe mode it is displaced and restored from the master.
            return self._replaying(replace(tried, deferrable=True), again)
        if self.in_slices or not self.rejecting or refused.constraint in tried.immediate:
            return None
        # Checked with each statement, the constraint tells which change is at fault.
        return self._replaying(replace(tried, immediate=tried.immediate | {refused.constraint}), again)

    def may_drop_constraints(self, tried: Attempt, failure: SluiceError, *, altering: bool) -> bool:
        """Whether the cause may be a constraint that the master dropped and the slave still has. `altering`: whether
        a definition was being changed."""
        caused = isinstance(failure, Conflict | CannotReplay | StatementFailed | ConstraintsOutdated)
        return not tried.constraints_dropped and (caused or altering)

    @staticmethod
    def _replaying(tried: Attempt, tables: Collection[TableName]) -> Attempt:
        return replace(tried, replayed=tried.replayed.union(tables))


# After an outage everything is read again, over new sessions: the apply tries again, or ends for a new process.

LONGEST_BACKOFF_SECONDS = 15.0
LONG_OUTAGE_SECONDS = 600.0
"""An apply that lived this long is started again at once (`sluice.airflow.restart_policy`)."""


class Outages:
    """The outages of one apply. `logged_in`: whether its process has been connected to both databases."""

    def __init__(self, pair: Pair, *, logged_in: bool):
        self.pair = pair
        self.logged_in = logged_in
        self._backoff = Backoff(longest=LONGEST_BACKOFF_SECONDS)
        self._since: float | None = None

    def ended(self) -> None:
        """A turn went well."""
        self._backoff.reset()
        self._since = None

    def pause(self, outage: Transient) -> float:
        """Seconds to wait before the next try. Raises `ConnectionsOutdated` after outages of `LONG_OUTAGE_SECONDS`
        without a turn in between."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._since > LONG_OUTAGE_SECONDS:
            raise ConnectionsOutdated(self.pair, outage) from outage
        return self._backoff.next()

    def refused(self, refusal: LoginRefused) -> SluiceError:
        """The meaning of a refused login: a person must act, unless the account was admitted before."""
        return ConnectionsOutdated(self.pair, refusal) if self.logged_in else refusal
