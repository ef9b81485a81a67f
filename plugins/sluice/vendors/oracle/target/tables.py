"""Tables of an Oracle slave: created, filled, changed, and their indexes and foreign keys.

Writers wait while an index is created, unless the server can create it ONLINE. Foreign keys act in the apply's
sessions, at the end of a transaction.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.database import csv_rows
from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.conflicts import ValueUnfit
from sluice.database.errors import NotNullViolation, StatementFailed
from sluice.database.rows import KeyOrder, RowFormat
from sluice.database.schema import Constraint, Index, TableDefinition
from sluice.database.session import Session
from sluice.model.blocks import Block, Key
from sluice.model.foreign_key import ForeignKey, write_order
from sluice.model.logical_type import ColumnType
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.common.alter import AGAIN, Alterer, DefinitionRefused, TableChange
from sluice.vendors.common.catalog import Catalog, OwnIndex
from sluice.vendors.common.definitions import Definitions, Unindexable, same_index
from sluice.vendors.common.load_target import PlainLoadTarget
from sluice.vendors.common.slave_tables import SlaveTable as PlainSlaveTable
from sluice.vendors.common.slave_tables import SlaveTables as PlainSlaveTables
from sluice.vendors.oracle import catalog, column_types, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.column_types import OLD
from sluice.vendors.oracle.errors import of_row
from sluice.vendors.oracle.session import OracleSession, Value, literal, native, quoted

# The slave's tables as changes are applied to them.

_EMPTY_TEXTS = " An empty text is NULL on Oracle, which no column takes that is NOT NULL."


def unfit(table: TableName, reason: str) -> ValueUnfit:
    return ValueUnfit(table, reason, hint=_EMPTY_TEXTS)


@dataclass(frozen=True)
class SlaveColumn(ColumnTexts):
    """A column of a slave's table."""

    generated: str = ""


@dataclass(frozen=True)
class SlaveTable(PlainSlaveTable[SlaveColumn]):
    """A table of the slave."""

    referred: bool
    """Whether other tables refer to its rows: then these cannot be deleted, or are deleted with them."""

    @property
    def qualified(self) -> str:
        """Its quoted name."""
        return names.qualified(self.table)

    def uniques_beside(self, key: Sequence[str]) -> list[OwnIndex]:
        """The unique indexes of columns that are not the key itself."""
        return [index for index in super().uniques_beside(key) if index.whole]

    @property
    def may_come_anew(self) -> bool:
        return super().may_come_anew and not self.referred


class Words:
    """Conditions and values of one statement; collects its parameters."""

    def __init__(self, target: SlaveTable):
        self.target = target
        self.values: dict[str, Value] = {}

    def value(self, name: str, text: str | None) -> str:
        """A value of a column. Raises `ColumnMissing`."""
        return self.target.column(name).value(self._bind(name, text))

    def equal(self, row: Mapping[str, str | None]) -> str:
        """The columns of `t` have these values, NULL being one."""
        parts = [self.target.column(name).same("t", self._bind(name, text)) for name, text in row.items()]
        return " AND ".join(parts) or "1 = 1"

    def sets(self, row: Mapping[str, str | None]) -> str:
        written = self.target.written(row)
        return ", ".join(
            f"{self.target.column(name).quoted} = {self.value(name, text)}" for name, text in written.items()
        )

    def row(self, row: Mapping[str, str | None]) -> tuple[str, str]:
        """Columns and values, as INSERT takes them."""
        written = self.target.written(row)
        columns = ", ".join(self.target.column(name).quoted for name in written)
        return columns, ", ".join(self.value(name, text) for name, text in written.items())

    def _bind(self, name: str, text: str | None) -> str:
        bind = f"v{len(self.values)}"
        self.values[bind] = self.target.column(name).bind(text)
        return f":{bind}"


class SlaveTables(PlainSlaveTables[SlaveTable]):
    """The tables of a slave that the apply has read."""

    catalog: Catalog = catalog

    def made(
        self, shapes: Mapping[TableName, TableShape], uniques: Mapping[TableName, tuple[OwnIndex, ...]]
    ) -> Iterable[SlaveTable]:
        session, listed = native(self.connection), list(shapes)
        watched = {table for table, _ in catalog.triggers(session, listed)}
        referred = {own.key.parent for own in catalog.foreign_keys(session, listed)}
        for table, shape in shapes.items():
            columns = tuple(SlaveColumn(each.name, each.type, each.generated) for each in shape.columns)
            hidden = self.hidden(table, columns)
            yield SlaveTable(shape, columns, uniques[table], table in watched, hidden, table in referred)


