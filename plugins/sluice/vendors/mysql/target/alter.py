"""Changes of definitions on a MariaDB or MySQL slave (`sluice.vendors.common.alter`)."""

from collections.abc import Sequence

from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType
from sluice.model.names import TableName
from sluice.model.shape import Column
from sluice.vendors.common import alter
from sluice.vendors.common.definitions import Definitions
from sluice.vendors.mysql import names, types
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import literal, native, quoted
from sluice.vendors.mysql.target.definitions import DEFINITIONS
from sluice.vendors.mysql.target.load_target import column_clause, create_table
from sluice.vendors.mysql.target.slave_tables import SlaveTable, SlaveTables


class Alterer(alter.Alterer[SlaveTable]):
    definitions: Definitions = DEFINITIONS

    def __init__(self, connection: Session, targets: SlaveTables, of_master: ColumnTypes, lossy: Sequence[str]):
        super().__init__(connection, targets, of_master, lossy)
        self.session = native(connection)

    def made_of(self, columns: Sequence[LogicalColumn]) -> Sequence[ColumnType]:
        return types.made_of(self.session, columns)

    def holds(self, wider: str, type_: str) -> bool:
        return types.holds(wider, type_)

    def create_table(self, wanted: TableDefinition) -> None:
        create_table(self.session, wanted)

    def drop_table(self, table: TableName) -> None:
        self.do(table, f"DROP TABLE IF EXISTS {names.place(table)}")

    def rename_table(self, old: TableName, new: TableName) -> None:
        if new.schema != names.HERE:
            self.do(new, f"CREATE DATABASE IF NOT EXISTS {quoted(new.schema)}")
        self.do(new, f"RENAME TABLE {names.place(old)} TO {names.place(new)}")

    def add_column(self, table: TableName, column: Column, missing: str | None) -> None:
        altered = f"ALTER TABLE {names.place(table)}"
        if missing is None:
            loose = Column(column.name, column.type, column.position, nullable=True)
            self.do(table, f"{altered} ADD COLUMN {column_clause(self.session, loose)}")
            return
        value = ColumnTexts(column.name, column.type).value(literal(missing))
        self.do(table, f"{altered} ADD COLUMN {column_clause(self.session, column)} DEFAULT ({value})")
        self.do(table, f"{altered} ALTER COLUMN {quoted(column.name)} DROP DEFAULT")

    def modify_column(self, table: TableName, own: Column, wanted: Column, *, wider: bool) -> None:
        column = Column(
            wanted.name,
            wanted.type if wider else own.type,
            wanted.position,
            nullable=(wanted.nullable or own.nullable) and not wanted.key,
            key=wanted.key,
        )
        self.do(table, f"ALTER TABLE {names.place(table)} MODIFY COLUMN {column_clause(self.session, column)}")

    def release(self, table: TableName) -> None:
        """Does nothing: foreign keys do not act in the apply's session."""

    def literal(self, text: str) -> str:
        return literal(text)

    def label(self, column: str) -> str:
        return f"CONVERT({quoted(column)} USING utf8mb4) COLLATE {self.session.collation}"

    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        target = self.targets[table]
        key = [target.column(column.name) for column in target.shape.key]
        if not key:
            return 0
        match = " AND ".join(f"{own.quoted} = {own.value(f'%(k{place})s')}" for place, own in enumerate(key))
        text = f"DELETE FROM {target.place} WHERE {match}"
        results = (self.session.run(text, {f"k{place}": value for place, value in enumerate(each)}) for each in keys)
        return sum(result.rowcount for result in results)
