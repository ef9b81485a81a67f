"""Conflicts: changes that do not fit the rows or the tables of a slave."""

import json
from collections.abc import Iterable, Mapping

from sluice.counted import counted
from sluice.database.errors import TableFailure
from sluice.errors import RESTART_APPLY, SluiceError
from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import ConflictRule, Decision, Undecidable
from sluice.model.mask import Mask
from sluice.model.names import TableName


def _load(table: TableName) -> str:
    """How a person loads one table, as `sluice.operate.remedies` reads it."""
    return f"start the DAG initial_update for this slave and tables {json.dumps([str(table.on_master)])}"


class ColumnMissing(TableFailure):
    """A replicated column does not exist on the slave."""

    def __init__(self, table: TableName, column: str, known: Iterable[str]):
        super().__init__(
            table,
            f"Table {table} has no column {column!r} on the slave (it has {', '.join(known)}). Add it there with the "
            f"master's type (ALTER TABLE … ADD COLUMN) and {RESTART_APPLY}; to get the values of rows that are there "
            "already, start the DAG initial_update.",
        )


class SlaveTableMissing(TableFailure):
    """A table that changes on the master does not exist on the slave."""

    def __init__(self, table: TableName):
        super().__init__(
            table,
            f"Table {table} does not exist on the slave. To create and load it, {_load(table)}; or take it out of the "
            f"replication's tables, and {RESTART_APPLY}.",
        )
        self.finding = f"Table {table} does not exist on the slave."


class TableForbidden(TableFailure):
    """The slave does not let the account write to a table, or to what a trigger of the table needs."""

    def __init__(self, table: TableName, reason: str):
        super().__init__(
            table,
            f"The slave's account may not change {table}: {reason.rstrip('.')}. Grant it there what the task check of "
            f"the DAG initial_update lists, then {RESTART_APPLY}.",
        )


class Conflict(TableFailure):
    """A change does not fit the slave's `table`. With `on_conflict: reject` it becomes a reject.

    `finding`: the message without the remedy, which is for an apply that stops.
    """

    def __init__(self, table: TableName, finding: str, remedy: str):
        super().__init__(table, f"{finding}. {remedy}")
        self.finding = f"{finding}."


class RowStays(Conflict):
    """A change could only be applied by deleting a row that the master has. `reason` names that row."""

    otherwise = ""
    """Another remedy, by vendor."""

    def __init__(self, change: RowChange, reason: str):
        super().__init__(
            change.table,
            f"{change.table}, row {row_text(change.shown)}: the {change.action} cannot be applied: {reason}",
            f"On the slave, make that row as it is on the master{self.otherwise}. Then {RESTART_APPLY}.",
        )


class ChangeRefused(Conflict):
    """The slave refuses a change that the master made."""

    remedy = "Change the trigger or constraint that is in the way"

    def __init__(self, change: RowChange, reason: str):
        super().__init__(
            change.table,
            f"{change.table}, row {row_text(change.shown)}: the slave refuses the {change.action}: {reason}",
            f"{self.remedy}, or set on_conflict: reject; then {RESTART_APPLY}.",
        )
        self.change = change


def row_text(row: Mapping[str, str | None]) -> str:
    """The values that name a row, for people."""
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())


class ValueUnfit(Conflict):
    """A value of the master does not fit into the slave's column. `value`: it, or None if unknown; `reason`: the
    server's; `hint`: a vendor's further remedy."""

    def __init__(
        self, table: TableName, reason: str, *, column: str | None = None, value: str | None = None, hint: str = ""
    ):
        where = f"{table}, column {column!r}" if column else str(table)
        what = "a row" if value is None else f"the value {_shown(value)}"
        super().__init__(
            table,
            f"{where}: {what} of the master does not fit on the slave: {reason}",
            "Give the slave's column the master's type and constraints (ALTER TABLE), or take the table out of the "
            f"replication, then {RESTART_APPLY}.{hint}",
        )
        self.column = column
        self.value = value
        self.reason = reason


