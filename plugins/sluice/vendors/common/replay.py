"""Applies changes one by one in REPL_KEY order, in the caller's transaction, and handles those that do not fit.

It is for windows whose net changes conflict with each other, and for the policies of `on_conflict`: `reject` rejects
each change that does not fit, `overwrite` is safe mode. No constraint is deferred here. A vendor's subclass provides
the statements.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from sluice.database.apply import PLAIN_REPLAY, DisplacedRow, Replayed, ReplayOptions
from sluice.database.conflicts import ChangeRefused, Conflict, Drift, RuleUndecidable, ValueTaken, decide, rows_found
from sluice.database.digests import Texts
from sluice.database.errors import DatabaseRefused, StatementFailed, UniqueViolation
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import ConflictRule, Winner, already_applied
from sluice.model.reject import Rejected
from sluice.vendors.common.slave_tables import SlaveTable, SlaveTables

T = TypeVar("T", bound=SlaveTable)  # type: ignore[type-arg]
Row = Mapping[str, str | None]


@dataclass
class Statement:
    """A statement of a change, with its parameters."""

    text: str
    values: dict[str, Any] = field(default_factory=dict)
    counted: bool = False
    """Whether it must change one row."""
    otherwise: "Statement | None" = None
    """The statement that is run if it changed none."""


class Replayer(ABC, Generic[T]):
    """Replays changes into one slave over one session."""

    def __init__(self, connection: Session, targets: SlaveTables[T]):
        self.connection = connection
        self.targets = targets

    # What each vendor implements

    @abstractmethod
    def run(self, statement: Statement) -> int:
        """Runs a statement; returns how many rows it changed. Raises `StatementFailed`."""

    @abstractmethod
    def insert(self, target: T, row: Row, *, counted: bool = False) -> Statement:
        """The statement that inserts the row. Raises `ColumnMissing`."""

    @abstractmethod
    def update(self, target: T, new: Row, row: Row, *, counted: bool = False, one: bool = False) -> Statement:
        """The statement that gives the rows with the values `row` those of `new`; `one`: one of them. Raises
        `ColumnMissing`."""

    @abstractmethod
    def rename(self, target: T, old: Row, new: Row) -> Statement:
        """The statement that gives the row with the key `old` the key `new`, if no row has that."""

    def put(self, change: RowChange, target: T) -> list[Statement]:
        """In safe mode, the statements that make the row of an INSERT or UPDATE what the change says, regardless of
        what it was. Raises `ColumnMissing`."""
        return self.updating(change, target)

    def overwriting(self, change: RowChange, target: T) -> list[Statement]:
        """The statements that give the row the change's values, and delete no other row."""
        return self.idempotent(change, target)

    @abstractmethod
    def unfit(self, change: RowChange, target: T, error: StatementFailed) -> Conflict | None:
        """The conflict, if the server refuses a value of the change for its column's type; else None."""

    @abstractmethod
    def indexes(self, values: Row) -> bool:
        """Whether a unique index has an entry for a row with these values of its columns."""

    @abstractmethod
    def delete(self, target: T, row: Row, *, counted: bool = False, one: bool = False) -> Statement:
        """The statement that deletes the rows with these values; `one`: one of them."""

    @abstractmethod
    def rows(
        self, target: T, names: Sequence[str], equal: Row, unlike: Iterable[Row] = (), most: int | None = None
    ) -> list[Texts]:
        """The texts of the columns `names` of the rows, `most` of them, that have the values `equal` and not all of
        `unlike`. Raises `StatementFailed`."""

    @abstractmethod
    def differing(
        self, target: T, key: Mapping[str, str | None], former: Mapping[str, str | None]
    ) -> dict[str, tuple[str | None, str | None]]:
        """The columns of the row with this key whose values differ from `former`: (present, former)."""

    # What all vendors share

    def strict(self, change: RowChange, target: T, *, images: bool) -> list[Statement]:
        """The statements in normal mode. `images`: the slave's row must have the old image's values. Raises
        `ColumnMissing`."""
        if change.action is Action.INSERT:
            return [self.insert(target, change.new, counted=True)]
        old = change.old if images or not change.key else change.key_of(change.old)
        old = {name: text for name, text in old.items() if not target.column(name).generated or name in change.key}
        one = not change.key
        if change.action is Action.DELETE:
            return [self.delete(target, old, counted=True, one=one)]
        return [self.update(target, change.new, old, counted=True, one=one)]

    def idempotent(self, change: RowChange, target: T) -> list[Statement]:
        """The statements in safe mode, after which the row is as the change says. Raises `ColumnMissing`."""
        if not change.key:
            statements = [self.delete(target, change.old, one=True)] if change.old else []
            return [*statements, self.insert(target, change.new)] if change.new else statements
        if change.action is Action.DELETE:
            return [self.delete(target, change.key_of(change.old))]
        return self.put(change, target)

    def updating(self, change: RowChange, target: T) -> list[Statement]:
        """An UPDATE, or an INSERT if there is no row: what lives only in the slave's row stays."""
        new_key, statements = change.key_of(change.new), []
        old_key = change.key_of(change.old) if change.old else new_key
        if old_key != new_key:
            # A row that gets the new key keeps its own columns. If the key is taken, the old key's row is deleted.
            gone = None if change.partial else self.delete(target, old_key)
            statements.append(replace(self.rename(target, old_key, new_key), otherwise=gone))
        # Columns that a partial change omits keep their values; a missing row cannot be inserted.
        update = self.update(target, change.new, new_key, counted=change.partial)
        return [*statements, update if change.partial else replace(update, otherwise=self.insert(target, change.new))]

    def replay(
        self,
        changes: Iterable[RowChange],
        options: ReplayOptions = PLAIN_REPLAY,
        earlier_rejects: Sequence[Rejected] = (),
    ) -> Replayed:
        """See `sluice.database.apply.Replayer`. Unique values are never deferred here."""
        done = Replayed(rejects=list(earlier_rejects))
        with self.connection.transaction():
            for unmasked in changes:
                change = replace(unmasked, mask=self.targets.mask)
                try:
                    # A failed statement leaves nothing, but the statements before it may.
                    with self.connection.transaction():
                        self._one(change, done, options)
                except Conflict as conflict:
                    done.rejects += self._resolve(change, conflict, options)
                else:
                    done.passed([change])
                done.changes += 1
        return done

    def missing(self, displaced: Iterable[DisplacedRow]) -> list[DisplacedRow]:
        """The rows of `displaced` that are not on the slave at present."""
        return [each for each in displaced if not self.rows_under(self.targets[each.table], each.row)]

    def rows_under(self, target: T, row: Mapping[str, str | None]) -> int:
        """How many rows have these values, at most two; none if the values do not fit the columns."""
        try:
            return len(self.rows(target, (), row, most=2))
        except StatementFailed:
            return 0

    def displaced(self, change: RowChange, target: T) -> list[DisplacedRow]:
        """Deletes and returns the rows of another key that have a unique value of the new row."""
        if not change.new:
            return []
        own_keys = [change.key_of(row) for row in (change.new, change.old) if row]
        displaced: dict[Texts, DisplacedRow] = {}
        for index in target.uniques_beside(change.key):
            values = {name: change.new.get(name) for name in index.columns}
            if self.indexes(values):
                for key in self.rows(target, change.key, values, own_keys):
                    displaced[key] = DisplacedRow(change, key)
        for each in displaced.values():
            self.run(self.delete(target, each.row))
        return list(displaced.values())

    def drift(self, change: RowChange, target: T, images: bool) -> Drift:
        """The conflict of a change that did not find its row."""
        key = change.key_of(change.old or change.new)
        rows = self.rows_under(target, key)
        if rows != 1 or not change.key or not images:
            return Drift(change.table, change.shown, str(change.action), "one", rows_found(rows))
        former = {name: text for name, text in change.old.items() if name not in change.key}
        values = self.differing(target, key, former)
        return Drift.of_values(change.table, change.shown, str(change.action), values, self.targets.mask)

    def _one(self, change: RowChange, done: Replayed, options: ReplayOptions) -> None:
        target = self.targets[change.table]
        if options.safe and change.key:
            for each in self.displaced(change, target):
                done.displaced[each.table, each.key] = each
        images = change.table in options.images
        statements = self.idempotent(change, target) if options.safe else self.strict(change, target, images=images)
        for statement in statements:
            if self._run(statement, change, target) != 1 and statement.counted:
                raise self.drift(change, target, images)

    def _run(self, statement: Statement, change: RowChange, target: T) -> int:
        """How many rows the statement changed. Raises `Conflict`."""
        try:
            rows = self.run(statement)
            if rows == 0 and statement.otherwise is not None:
                self.run(statement.otherwise)
        except UniqueViolation as error:
            if change.action is Action.INSERT and change.key and self.rows_under(target, change.key_of(change.new)):
                raise Drift(change.table, change.shown, str(change.action), "none", "one") from None
            raise ValueTaken(change, target.reason_shown(error)) from None
        except (StatementFailed, DatabaseRefused) as error:
            unfit = self.unfit(change, target, error) if isinstance(error, StatementFailed) else None
            otherwise = unfit or ChangeRefused(change, target.reason_shown(error))
            columns = {**change.old, **change.new}
            raise self.targets.refused(change.table, columns, error, otherwise) from None
        return rows

    def _resolve(self, change: RowChange, problem: Conflict, options: ReplayOptions) -> list[Rejected]:
        rule = options.rules.get(change.table)
        slave_row, overwrite = self._slave_row(change), lambda: self._overwritten(change)
        return rejects_of_conflict(change, problem, slave_row, rule, overwrite, reject=options.reject)

    def _overwritten(self, change: RowChange) -> Conflict | None:
        """Gives the slave's row the change's values, or returns why that is not possible."""
        try:
            with self.connection.transaction():
                target = self.targets[change.table]
                for statement in self.overwriting(change, target):
                    self._run(statement, change, target)
        except Conflict as refused:
            return refused
        return None

    def _slave_row(self, change: RowChange) -> dict[str, str | None] | None:
        """The replicated columns of the slave's row with the change's old key, else with its new one."""
        target = self.targets[change.table]
        names = [name for name in (change.new or change.old) if target.has(name)]
        if not change.key or not names:
            return None
        for row in (change.old, change.new):
            if not row:
                continue
            try:
                on_slave = self.rows(target, names, change.key_of(row), most=1)
            except StatementFailed:
                continue
            if on_slave:
                return dict(zip(names, on_slave[0], strict=True))
        return None


def rejects_of_conflict(
    change: RowChange,
    problem: Conflict,
    slave_row: dict[str, str | None] | None,
    rule: ConflictRule | None,
    overwrite: Callable[[], Conflict | None],
    *,
    reject: bool,
) -> list[Rejected]:
    """The rejects of a change that does not fit: none if the slave's row already has its values.

    `overwrite` gives the slave's row the change's values where the rule decides so, or returns why that is not
    possible. Without `reject` raises `problem`, or `RuleUndecidable` where the table's rule decides nothing.
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