def differing(
    session: OracleSession, target: SlaveTable, key: Mapping[str, str | None], former: Mapping[str, str | None]
) -> dict[str, tuple[str | None, str | None]]:
    """The columns of the row with `key` that differ from `former`: the slave's value, the master's former one."""
    values: dict[str, tuple[str | None, str | None]] = {}
    for name, text in former.items():
        own, words = target.column(name), Words(target)
        query = f"SELECT {own.text('t')} FROM {target.qualified} t WHERE {words.equal(key)}"
        present = own.bind(text) is not None
        query += f" AND NOT {words.equal({name: text})}" if present else f" AND t.{own.quoted} IS NOT NULL"
        row = session.run(query, words.values).fetchone()
        if row is None and present:
            # A comparison with NULL is neither true nor false.
            words = Words(target)
            query = f"SELECT NULL FROM {target.qualified} t WHERE {words.equal(key)} AND t.{own.quoted} IS NULL"
            row = session.run(query, words.values).fetchone()
        if row is not None:
            values[name] = ColumnTexts.shown(row[0]), text
    return values


log = logging.getLogger(__name__)


class OracleDefinitions(Definitions):
    """Indexes and foreign keys of Oracle."""

    catalog: Catalog = catalog
    foreign_key_options = " DEFERRABLE ENABLE NOVALIDATE"

    def run(self, connection: Session, statement: str) -> None:
        native(connection).run(statement)

    def quoted(self, *names: str) -> str:
        return quoted(*names)

    def qualified(self, table: TableName) -> str:
        return names.qualified(table)

    def index_statement(self, index: Index, columns: Sequence[str], shape: TableShape) -> str:
        for name in columns:
            if ColumnTexts(name, shape.column(name).type).lob:
                raise Unindexable(f"its column {name} is a LOB there")
        kind = "UNIQUE INDEX" if index.unique else "INDEX"
        listed = ", ".join(map(quoted, columns))
        return f"CREATE {kind} {quoted(index.name)} ON {names.qualified(index.table)} ({listed})"

    def drop_index_statement(self, table: TableName, name: str) -> str:
        return f"DROP INDEX {quoted(name)}"

    def drop_foreign_key_statement(self, table: TableName, name: str) -> str:
        return f"ALTER TABLE {names.qualified(table)} DROP CONSTRAINT {quoted(name)}"

    def rename_index_statement(self, table: TableName, name: str, new: str) -> str:
        return f"ALTER INDEX {quoted(name)} RENAME TO {quoted(new)}"


DEFINITIONS = OracleDefinitions()


def clause(key: ForeignKey) -> str:
    """A foreign key as ADD CONSTRAINT takes it."""
    columns, parents = (", ".join(map(quoted, each)) for each in (key.columns, key.parent_columns))
    action = {"c": " ON DELETE CASCADE", "n": " ON DELETE SET NULL"}.get(key.on_delete, "")
    return f"FOREIGN KEY ({columns}) REFERENCES {names.qualified(key.parent)} ({parents}){action}"


def column_clause(column: Column, *, default: str = "") -> str:
    """A column of a created table. A text that is NOT NULL on the master may be NULL here, where '' is NULL, except
    in a LOB."""
    own = OLD.get(column.type, column.type)
    clause = f"{quoted(column.name)} {own}"
    if default:
        clause += f" DEFAULT {default}"
    return clause if (column.nullable or own.startswith("VARCHAR2")) and not column.key else f"{clause} NOT NULL"


_NO_SUCH_USER = "ORA-1918"

_NAME_USED = "ORA-955"

ROWS_AT_ONCE = 2_000

_REFERRED = "ORA-2266"

_NOT_ANALYZED = "ORA-20000"