class Drift(Conflict):
    """In normal mode a row of the slave is not what the master had: it was changed locally.

    `key` names the row (all columns for a keyless table); `differing` maps columns to (slave's
    value, master's former value).
    """

    def __init__(
        self,
        table: TableName,
        key: Mapping[str, str | None],
        action: str,
        expected: str,
        found: str,
        differing: Mapping[str, tuple[str | None, str | None]] | None = None,
    ):
        row = ", ".join(f"{name} = {_shown(value)}" for name, value in key.items()) or "a row"
        leave = ", or compare_values: false," if differing else ""
        super().__init__(
            table,
            f"{table}, row {row}: {action} expected {expected} on the slave and found {found}",
            "The row was changed on the slave, by a person, a program, a trigger or a rule, or it was never loaded. "
            f"Make it what the change expects; or set on_conflict: overwrite or reject{leave} for this slave. Then "
            f"{RESTART_APPLY}: it begins in safe mode, which overwrites rows that still differ. To load the whole "
            f"table again, {_load(table)}.",
        )
        self.key = dict(key)
        self.action = action
        self.expected = expected
        self.found = found
        self.differing = dict(differing or {})

    @classmethod
    def of_values(
        cls,
        table: TableName,
        key: Mapping[str, str | None],
        action: str,
        values: Mapping[str, tuple[str | None, str | None]],
        mask: Mask,
    ) -> "Drift":
        """The row exists with other values; `values`: column → (slave's value, master's former value)."""
        sides = [mask.row(table, {name: pair[side] for name, pair in values.items()}) for side in (0, 1)]
        shown = {name: (sides[0][name], sides[1][name]) for name in values}
        return cls(table, key, action, _described(shown, 1), _described(shown, 0), shown)


class ValueTaken(Drift):
    """Another row of the slave, or the one under the change's own key, has one of its unique values."""

    def __init__(self, change: RowChange, reason: str):
        super().__init__(change.table, change.shown, str(change.action), "the value free", reason)


class RuleUndecidable(Conflict):
    """The table's conflict rule cannot decide on a change that does not fit."""

    def __init__(self, conflict: Conflict, rule: ConflictRule, reason: str):
        super().__init__(
            conflict.table,
            f"{conflict.finding[:-1]}; its rule in conflict_rules, {rule}, cannot decide that: {reason}",
            f"Make the row as it is on the master, or change the rule. Then {RESTART_APPLY}.",
        )


class CommitRefused(Drift):
    """A constraint that the commit checks refuses the slave's rows. `constraint`: its qualified, quoted name.

    `unique`: whether another row has a unique value.
    """

    def __init__(self, table: TableName, constraint: str, expected: str, found: str, *, unique: bool):
        super().__init__(table, {}, f"the commit, by {constraint},", expected, found)
        self.constraint = constraint
        self.unique = unique


class Collision(SluiceError):
    """The changes cannot be merged as sets; nothing was done. Replay them one by one.

    This is no failure: it happens with exchanged unique values, chains of keys, and foreign keys between the changes.
    """

    def __init__(self, table: TableName, reason: str, *, unique: bool = False):
        super().__init__(f"{table}: {reason}; the window is applied change by change")
        self.table = table
        self.reason = reason
        self.unique = unique
        """Whether a unique value was in the way."""


def decide(
    rule: ConflictRule, change: RowChange, slave_row: Mapping[str, str | None] | None, conflict: Conflict
) -> Decision:
    """The decision of `rule` on a change that does not fit `slave_row`. Raises `RuleUndecidable`."""
    if not isinstance(conflict, Drift):
        raise RuleUndecidable(conflict, rule, "the slave refuses the change, for any row")
    if isinstance(conflict, ValueTaken) and change.action is not Action.INSERT:
        raise RuleUndecidable(conflict, rule, "another row has one of its unique values")
    try:
        return rule.decide(change, slave_row)
    except Undecidable as reason:
        raise RuleUndecidable(conflict, rule, str(reason)) from None


def rows_found(number: int) -> str:
    return "none" if number == 0 else "one" if number == 1 else counted(number, "row")


def _described(values: Mapping[str, tuple[str | None, str | None]], side: int) -> str:
    return ", ".join(f"{name} = {_shown(pair[side])}" for name, pair in values.items())


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    return repr(text) if len(text) <= 80 else f"{text[:60]!r}… ({len(text)} characters)"
