"""How a slave's table differs from the master's: which rows it has, and its columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias


@dataclass(frozen=True)
class Excluded:
    """The slave has no such column."""

    def __str__(self) -> str:
        return "is excluded"


@dataclass(frozen=True)
class Renamed:
    """The slave has it under another name."""

    name: str

    def __str__(self) -> str:
        return f"is {self.name} on the slave"


@dataclass(frozen=True)
class Constant:
    """On the slave it has one value in all rows."""

    text: str | None

    def __str__(self) -> str:
        return "is constant: null" if self.text is None else f"is constant: {self.text!r}"


@dataclass(frozen=True)
class Computed:
    """On the slave it has the value of an expression over the master's row."""

    expression: str

    def __str__(self) -> str:
        return f"is {self.expression}"


ColumnChange: TypeAlias = Excluded | Renamed | Constant | Computed


@dataclass(frozen=True)
class Transformation:
    """The transformation of one line under `tables`."""

    where: str | None = None
    """The condition of the slave's rows: an expression; None: all rows."""
    columns: tuple[tuple[str, ColumnChange], ...] = ()
    """By the name of the master's column; a column that the master does not have, by its name on the slave."""
    place: str = field(default="", compare=False)
    """File, line and key, for messages."""
    exit: str | None = None
    """The function that makes the slave's rows from the result, `package.module:function`; None without one."""
    extra_key: tuple[str, ...] = ()
    """The slave's columns that follow the master's key in the key of the slave's table: the function may make several
    rows of one, which these tell apart. Empty: it makes one at most."""

    @cached_property
    def by_name(self) -> Mapping[str, ColumnChange]:
        return dict(self.columns)

    def name_on_slave(self, column: str) -> str:
        """The name of the master's `column` on the slave."""
        change = self.by_name.get(column)
        return change.name if isinstance(change, Renamed) else column

    @property
    def text(self) -> str:
        """A description for people."""
        parts = [f"{name} {change}" for name, change in self.columns]
        parts += [f"exit {self.exit}"] * (self.exit is not None)
        parts += [f"extra_key {', '.join(self.extra_key)}"] * bool(self.extra_key)
        return "; ".join([f"where {self.where}"] * (self.where is not None) + parts)