class OracleLoadTarget(OracleDefinitions, PlainLoadTarget):
    """A slave that is loaded."""

    def not_tables(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
        """Names of `tables` that are used for something else, or that no table can have here."""
        faults = {table: fault for table in tables if (fault := names.fault(table))}
        used = catalog.relations(connection, [table for table in tables if table not in faults])
        return faults | {table: f"a {what.lower()}" for table, what in used.items() if what != "TABLE"}

    def create_table(self, connection: Session, definition: TableDefinition, *, trusted: bool = False) -> None:
        """Makes an absent table with its key. DDL commits implicitly. Nothing of the master's expressions is run:
        replicated values need no defaults."""
        session, table = native(connection), definition.table
        if catalog.shape(session, table) is not None:
            return
        lines = [column_clause(column) for column in definition.shape.columns]
        if definition.shape.key:
            lines.append(f"PRIMARY KEY ({', '.join(quoted(column.name) for column in definition.shape.key)})")
        body = ",\n    ".join(lines)
        try:
            session.run(f"CREATE TABLE {names.qualified(table)} (\n    {body}\n)")
        except StatementFailed as error:
            if error.server_code != _NO_SUCH_USER:
                raise
            raise type(error)(
                f"{session.server}: there is no schema {table.schema!r} for {table}. As an administrator: CREATE USER "
                f"{quoted(table.schema)} NO AUTHENTICATION, with a quota, and let this account create tables there"
            ) from error

    def create_scratch(self, connection: Session, like: TableShape) -> TableName:
        """Makes a temporary table with these columns, where no session did before: its definition is everybody's, and
        stays; its rows are each session's own, and end with it."""
        session = native(connection)
        columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in like.columns)
        name = hashlib.sha256(columns.encode()).hexdigest()[:16].upper()
        scratch = TableName(names.HERE, f"SLUICE_SCRATCH_{name}")
        if catalog.shape(session, scratch) is None:
            try:
                session.run(
                    f"CREATE GLOBAL TEMPORARY TABLE {names.qualified(scratch)} ({columns}) ON COMMIT PRESERVE ROWS"
                )
            except StatementFailed as error:
                if error.server_code != _NAME_USED:  # another session was faster
                    raise
        return scratch

    def drop_table(self, connection: Session, table: TableName) -> None:
        """Drops a table that this update created."""
        if catalog.shape(connection, table) is not None:
            native(connection).run(f"DROP TABLE {names.qualified(table)} PURGE")

    def strip(
        self, connection: Session, master: Sequence[Index], constraints_of_master: Sequence[Constraint]
    ) -> list[str]:
        """Drops the foreign keys and secondary indexes that are created again later. Returns what it dropped."""
        session, dropped = native(connection), []
        tables = sorted({index.table for index in master})
        again = {(each.table, each.name) for each in constraints_of_master if each.kind == "f"}
        for own in catalog.foreign_keys(connection, tables):
            if (own.key.child, own.name) in again:
                session.run(f"ALTER TABLE {names.qualified(own.key.child)} DROP CONSTRAINT {quoted(own.name)}")
                dropped.append(f"foreign key {own.name} of {own.key.child}")
        for index in catalog.own_indexes(connection, tables):
            if index.primary or not index.whole:
                continue
            if any(
                same_index(index, other) and other.name == index.name for other in master if other.table == index.table
            ):
                try:
                    session.run(f"DROP INDEX {quoted(index.name)}")
                except StatementFailed:
                    continue  # a constraint of the slave's own needs it
                dropped.append(f"index {index.name} of {index.table}")
        return dropped

    def empty(self, connection: Session, shapes: Sequence[TableShape]) -> None:
        """Deletes all rows of these tables, those that refer to others first. TRUNCATE commits."""
        session = native(connection)
        tables = [shape.table for shape in shapes]
        links = ((own.key.child, own.key.parent) for own in catalog.foreign_keys(connection, tables))
        for table in reversed(write_order(tables, links)):
            try:
                session.run(f"TRUNCATE TABLE {names.qualified(table)}")
            except StatementFailed as error:
                if error.server_code != _REFERRED:
                    raise
                session.run(f"DELETE FROM {names.qualified(table)}")

    def write(
        self,
        connection: Session,
        table: TableName,
        columns: Sequence[str],
        pieces: Iterable[bytes | memoryview],
        row_format: RowFormat,
    ) -> int:
        """Writes the rows of `pieces`, CSV with a header, in the caller's transaction; how many. Raises
        `ValueUnfit`."""
        assert row_format is RowFormat.CSV, row_format
        session, shape = native(connection), catalog.shape(connection, table)
        types = {column.name: column.type for column in shape.columns} if shape else {}
        own = [ColumnTexts(name, types.get(name, "CLOB")) for name in columns]
        values = ", ".join(column.value(f":v{index}") for index, column in enumerate(own))
        statement = f"INSERT INTO {names.qualified(table)} ({', '.join(each.quoted for each in own)}) VALUES ({values})"
        written = 0
        for rows in csv_rows.tables(pieces, columns):
            for start in range(0, rows.num_rows, ROWS_AT_ONCE):
                texts = [column.to_pylist() for column in rows.slice(start, ROWS_AT_ONCE).columns]
                bound: list[dict[str, Value]] = [
                    {f"v{index}": column.bind(text) for index, (column, text) in enumerate(zip(own, row, strict=True))}
                    for row in zip(*texts, strict=True)
                ]
                try:
                    session.run_many(statement, bound)
                except StatementFailed as error:
                    if isinstance(error, NotNullViolation) or of_row(error):
                        raise unfit(table, error.reason) from None
                    raise
                written += len(bound)
        return written

    def clear(self, connection: Session, order: KeyOrder, block: Block) -> None:
        """Deletes the rows of a block, in the transaction that stores it."""
        native(connection).run(f"DELETE FROM {order.source} WHERE {order.within(block.lo, block.hi)}")

    def delete(self, connection: Session, order: KeyOrder, keys: Sequence[Key]) -> None:
        """Deletes the rows of these keys."""
        session = native(connection)
        own = [ColumnTexts(column.name, column.type) for column in order.shape.key]
        match = " AND ".join(f"{column.quoted} = {column.value(f':k{index}')}" for index, column in enumerate(own))
        rows: list[dict[str, Value]] = [
            {f"k{index}": column.bind(text) for index, (column, text) in enumerate(zip(own, key, strict=True))}
            for key in keys
        ]
        session.run_many(f"DELETE FROM {order.source} WHERE {match}", rows)

    def analyze(self, connection: Session, table: TableName) -> None:
        """Gathers statistics for the slave's planner, which has never seen these rows. Where the account may not, of
        tables of another one, the server's own job does it at night."""
        session = native(connection)
        values: dict[str, Value] = {"owner": quoted(names.owner_of(session, table)), "name": quoted(table.name)}
        try:
            session.call("DBMS_STATS.GATHER_TABLE_STATS(:owner, :name)", values)
        except StatementFailed as error:
            if error.server_code != _NOT_ANALYZED:
                raise
            log.info("%s: no statistics of %s were gathered: %s", session.server, table, error.reason)


