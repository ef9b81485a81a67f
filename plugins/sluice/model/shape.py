"""The shape of a table: its columns as they are replicated."""

from dataclasses import dataclass

from sluice.model.names import TableName


@dataclass(frozen=True)
class Column:
    """One column, in the words of the vendor's catalogue."""

    name: str
    type: str
    """As the vendor writes it in DDL, e.g. `numeric(10,2)`, schema-qualified where it must be."""
    position: int
    """Its number in the table: stays when the column is renamed."""
    nullable: bool = True
    key: int = 0
    """1-based place in the key, 0 when not part of it."""
    default: str | None = None
    """The default expression, or None."""
    identity: str = ""
    """`a` always, `d` by default, empty for none (PostgreSQL's `attidentity`)."""
    generated: str = ""
    """`s` stored, `v` virtual, empty for none (PostgreSQL's `attgenerated`)."""
    collation: str | None = None
    """The collation when it is not the type's own, schema-qualified."""


@dataclass(frozen=True)
class TableShape:
    """A table with all its columns, generated ones included, in the order of their positions."""

    table: TableName
    columns: tuple[Column, ...]
    partitioned: bool = False

    @property
    def replicated(self) -> tuple[Column, ...]:
        """The columns that travel: a generated one is computed by each database itself."""
        return tuple(column for column in self.columns if not column.generated)

    @property
    def key(self) -> tuple[Column, ...]:
        """The columns that identify a row, in the key's order; empty for a keyless table."""
        return tuple(sorted((column for column in self.columns if column.key), key=lambda column: column.key))

    @property
    def keyless(self) -> bool:
        return not self.key

    def column(self, name: str) -> Column:
        """Raises `KeyError`."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)
