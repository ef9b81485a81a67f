"""Definitions of tables of a master whose slaves get columns, keys, indexes and foreign keys, and no more of it."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace

from sluice.database.schema import (
    CollationDefinition,
    Comment,
    Constraint,
    FreeSequence,
    Index,
    MasterSchemas,
    SequenceDefinition,
    TableDefinition,
    TypeDefinition,
)
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.model.views import View
from sluice.vendors.common.catalog import Catalog, OwnIndex


class PlainMasterSchemas(MasterSchemas, ABC):
    """Of `sluice.database.schema.MasterSchemas` what vendors share."""

    catalog: Catalog

    @abstractmethod
    def quoted(self, *names: str) -> str: ...

    def name_on_slaves(self, table: TableName, name: str) -> str:
        """The name of an index."""
        return name

    def tables(self, connection: Session, tables: Sequence[TableName]) -> list[TableDefinition]:
        """The definitions of those of `tables` that exist, in that order. Computed columns and collations are of this
        server: a slave has none of them."""
        shapes = self.catalog.shapes(connection, tables)
        keys: dict[TableName, OwnIndex] = {}
        for index in self.catalog.own_indexes(connection, list(shapes)):
            if index.unique and set(index.columns) == {column.name for column in shapes[index.table].key}:
                keys.setdefault(index.table, index)
        tables_read = []
        for table in tables:
            if table not in shapes:
                continue
            shape, key = shapes[table], keys.get(table)
            kind = "" if key is None else "p" if key.primary else "i"
            name = self.name_on_slaves(table, key.name) if key else None
            columns = tuple(replace(column, collation=None) for column in shape.replicated)
            tables_read.append(TableDefinition(replace(shape, columns=columns), name, kind, (), {}))
        return tables_read

    def types(self, connection: Session, tables: Sequence[TableName]) -> list[TypeDefinition]:
        """Empty: no table has a type of the database's own."""
        return []

    def locked(self, connection: Session, tables: Sequence[TableName]) -> set[TableName]:
        """Empty: readers of the dictionary wait for nobody."""
        return set()

    def collations(self, connection: Session, tables: Sequence[TableName]) -> list[CollationDefinition]:
        """Empty: none is the database's own."""
        return []

    def indexes(self, connection: Session, tables: Sequence[TableName]) -> list[Index]:
        """The indexes of plain columns; others are not reported."""
        return [
            Index(
                own.table,
                self.name_on_slaves(own.table, own.name),
                own.unique,
                True,
                f"USING btree ({', '.join(map(self.quoted, own.columns))})",
                "p" if own.primary else None,
                None,
                own.primary,
                [],
                list(own.columns),
            )
            for own in self.catalog.own_indexes(connection, tables)
            if own.whole
        ]

    def constraints(self, connection: Session, tables: Sequence[TableName]) -> list[Constraint]:
        """The foreign keys of `tables`. Checks are not replicated."""
        wanted = set(tables)
        return [
            Constraint(
                own.key.child,
                own.name,
                "f",
                True,
                None,
                list(own.key.columns),
                own.key.parent,
                list(own.key.parent_columns),
                "s",
                own.deferrable,
                False,
            )
            for own in self.catalog.foreign_keys(connection, tables)
            if own.key.child in wanted
        ]

    def comments(self, connection: Session, tables: Sequence[TableName]) -> list[Comment]:
        """Empty: none are replicated."""
        return []

    def sequences(self, connection: Session, tables: Sequence[TableName]) -> list[SequenceDefinition]:
        """Empty: a slave draws no numbers."""
        return []

    def views(self, connection: Session, prefix: Prefix) -> list[View]:
        """Empty: none are replicated."""
        return []

    def free_sequences(self, connection: Session, prefix: Prefix, schemas: Collection[str]) -> list[FreeSequence]:
        """Empty: none are replicated."""
        return []
