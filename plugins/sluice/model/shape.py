"""The shape of a table: its columns as they are replicated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.model.names import TableName


@dataclass(frozen=True)
class Column:
    """A column, in the terms of the vendor's catalogue."""

    name: str
    type: str
    """As in DDL of the vendor, e.g. `numeric(10,2)`, schema-qualified if necessary."""
    position: int
    """Its number in the table, which does not change when the column is renamed."""
    nullable: bool = True
    key: int = 0
    """Its place in the key, from 1; 0: it is not in the key."""
    default: str | None = None
    """The default expression, or None."""
    identity: str = ""
    """`a` always, `d` by default, empty for none (PostgreSQL's `attidentity`)."""
    generated: str = ""
    """`s` stored, `v` virtual, empty for none (PostgreSQL's `attgenerated`)."""
    collation: str | None = None
    """The collation if it is not the default of the type, schema-qualified."""


@dataclass(frozen=True)
class TableShape:
    """A table with all its columns, generated ones included, in the order of their positions."""

    table: TableName
    columns: tuple[Column, ...]
    partitioned: bool = False

    @property
    def replicated(self) -> tuple[Column, ...]:
        """The columns that are replicated: each database computes generated ones itself."""
        return tuple(column for column in self.columns if not column.generated)

    @property
    def key(self) -> tuple[Column, ...]:
        """The columns that identify a row, in the order of the key; empty for a keyless table."""
        return tuple(sorted((column for column in self.columns if column.key), key=lambda column: column.key))

    def keyed_by(self, names: Sequence[str]) -> "TableShape":
        """The same table with these columns as its key, in their order."""
        numbers = {name: number for number, name in enumerate(names, start=1)}
        return replace(self, columns=tuple(replace(each, key=numbers.get(each.name, 0)) for each in self.columns))

    @property
    def keyless(self) -> bool:
        return not self.key

    def column(self, name: str) -> Column:
        """Raises `KeyError`."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def placed(self, positions: Mapping[str | None, int], name_of: Callable[[str], str] = str) -> "TableShape":
        """The same with its columns at these `positions`, in whose order they are; further ones come behind all.

        `name_of`: the name that a column has in `positions`.
        """
        numbers = dict(positions)
        free = max(numbers.values(), default=0)
        for column in self.columns:
            if (name := name_of(column.name)) not in numbers:
                numbers[name] = free = free + 1
        columns = (replace(column, position=numbers[name_of(column.name)]) for column in self.columns)
        return replace(self, columns=tuple(sorted(columns, key=lambda column: column.position)))
