"""Why a set of changes does not fit the slave's rows: the errors, and the queries that find the rows."""

from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from sluice.counted import counted
from sluice.domain.mask import Mask
from sluice.domain.names import TableName
from sluice.errors import RESTART_APPLY, SluiceError, Terminal
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.errors import reason

_REFUSING = ("21", "2F", "38", "39", "44", "45", "54", "P0")
"""Classes of SQLSTATEs, besides data (22) and constraints (23), with which a slave refuses rows: what its triggers and
views raise, and its limits, such as that of an index's rows."""


def refuses(error: psycopg.Error) -> bool:
    """Whether the slave refused rows for what they are; some of them may be welcome."""
    return (error.sqlstate or "").startswith(_REFUSING)


class Misfit(Terminal):
    """A change does not fit the slave's `table`. With `on_conflict: reject` it is replayed and set aside.

    `finding`: what was found, without the remedy, which is for an apply that stops.
    """

    def __init__(self, table: TableName, finding: str, remedy: str):
        super().__init__(f"{finding}. {remedy}")
        self.table = table
        self.finding = f"{finding}."


class Drift(Misfit):
    """In normal mode a row of the slave is not what the master had: it was changed by another hand.

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
            "Make it what the change expects; or load the table again, with the DAG initial_update and tables: "
            f'["{table}"]; or set on_conflict: overwrite or reject{leave} for this slave. Then {RESTART_APPLY}: it '
            "begins in safe mode, which overwrites rows that still differ.",
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
        """The row is there and looks otherwise; `values`: column → (slave's value, master's former value)."""
        sides = [mask.row(table, {name: pair[side] for name, pair in values.items()}) for side in (0, 1)]
        shown = {name: (sides[0][name], sides[1][name]) for name in values}
        return cls(table, key, action, _described(shown, 1), _described(shown, 0), shown)


class Unsettled(Drift):
    """A constraint that is checked at the commit refuses the slave's rows. `constraint`: its qualified, quoted name.

    `unique`: whether a unique value is in another row's hand.
    """

    def __init__(self, table: TableName, constraint: str, expected: str, found: str, *, unique: bool):
        super().__init__(table, {}, f"the commit, by {constraint},", expected, found)
        self.constraint = constraint
        self.unique = unique


def at_commit(error: BaseException | None, hides: Callable[[TableName], bool]) -> Unsettled | None:
    """What a driver's error at a commit says of the slave's rows; None where it is about something else.

    `hides`: whether a table has masked columns.
    """
    expected = {"23505": "the value free", "23P01": "the value free", "23503": "the row that another refers to"}
    if not isinstance(error, psycopg.Error) or error.sqlstate not in expected:
        return None
    diag = error.diag
    if not (diag.schema_name and diag.table_name and diag.constraint_name):
        return None
    table = TableName(diag.schema_name, diag.table_name)
    found = diag.message_detail or diag.message_primary or str(error)
    if hides(table):
        found = reason(error, hidden=True)
    constraint = quoted(diag.schema_name, diag.constraint_name)
    unique = error.sqlstate != "23503"
    return Unsettled(table, constraint, expected[error.sqlstate], found.rstrip("."), unique=unique)


class Collision(SluiceError):
    """The set-based form of the changes does not work; nothing was done. Replay them one by one.

    No failure by itself: swapped unique values, chains of keys, foreign keys between the changes.
    """

    def __init__(self, table: TableName, reason: str, *, unique: bool = False):
        super().__init__(f"{table}: {reason}; the window is applied change by change")
        self.table = table
        self.reason = reason
        self.unique = unique
        """Whether a unique value was in the way."""


def rows_found(number: int) -> str:
    return "none" if number == 0 else "one" if number == 1 else counted(number, "row")


def _described(values: Mapping[str, tuple[str | None, str | None]], side: int) -> str:
    return ", ".join(f"{name} = {_shown(pair[side])}" for name, pair in values.items())


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    return repr(text) if len(text) <= 80 else f"{text[:60]!r}… ({len(text)} characters)"
