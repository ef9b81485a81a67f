"""Definitions of tables of an Oracle database (`sluice.database.schema.MasterSchemas`)."""

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
from sluice.model.shape import TableShape
from sluice.model.views import View
from sluice.vendors.common.catalog import OwnIndex
from sluice.vendors.oracle import catalog
from sluice.vendors.oracle.session import quoted
from sluice.vendors.oracle.target.tables import OracleDefinitions


def _definition(shape: TableShape, key: OwnIndex | None) -> TableDefinition:
    """Computed columns are expressions of this dialect: a slave has none of them."""
    kind = "" if key is None else "p" if key.primary else "i"
    return TableDefinition(replace(shape, columns=shape.replicated), key.name if key else None, kind, (), {})


class OracleSchemas(OracleDefinitions, MasterSchemas):
    """Definitions of tables, on a master and on a slave."""

    def tables(self, connection: Session, tables: Sequence[TableName]) -> list[TableDefinition]:
        """The definitions of those of `tables` that exist, in that order."""
        shapes = catalog.shapes(connection, tables)
        keys: dict[TableName, OwnIndex] = {}
        for index in catalog.own_indexes(connection, list(shapes)):
            if index.unique and set(index.columns) == {column.name for column in shapes[index.table].key}:
                keys.setdefault(index.table, index)
        return [_definition(shapes[table], keys.get(table)) for table in tables if table in shapes]

    def types(self, connection: Session, tables: Sequence[TableName]) -> list[TypeDefinition]:
        """Empty: a table with a user-defined type is not captured."""
        return []

    def locked(self, connection: Session, tables: Sequence[TableName]) -> set[TableName]:
        """Empty: readers of the dictionary wait for nobody."""
        return set()

    def collations(self, connection: Session, tables: Sequence[TableName]) -> list[CollationDefinition]:
        """Empty: texts are compared by their bytes."""
        return []

    def indexes(self, connection: Session, tables: Sequence[TableName]) -> list[Index]:
        """The indexes of plain columns; others are not reported."""
        return [
            Index(
                own.table,
                own.name,
                own.unique,
                True,
                f"USING btree ({', '.join(map(quoted, own.columns))})",
                "p" if own.primary else None,
                None,
                own.primary,
                [],
                list(own.columns),
            )
            for own in catalog.own_indexes(connection, tables)
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
            for own in catalog.foreign_keys(connection, tables)
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
