"""A vendor's catalog of tables, in a common form."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sluice.database.session import Session
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape


@dataclass(frozen=True)
class OwnIndex:
    """An index of the slave."""

    table: TableName
    name: str
    unique: bool
    columns: tuple[str, ...]
    whole: bool
    """Whether it has whole values of columns, without expressions."""
    primary: bool


@dataclass(frozen=True)
class OwnForeignKey:
    """A foreign key of the slave that acts."""

    name: str
    key: ForeignKey
    deferrable: bool = False


class Catalog(Protocol):
    """Reads the catalog over a session of the vendor."""

    def shapes(self, connection: Session, tables: Iterable[TableName]) -> dict[TableName, TableShape]:
        """The shapes of those of `tables` that exist, not of views."""
        ...

    def own_indexes(self, connection: Session, tables: Sequence[TableName]) -> list[OwnIndex]:
        """The indexes of `tables`, primary keys first."""
        ...

    def foreign_keys(self, connection: Session, tables: Sequence[TableName]) -> list[OwnForeignKey]:
        """The foreign keys from or to any of `tables`."""
        ...


def keyed(columns: Mapping[TableName, Sequence[Column]], indexes: Iterable[OwnIndex]) -> dict[TableName, TableShape]:
    """The tables with the columns that name a row: of the primary key, else of a unique index of columns without NULL.

    `indexes`: primary keys first. include/sql/oracle/cols_view.sql says the same of a master.
    """
    keys: dict[TableName, tuple[str, ...]] = {}
    for index in indexes:
        nullable = {column.name for column in columns[index.table] if column.nullable}
        if index.unique and index.whole and not nullable & set(index.columns):
            keys.setdefault(index.table, index.columns)
    return {table: TableShape(table, with_key(own, keys.get(table, ()))) for table, own in columns.items()}


def with_key(columns: Sequence[Column], key: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a table with that key."""
    positions = {name: index for index, name in enumerate(key, start=1)}
    return tuple(replace(column, key=positions.get(column.name, 0)) for column in columns)