LOAD_TARGET = OracleLoadTarget()


class OracleAlterer(Alterer[SlaveTable]):
    """Executes changes of definitions on a slave."""

    definitions: Definitions = DEFINITIONS

    def __init__(
        self, connection: Session, targets: PlainSlaveTables[SlaveTable], of_master: ColumnTypes, lossy: Sequence[str]
    ):
        super().__init__(connection, targets, of_master, lossy)
        self.session = native(connection)

    def made_of(self, columns: Sequence[LogicalColumn]) -> Sequence[ColumnType]:
        return column_types.made_of(self.session, columns)

    def holds(self, wider: str, type_: str) -> bool:
        return column_types.holds(wider, type_)

    def create_table(self, wanted: TableDefinition) -> None:
        LOAD_TARGET.create_table(self.session, wanted)

    def drop_table(self, table: TableName) -> None:
        if catalog.shape(self.session, table) is not None:
            self.do(table, f"DROP TABLE {names.qualified(table)}")

    def rename_table(self, old: TableName, new: TableName) -> None:
        if old.schema != new.schema:
            raise DefinitionRefused(new, f"it moved from the schema {old.schema}, which no table does here", AGAIN)
        self.do(new, f"ALTER TABLE {names.qualified(old)} RENAME TO {quoted(new.name)}")

    def alter_table(self, change: TableChange, placed: Callable[[], None]) -> None:
        """Each statement skips what an earlier try has done."""
        table, altered = change.table, f"ALTER TABLE {names.qualified(change.table)}"
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
        altered = f"ALTER TABLE {names.qualified(table)}"
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
            done += self.session.run(f"DELETE FROM {target.qualified} t WHERE {where}", words.values).rowcount
        return done
