"""Changes of definitions on an Oracle slave (`sluice.vendors.common.alter`)."""

from collections.abc import Callable, Sequence

from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType
from sluice.model.names import TableName
from sluice.model.shape import Column
from sluice.vendors.common import alter
from sluice.vendors.common.alter import AGAIN, DefinitionRefused, TableChange
from sluice.vendors.common.definitions import Definitions
from sluice.vendors.oracle import catalog, column_types, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import literal, native, quoted
from sluice.vendors.oracle.target.definitions import DEFINITIONS
from sluice.vendors.oracle.target.made_tables import column_clause, create_table
from sluice.vendors.oracle.target.slave_tables import SlaveTable, SlaveTables, Words


class Alterer(alter.Alterer[SlaveTable]):
    definitions: Definitions = DEFINITIONS

    def __init__(self, connection: Session, targets: SlaveTables, of_master: ColumnTypes, lossy: Sequence[str]):
        super().__init__(connection, targets, of_master, lossy)
        self.session = native(connection)

    def made_of(self, columns: Sequence[LogicalColumn]) -> Sequence[ColumnType]:
        return column_types.made_of(self.session, columns)

    def holds(self, wider: str, type_: str) -> bool:
        return column_types.holds(wider, type_)

    def create_table(self, wanted: TableDefinition) -> None:
        create_table(self.session, wanted)

    def drop_table(self, table: TableName) -> None:
        if catalog.shape(self.session, table) is not None:
            self.do(table, f"DROP TABLE {names.place(table)}")

    def rename_table(self, old: TableName, new: TableName) -> None:
        if old.schema != new.schema:
            raise DefinitionRefused(new, f"it moved from the schema {old.schema}, which no table does here", AGAIN)
        self.do(new, f"ALTER TABLE {names.place(old)} RENAME TO {quoted(new.name)}")

    def alter_table(self, change: TableChange, placed: Callable[[], None]) -> None:
        """Each statement skips what an earlier try has done."""
        table, altered = change.table, f"ALTER TABLE {names.place(change.table)}"
        if change.drops_key:
            self.do(table, f"{altered} DROP PRIMARY KEY")
        for name in change.dropped:
            self.do(table, f"{altered} DROP COLUMN {quoted(name)}")
        for old, between in change.aside.items():
            if old != between:
                self.do(table, f"{altered} RENAME COLUMN {quoted(old)} TO {quoted(between)}")
        placed()
        for old, new in change.renamed.items():
            self.do(table, f"{altered} RENAME COLUMN {quoted(change.aside[old])} TO {quoted(new)}")
        for column, missing in change.added:
            self._add_column(table, column, missing)
        for own, wanted, wider in change.modified:
            clause = f" {wanted.type}" if wider else ""
            if wanted.nullable and not own.nullable and not wanted.key:
                clause += " NULL"
            if clause:
                self.do(table, f"{altered} MODIFY ({quoted(wanted.name)}{clause})")
        if change.key:
            self.do(table, f"{altered} ADD PRIMARY KEY ({', '.join(map(quoted, change.key))})")

    def _add_column(self, table: TableName, column: Column, missing: str | None) -> None:
        altered = f"ALTER TABLE {names.place(table)}"
        if missing is None:
            loose = Column(column.name, column.type, column.position, nullable=True)
            self.do(table, f"{altered} ADD ({column_clause(loose)})")
            return
        value = ColumnTexts(column.name, column.type).literal(missing)
        loose = Column(column.name, column.type, column.position, nullable=column.nullable or value == "NULL")
        self.do(table, f"{altered} ADD ({column_clause(loose, default=value)})")
        self.do(table, f"{altered} MODIFY ({quoted(column.name)} DEFAULT NULL)")

    def release(self, table: TableName) -> None:
        for own in catalog.foreign_keys(self.connection, [table]):
            if own.key.parent != own.key.child:
                self.do(table, DEFINITIONS.drop_foreign_key_statement(own.key.child, own.name))
        self.targets.forget()

    def literal(self, text: str) -> str:
        return literal(text)

    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        target = self.targets[table]
        key = [target.column(column.name) for column in target.shape.key]
        if not key:
            return 0
        done = 0
        for values in keys:
            words = Words(target)
            where = words.equal({own.name: value for own, value in zip(key, values, strict=True)})
            done += self.session.run(f"DELETE FROM {target.place} t WHERE {where}", words.values).rowcount
        return done
