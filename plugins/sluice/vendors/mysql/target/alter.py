"""Changes of definitions on a MariaDB or MySQL slave (`sluice.vendors.common.alter`)."""

import re
from collections.abc import Callable, Sequence

from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType
from sluice.model.names import TableName
from sluice.model.shape import Column
from sluice.vendors.common import alter
from sluice.vendors.common.alter import TableChange
from sluice.vendors.common.definitions import Definitions
from sluice.vendors.mysql import catalog, names, types
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import literal, native, quoted
from sluice.vendors.mysql.target.definitions import DEFINITIONS, needed_indexes
from sluice.vendors.mysql.target.load_target import column_clause, create_table
from sluice.vendors.mysql.target.slave_tables import SlaveTable, SlaveTables

_NOTE = re.compile(r" ?\[sluice (\d+)\]$")
"""What the comment of a table ends with, after a change that its columns do not show."""


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
        """With the foreign keys of other tables that refer to it, as the master did."""
        for own in catalog.foreign_keys(self.session, [table]):
            if own.key.child != table:
                self.do(table, DEFINITIONS.drop_foreign_key_statement(own.key.child, own.name))
        self.do(table, f"DROP TABLE IF EXISTS {names.place(table)}")

    def rename_table(self, old: TableName, new: TableName) -> None:
        if new.schema != names.HERE:
            self.do(new, f"CREATE DATABASE IF NOT EXISTS {quoted(new.schema)}")
        self.do(new, f"RENAME TABLE {names.place(old)} TO {names.place(new)}")

    def alter_table(self, change: TableChange, placed: Callable[[], None]) -> None:
        """Takes indexes and foreign keys of dropped columns along, as the master does, and the foreign keys of columns
        that get another type. `placed` is not needed in one statement."""
        table = change.table
        keys = self.touching(table, change)
        for own in keys:
            if own.key.child != table:
                self.do(table, DEFINITIONS.drop_foreign_key_statement(own.key.child, own.name))
        indexes = catalog.own_indexes(self.session, [table])
        gone = [each for each in indexes if not each.primary and set(change.dropped) & set(each.columns)]
        gone_keys = {own.name for own in keys if own.key.child == table}
        clauses = [f"DROP FOREIGN KEY {quoted(name)}" for name in sorted(gone_keys)]
        clauses += [f"DROP INDEX {quoted(index.name)}" for index in gone]
        if change.drops_key:
            clauses.append("DROP PRIMARY KEY")
        clauses += [f"DROP COLUMN {quoted(name)}" for name in change.dropped]
        modified = {there.name for there, _, _ in change.modified}
        clauses += [
            f"RENAME COLUMN {quoted(old)} TO {quoted(new)}"
            for old, new in change.renamed.items()
            if old not in modified
        ]
        for there, wanted, wider in change.modified:
            column = Column(
                wanted.name,
                wanted.type if wider else there.type,
                wanted.position,
                nullable=(wanted.nullable or there.nullable) and not wanted.key,
                key=wanted.key,
            )
            clauses.append(f"CHANGE COLUMN {quoted(there.name)} {column_clause(self.session, column)}")
        defaults = []
        for column, missing in change.added:
            if missing is None:
                loose = Column(column.name, column.type, column.position, nullable=True, key=column.key)
                clauses.append(f"ADD COLUMN {column_clause(self.session, loose)}")
                continue
            value = ColumnTexts(column.name, column.type).value(literal(missing))
            clauses.append(f"ADD COLUMN {column_clause(self.session, column)} DEFAULT ({value})")
            defaults.append(f"ALTER COLUMN {quoted(column.name)} DROP DEFAULT")
        if change.key:
            clauses.append(f"ADD PRIMARY KEY ({', '.join(map(quoted, change.key))})")
        clauses += needed_indexes(self.session, table, gone, gone_keys, change.renamed)
        if change.note is not None:
            comment = _NOTE.sub("", self._comment(table))
            clauses.append(f"COMMENT = {literal(f'{comment} [sluice {change.note}]')}")
        altered = f"ALTER TABLE {names.place(table)} "
        self.do(table, altered + ", ".join(clauses))
        if defaults:
            self.do(table, altered + ", ".join(defaults))

    def noted(self, table: TableName) -> int | None:
        matched = _NOTE.search(self._comment(table))
        return int(matched[1]) if matched else None

    def _comment(self, table: TableName) -> str:
        condition, values = catalog.among(self.session, [table])
        row = self.session.read_schema(
            f"SELECT table_comment FROM information_schema.tables WHERE {condition}", values
        ).fetchone()
        return str(row[0] or "") if row else ""

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
