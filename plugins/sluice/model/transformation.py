"""What a slave gets otherwise than the master has it: which rows of a table, and what becomes of its columns."""

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
    """On the slave it holds one value in all rows."""

    text: str | None

    def __str__(self) -> str:
        return "is constant: null" if self.text is None else f"is constant: {self.text!r}"


@dataclass(frozen=True)
class Computed:
    """On the slave it holds what an expression makes of the master's row."""

    expression: str

    def __str__(self) -> str:
        return f"is {self.expression}"


ColumnChange: TypeAlias = Excluded | Renamed | Constant | Computed


@dataclass(frozen=True)
class Transformation:
    """Of one line under `tables`."""

    where: str | None = None
    """The rows that the slave has: an expression; None for all."""
    columns: tuple[tuple[str, ColumnChange], ...] = ()
    """By the name of the master's column; of one that the master does not have, by its name on the slave."""
    place: str = field(default="", compare=False)
    """File, line and key, for messages."""
    exit: str | None = None
    """The function that makes the slave's rows of what these leave, `package.module:function`; None for none."""

    @cached_property
    def by_name(self) -> Mapping[str, ColumnChange]:
        return dict(self.columns)

    @property
    def text(self) -> str:
        """For people."""
        parts = [f"{name} {change}" for name, change in self.columns]
        parts += [f"exit {self.exit}"] * (self.exit is not None)
        return "; ".join([f"where {self.where}"] * (self.where is not None) + parts)
