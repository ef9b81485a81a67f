"""Which row wins if a row was changed on both the master and the slave (`conflict_rules` of a slave).

For two databases that replicate to each other: each side decides from the two rows alone, and both sides choose the
same row. `newest` needs a column that every write increases, on both sides. Of two equal values the greater row wins. A
DELETE always wins, because a deleted row has no value to compare. With `wins` one database prevails: `master` in the
replication from it, `slave` in the one to it. `exit` names a user function that gets the two rows and returns one of
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from types import MappingProxyType

from sluice.model.change import Action, RowChange
from sluice.model.mask import quoted_text
from sluice.model.names import TableName
from sluice.user_function import FunctionMissing, imported, in_one_line

Row = Mapping[str, str | None]


class Winner(StrEnum):
    """Whose row stays."""

    MASTER = "master"
    SLAVE = "slave"


@dataclass(frozen=True)
class Decision:
    """What is done with a conflicting change."""

    winner: Winner
    reason: str
    """The reason, for REJECTS."""


class Undecidable(Exception):
    """The rule cannot decide which row wins; the text has the reason."""


@dataclass(frozen=True)
class ConflictRule:
    """A rule; exactly one of its three fields is set."""

    wins: Winner | None = None
    newest: str | None = None
    """A column with a time or a number."""
    exit: str | None = None
    """`package.module:function`. The function gets the master's row and the slave's, each a dictionary of texts, or
    None without a row, and returns `master` or `slave`."""

    def decide(self, change: RowChange, slave_row: Row | None) -> Decision:
        """`slave_row`: the slave's row with the key of the change; None without one. Raises `Undecidable`."""
        if not change.key:
            raise Undecidable("the table has no key that names one row on both sides")
        if change.partial:
            raise Undecidable("the change does not bring the whole row")
        if change.action is Action.INSERT and slave_row is None:
            raise Undecidable("another row has one of its unique values")
        if self.wins is not None:
            return Decision(self.wins, f"the {self.wins}'s row wins")
        if self.exit is not None:
            winner = _of_exit(self.exit, change.new or None, slave_row)
            return Decision(winner, f"{self.exit} chose the {winner}'s row")
        assert self.newest is not None
        if not change.new:
            return Decision(Winner.MASTER, "the row was deleted on the master")
        if slave_row is None:
            return Decision(Winner.SLAVE, "the row was deleted on the slave")
        return _newest(self.newest, change.new, slave_row)

    def fixes(self, master_row: Row | None, slave_row: Row | None) -> bool:
        """Whether a repair writes the master's row to the slave, if the two differ. Raises `Undecidable`.

        By `newest`, a row that only one side has is inserted on the other, since it is unknown whether it was deleted
        there.
        """
        if self.wins is not None:
            return self.wins is Winner.MASTER
        if self.exit is not None:
            return _of_exit(self.exit, master_row, slave_row) is Winner.MASTER
        assert self.newest is not None
        if master_row is None or slave_row is None:
            return slave_row is None
        return _newest(self.newest, master_row, slave_row).winner is Winner.MASTER

    def __str__(self) -> str:
        if self.exit is not None:
            return f"exit: {self.exit}"
        return f"newest: {self.newest}" if self.newest else f"wins: {self.wins}"


NO_RULES: Mapping[TableName, ConflictRule] = MappingProxyType({})


def already_applied(change: RowChange, slave_row: Row | None) -> bool:
    """Whether the slave's row already is as after the change."""
    if not change.new:
        return slave_row is None
    return slave_row is not None and all(change.new.get(name) == value for name, value in slave_row.items())


def _of_exit(name: str, master_row: Row | None, slave_row: Row | None) -> Winner:
    rows = (None if row is None else dict(row) for row in (master_row, slave_row))
    try:
        answer = imported(name)(*rows)
    except FunctionMissing as missing:
        raise Undecidable(str(missing)) from missing
    except (Exception, SystemExit) as error:
        raise Undecidable(f"{name} fails: {quoted_text(in_one_line(error))}") from error
    if answer not in tuple(Winner):
        raise Undecidable(f"{name} gives {answer!r}, and neither 'master' nor 'slave'")
    return Winner(str(answer))


def _newest(column: str, master_row: Row, slave_row: Row) -> Decision:
    on_master, on_slave = _instant(column, master_row), _instant(column, slave_row)
    shown = f"{column} is {master_row[column]} on the master, {slave_row[column]} on the slave"
    if on_master == on_slave:
        # With two-way replication each side decides on the same two rows: both must decide for the same one.
        names = sorted(master_row.keys() & slave_row.keys())
        greater = [_ordered(master_row[name]) for name in names] > [_ordered(slave_row[name]) for name in names]
        return Decision(Winner.MASTER if greater else Winner.SLAVE, f"{shown}; the greater row wins")
    try:
        newer = on_slave is None or (on_master is not None and on_master > on_slave)  # type: ignore[operator]
    except TypeError:
        raise Undecidable(f"{shown}: one is a time, the other a number") from None
    return Decision(Winner.MASTER if newer else Winner.SLAVE, shown)


def _instant(column: str, row: Row) -> Decimal | datetime | None:
    """NULL is older than all values."""
    if column not in row:
        raise Undecidable(f"the row has no column {column}")
    text = row[column]
    if text is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Undecidable(f"{column} is neither a time nor a number") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _ordered(value: str | None) -> tuple[bool, str]:
    return (value is not None, value or "")
