"""Changes applied one by one in REPL_KEY order, in the caller's transaction: what becomes of one that does not fit.

For windows whose net changes collide, and for the policies of `on_conflict`: `reject` sets aside each change that does
not fit, `overwrite` is safe mode. Nothing is deferred here. Which statements a change becomes, a vendor says.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from sluice.database.apply import DisplacedRow, Replayed
from sluice.database.conflicts import Conflict, Drift, RuleUndecidable, decide, rows_found
from sluice.database.errors import StatementFailed
from sluice.database.session import Session
from sluice.model.change import RowChange
from sluice.model.conflict_rule import NO_RULES, ConflictRule, Winner, already_applied
from sluice.model.names import TableName
from sluice.model.reject import Rejected
from sluice.vendors.common.slave_tables import SlaveTable, SlaveTables

T = TypeVar("T", bound=SlaveTable)  # type: ignore[type-arg]


@dataclass
class Work:
    """A replay under way."""

    done: Replayed
    safe: bool
    images: frozenset[TableName]
    reject: bool
    rules: Mapping[TableName, ConflictRule] = field(default_factory=lambda: NO_RULES)


class Replayer(ABC, Generic[T]):
    """Replays changes into one slave over one session."""

    def __init__(self, connection: Session, targets: SlaveTables[T]):
        self.connection = connection
        self.targets = targets

    # What a vendor says otherwise

    @abstractmethod
    def execute(self, change: RowChange, target: T, *, safe: bool, images: bool) -> None:
        """The statements of one change. `images`: the row must also look as the master's did. Raises `Conflict`."""

    @abstractmethod
    def overwrite(self, change: RowChange, target: T) -> None:
        """The row becomes the change's; no other one goes. Raises `Conflict`."""

    @abstractmethod
    def displaced(self, change: RowChange, target: T) -> list[DisplacedRow]:
        """The rows of another key that hold a unique value of the new row; they are deleted here."""

    @abstractmethod
    def count(self, target: T, row: Mapping[str, str | None]) -> int:
        """How many rows have these values, two at most. Raises `StatementFailed`."""

    @abstractmethod
    def one_row(self, target: T, key: Mapping[str, str | None], names: Sequence[str]) -> dict[str, str | None] | None:
        """The row of that key: the columns `names`. Raises `StatementFailed`."""

    @abstractmethod
    def differing(
        self, target: T, key: Mapping[str, str | None], former: Mapping[str, str | None]
    ) -> dict[str, tuple[str | None, str | None]]:
        """Of the row of that key the columns that are not as in `former`: what they are, and what they should be."""

    # What all do alike

    def replay(
        self,
        changes: Iterable[RowChange],
        *,
        safe: bool = False,
        images: Collection[TableName] = (),
        reject: bool = False,
        earlier_rejects: Sequence[Rejected] = (),
        deferrable: bool = False,
        rules: Mapping[TableName, ConflictRule] = NO_RULES,
    ) -> Replayed:
        """See `sluice.database.apply.Replayer`. Unique values are never deferred here."""
        masked = (replace(change, mask=self.targets.mask) for change in changes)
        done = Replayed(rejects=list(earlier_rejects))
        return self._replay(masked, Work(done, safe, frozenset(images), reject, rules))

    def missing(self, displaced: Iterable[DisplacedRow]) -> list[DisplacedRow]:
        """Those that are not on the slave now."""
        return [each for each in displaced if not self.rows_under(self.targets[each.table], each.row)]

    def rows_under(self, target: T, row: Mapping[str, str | None]) -> int:
        """How many rows have these values, two at most; none where the values themselves are what is wrong."""
        try:
            return self.count(target, row)
        except StatementFailed:
            return 0

    def drift(self, change: RowChange, target: T, images: bool) -> Drift:
        """The row that a change should have found."""
        key = change.key_of(change.old or change.new)
        rows = self.rows_under(target, key)
        if rows != 1 or not change.key or not images:
            return Drift(change.table, change.shown, str(change.action), "one", rows_found(rows))
        former = {name: text for name, text in change.old.items() if name not in change.key}
        values = self.differing(target, key, former)
        return Drift.of_values(change.table, change.shown, str(change.action), values, self.targets.mask)

    def _replay(self, changes: Iterable[RowChange], work: Work) -> Replayed:
        with self.connection.transaction():
            for change in changes:
                try:
                    # A statement that fails leaves nothing, but one before it may.
                    with self.connection.transaction():
                        self._one(change, work)
                except Conflict as conflict:
                    self._settle(change, conflict, work)
                else:
                    work.done.passed([change])
                work.done.changes += 1
        return work.done

    def _one(self, change: RowChange, work: Work) -> None:
        target = self.targets[change.table]
        if work.safe and change.key:
            for each in self.displaced(change, target):
                work.done.displaced[each.table, each.key] = each
        self.execute(change, target, safe=work.safe, images=change.table in work.images)

    def _settle(self, change: RowChange, problem: Conflict, work: Work) -> None:
        rule = work.rules.get(change.table)
        slave_row, overwrite = self._slave_row(change), lambda: self._overwritten(change)
        work.done.rejects += settled(change, problem, slave_row, rule, overwrite, reject=work.reject)

    def _overwritten(self, change: RowChange) -> Conflict | None:
        """Makes the slave's row the change's, or says what is in the way."""
        try:
            with self.connection.transaction():
                self.overwrite(change, self.targets[change.table])
        except Conflict as refused:
            return refused
        return None

    def _slave_row(self, change: RowChange) -> dict[str, str | None] | None:
        """The row of that key on the slave, of the columns that are replicated."""
        target = self.targets[change.table]
        names = [name for name in (change.new or change.old) if target.has(name)]
        if not change.key or not names:
            return None
        for row in (change.old, change.new):
            if not row:
                continue
            try:
                found = self.one_row(target, change.key_of(row), names)
            except StatementFailed:
                continue
            if found is not None:
                return found
        return None


def settled(
    change: RowChange,
    problem: Conflict,
    slave_row: dict[str, str | None] | None,
    rule: ConflictRule | None,
    overwrite: Callable[[], Conflict | None],
    *,
    reject: bool,
) -> list[Rejected]:
    """What goes to REJECTS of a change that does not fit: nothing where the slave's row is as it says already.

    `overwrite` makes the slave's row the change's where the rule wants that, or says what is in the way.
    Without `reject` raises `problem`, or why the rule of the table decides nothing.
    """
    if rule is not None:
        if already_applied(change, slave_row):
            return []
        try:
            decision = decide(rule, change, slave_row, problem)
            refused = overwrite() if decision.winner is Winner.MASTER else None
            if refused is not None:
                raise RuleUndecidable(problem, rule, f"the master's row does not fit. {refused.finding}")
        except RuleUndecidable as undecided:
            problem = undecided
        else:
            return [Rejected(change, problem.finding, slave_row, decision=decision)]
    if not reject:
        raise problem
    return [Rejected(change, problem.finding, slave_row)]
