"""Whether a slave's table can hold what the master's sends. Decided on PostgreSQL's type names."""

import re
from dataclasses import dataclass

from sluice.errors import Terminal
from sluice.model.shape import TableShape

_WHOLE = {"smallint": 5, "integer": 10, "bigint": 19}
"""Whole numbers and the decimal digits they need."""
_TEXT = {"character varying", "text"}


class TablesDiffer(Terminal):
    """What the slave has, or lacks, stands in the way of the master's tables; `differences` holds one sentence each."""

    def __init__(self, slave: str, differences: list[str]):
        listed = "\n".join(f"- {difference}" for difference in differences)
        super().__init__(
            f"Slave {slave} cannot take the master's tables as it is. Nothing was changed.\n{listed}\n"
            "Mend these (a table that is dropped there is created anew), then start again."
        )
        self.slave = slave
        self.differences = differences


@dataclass(frozen=True)
class _Type:
    """A type name taken apart: `numeric(10,2)[]` is numeric, (10, 2), an array."""

    name: str
    modifiers: tuple[int, ...]
    array: bool

    @classmethod
    def parse(cls, text: str) -> "_Type":
        array = text.endswith("[]")
        found = re.search(r"\(([-\d, ]+)\)", text)
        modifiers = tuple(int(part) for part in found.group(1).split(",")) if found else ()
        name = re.sub(r"\([-\d, ]+\)", "", text.removesuffix("[]"))
        return cls(name, modifiers, array)


def holds(slave: str, master: str) -> bool:
    """True when type `slave` takes every value of type `master` without changing or refusing it."""
    if slave == master:
        return True
    wide, narrow = _Type.parse(slave), _Type.parse(master)
    if wide.array or narrow.array:
        return False
    if narrow.name in _WHOLE:
        if wide.name in _WHOLE:
            return _WHOLE[wide.name] >= _WHOLE[narrow.name]
        return wide.name == "numeric" and (not wide.modifiers or _digits(wide.modifiers) >= _WHOLE[narrow.name])
    if narrow.name == wide.name == "numeric":
        if not wide.modifiers:
            return True
        return (
            bool(narrow.modifiers)
            and _scale(wide.modifiers) >= _scale(narrow.modifiers)
            and _digits(wide.modifiers) >= _digits(narrow.modifiers)
        )
    if narrow.name in _TEXT and wide.name in _TEXT:
        return not wide.modifiers or (bool(narrow.modifiers) and wide.modifiers[0] >= narrow.modifiers[0])
    if narrow.name == wide.name and wide.name.startswith(("timestamp", "time ", "bit varying")):
        return not wide.modifiers or (bool(narrow.modifiers) and wide.modifiers[0] >= narrow.modifiers[0])
    return False


def differences(master: TableShape, slave: TableShape) -> list[str]:
    """Why `slave` cannot take the rows of `master`, one sentence each; empty when it can.

    Columns only the slave has are its own affair, unless a row cannot be inserted without them.
    """
    table = master.table
    there = {column.name: column for column in slave.columns}
    sentences = []
    for column in master.replicated:
        own = there.get(column.name)
        if own is None:
            sentences.append(f"{table} lacks column {column.name} {column.type}")
        elif own.generated:
            sentences.append(f"{table}.{column.name} is generated on the slave, but replicated from the master")
        elif not holds(own.type, column.type):
            sentences.append(f"{table}.{column.name} is {own.type}, the master's {column.type} does not fit in")
        elif not own.nullable and column.nullable:
            sentences.append(f"{table}.{column.name} is NOT NULL, on the master it may be NULL")
    sent = {column.name for column in master.replicated}
    for own in slave.columns:
        fills_itself = own.nullable or own.default is not None or own.identity or own.generated
        if own.name not in sent and not fills_itself:
            sentences.append(
                f"{table} has column {own.name}, which is NOT NULL without default and unknown to the master"
            )
    if not master.keyless and {column.name for column in master.key} != {column.name for column in slave.key}:
        wanted = ", ".join(column.name for column in master.key)
        found = ", ".join(column.name for column in slave.key) or "none"
        sentences.append(f"{table} has key ({found}), the master's is ({wanted}): add a primary key on it")
    if master.keyless and not slave.keyless:
        found = ", ".join(column.name for column in slave.key)
        sentences.append(f"{table} has key ({found}), on the master it has none: equal rows would collide")
    return sentences


def _scale(modifiers: tuple[int, ...]) -> int:
    return modifiers[1] if len(modifiers) > 1 else 0


def _digits(modifiers: tuple[int, ...]) -> int:
    """Digits before the decimal point."""
    return modifiers[0] - _scale(modifiers)
