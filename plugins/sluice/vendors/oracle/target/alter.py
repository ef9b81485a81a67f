"""Changes of definitions on the slave, where each statement commits by itself; and TRUNCATE, which must not.

What is there already is left alone, so that an item may come twice, also after it was done in part. Columns are matched
by their number in the master's definitions, which a rename keeps, and changed on the slave by name; columns that only
the slave has stay as they are. A column of the slave is never narrower than the master's, and may be wider. One whose
values this server would turn into others than the master did is refused: its table must be loaded again.

TRUNCATE deletes rows, in the window's transaction: the server's own would commit the half of a window.
"""

from collections.abc import Collection, Sequence

from sluice.database import enum_labels
from sluice.database.apply import DefinitionChange
from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.errors import StatementFailed
from sluice.database.schema import TableDefinition as MadeTable
from sluice.database.schema import defined_in
from sluice.database.session import Session
from sluice.database.translation import allows
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model import table_definition as definitions
from sluice.model.change import Action
from sluice.model.logical_type import ColumnType, Fit
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.oracle import catalog, column_types, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import literal, native, quoted
from sluice.vendors.oracle.target.made_tables import column_clause, create_table
from sluice.vendors.oracle.target.slave_tables import SlaveTables, Words


class DefinitionRefused(Terminal):
    """The slave cannot follow a change of a table's definition."""

    def __init__(self, table: TableName, what: str, remedy: str):
        super().__init__(
            f"{table}: the slave cannot follow the master's change of its definition: {what}. {remedy} "
            f"Then {RESTART_APPLY}."
        )
        self.table = table


_BY_HAND = "Remove what is in the way on the slave (an index, a view, a column of its own), or make the change there."
_AGAIN = (
    "Take the table out of the replication's tables until then; or drop it on the slave, which the next initial update "
    "of it makes anew."
)


class Alterer:
    """Alters one slave over one session. `of_master`: the master's types. `lossy`: the slave's `lossy_columns`."""

    def __init__(self, connection: Session, targets: SlaveTables, of_master: ColumnTypes, lossy: Sequence[str]):
        self.connection = connection
        self.session = native(connection)
        self.targets = targets
        self._of_master = of_master
        self._lossy = lossy

    def apply(self, item: DefinitionChange) -> None:
        """Does what is missing. Raises `DefinitionRefused`."""
        if item.action is Action.CREATE:
            self._create(definitions.parse(item.content or ""))
        elif item.action is Action.DROP:
            if catalog.shape(self.session, item.table) is not None:
                self._do(item.table, f"DROP TABLE {names.place(item.table)}")
        elif item.action is Action.ALTER:
            self._alter(definitions.parse(item.oldcontent or ""), definitions.parse(item.content or ""))
        else:
            raise ValueError(f"{item.action} is no change of a definition")
        self.targets.forget()

    def prepare(self, items: Sequence[DefinitionChange]) -> None:
        """Nothing: there are no types of the master's own."""

    def release(self, table: TableName) -> None:
        """Drops the foreign keys between the table and others: its rows stay as they are while those change."""
        for own in catalog.foreign_keys(self.connection, [table]):
            if own.key.parent != own.key.child:
                self._do(table, f"ALTER TABLE {names.place(own.key.child)} DROP CONSTRAINT {quoted(own.name)}")
        self.targets.forget()

    def rename_labels(self, item: DefinitionChange) -> None:
        """See `sluice.database.apply.Alterer`. Raises `DefinitionRefused`."""
        if item.action is not Action.ALTER:
            return
        old, new = definitions.parse(item.oldcontent or ""), definitions.parse(item.content or "")
        for column, labels in enum_labels.renamed(self._of_master, old, new).items():
            text = quoted(column)
            cases = " ".join(f"WHEN {literal(former)} THEN {literal(label)}" for former, label in labels.items())
            self._do(
                new.table,
                f"UPDATE {names.place(new.table)} SET {quoted(column)} = CASE {text} {cases} END "
                f"WHERE {text} IN ({', '.join(map(literal, labels))})",
            )

    def settle(self, changed: Collection[TableName]) -> None:
        """Nothing: a column whose values follow as changes may stay NULL here."""

    def truncate(self, tables: Sequence[TableName]) -> None:
        for table in reversed(self.targets.order(dict.fromkeys(tables))):
            self._do(table, f"DELETE FROM {self.targets[table].place}")

    def delete_where(self, item: DefinitionChange) -> None:
        """Raises `DefinitionRefused`: which rows went with a partition only the master's expressions say."""
        raise DefinitionRefused(
            item.table, "a partition was dropped with its rows, and which those are, this server cannot tell", _AGAIN
        )

    def keys(self, item: DefinitionChange) -> list[tuple[str, ...]]:
        """Of all rows: of a TRUNCATE."""
        if item.action is Action.DELETE_WHERE:
            self.delete_where(item)
        target = self.targets[item.table]
        key = [target.column(column.name) for column in target.shape.key]
        if not key:
            return []
        texts = ", ".join(column.text("t") for column in key)
        rows = self.session.run(f"SELECT {texts} FROM {target.place} t").fetchall()
        return [tuple(column.shown(text) or "" for column, text in zip(key, row, strict=True)) for row in rows]

    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        """Deletes the rows under these keys; how many."""
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

    # What a definition becomes

    def _translated(self, definition: TableDefinition) -> dict[int, Column]:
        """By their number the columns that are replicated, in types of this server. Raises `DefinitionRefused`."""
        defined = defined_in(definition)
        columns = definition.shape.replicated
        logical = [
            LogicalColumn(column.name, self._of_master.logical(column.type, defined), column.key > 0)
            for column in columns
        ]
        made = column_types.made_of(self.session, logical)
        return {
            column.position: self._allowed(definition.table, column, each)
            for column, each in zip(columns, made, strict=True)
        }

    def _allowed(self, table: TableName, column: Column, made: ColumnType) -> Column:
        if made.fit is Fit.REFUSED or (made.fit is Fit.LOSSY and not allows(self._lossy, table, column.name)):
            named = "" if made.fit is Fit.REFUSED else " Or name the column under lossy_columns of the slave."
            lost = f"column {column.name} {column.type} would lose something: {made.lost}"
            raise DefinitionRefused(table, lost, _AGAIN + named)
        nullable = column.nullable and not column.key
        return Column(column.name, made.type, column.position, nullable=nullable, key=column.key)

    # What is done

    def _create(self, wanted: TableDefinition) -> None:
        if catalog.shape(self.session, wanted.table) is not None:
            return
        shape = TableShape(wanted.table, tuple(self._translated(wanted).values()))
        try:
            create_table(self.session, MadeTable(shape, None, "p", (), {}))
        except StatementFailed as error:
            raise DefinitionRefused(wanted.table, error.reason, _BY_HAND) from error

    def _alter(self, old: TableDefinition, new: TableDefinition) -> None:
        if old.table != new.table:
            self._rename(old.table, new.table)
        have = catalog.shape(self.session, new.table)
        if have is None:
            self._create(new)
            return
        before = {column.position: column for column in old.shape.columns}
        wanted = self._translated(new)
        there = {column.name: column for column in have.columns}
        table = f"ALTER TABLE {names.place(new.table)}"
        key = [column.name for column in new.shape.key]
        formerly = [before[column.position].name if column.position in before else "" for column in new.shape.key]
        key_changes = [column.name for column in old.shape.key] != formerly and [c.name for c in have.key] != key
        if key_changes and have.key:
            self._do(new.table, f"{table} DROP PRIMARY KEY")
        kept = {each.position for each in new.shape.columns}
        for position, column in before.items():
            # Unless another column has taken the name by now.
            gone = position not in kept and column.name not in {each.name for each in wanted.values()}
            if gone and column.name in there:
                self._do(new.table, f"{table} DROP COLUMN {quoted(column.name)}")
        for position, column in wanted.items():
            previous = before.get(position)
            if previous is not None and previous.generated:
                raise DefinitionRefused(new.table, f"column {column.name} was computed by the master before", _AGAIN)
            own = there.get(previous.name) if previous else None
            renamed = own is not None and previous is not None and previous.name != column.name
            if renamed and previous is not None and column.name not in there:
                self._do(new.table, f"{table} RENAME COLUMN {quoted(previous.name)} TO {quoted(column.name)}")
            own = own or there.get(column.name)
            if own is None:
                self._add(new, column)
            else:
                self._modify(new.table, own, column)
        if key_changes and key:
            self._do(new.table, f"{table} ADD PRIMARY KEY ({', '.join(map(quoted, key))})")

    def _rename(self, old: TableName, new: TableName) -> None:
        there = catalog.shapes(self.session, [old, new])
        if old in there and new not in there:
            if old.schema != new.schema:
                raise DefinitionRefused(new, f"it moved from the schema {old.schema}, which no table does here", _AGAIN)
            self._do(new, f"ALTER TABLE {names.place(old)} RENAME TO {quoted(new.name)}")

    def _add(self, definition: TableDefinition, column: Column) -> None:
        """The column, with the value of the older rows in the same statement: after a crash it is there with it."""
        table = f"ALTER TABLE {names.place(definition.table)}"
        missing = definition.missing.get(column.name)
        if missing is None:
            # Where the master gave each row a value, they follow as changes.
            loose = Column(column.name, column.type, column.position, nullable=True)
            self._do(definition.table, f"{table} ADD ({column_clause(loose)})")
            return
        own = ColumnTexts(column.name, column.type)
        bound = own.bind(missing)
        if isinstance(bound, bytes):
            value = f"HEXTORAW('{bound.hex()}')"
        else:
            value = "NULL" if bound is None else own.value(literal(bound))
        loose = Column(column.name, column.type, column.position, nullable=column.nullable or bound is None)
        self._do(definition.table, f"{table} ADD ({column_clause(loose, default=value)})")
        self._do(definition.table, f"{table} MODIFY ({quoted(column.name)} DEFAULT NULL)")

    def _modify(self, table: TableName, own: Column, wanted: Column) -> None:
        clause = ""
        if not column_types.holds(own.type, wanted.type):
            if not column_types.holds(wanted.type, own.type):
                raise DefinitionRefused(
                    table,
                    f"column {wanted.name} is {own.type} here and would become {wanted.type}, in which this server may "
                    "write its values otherwise than the master",
                    _AGAIN,
                )
            clause = f" {wanted.type}"
        if wanted.nullable and not own.nullable and not wanted.key:
            clause += " NULL"
        if clause:
            self._do(table, f"ALTER TABLE {names.place(table)} MODIFY ({quoted(wanted.name)}{clause})")

    def _do(self, table: TableName, statement: str) -> None:
        try:
            self.session.run(statement)
        except StatementFailed as error:
            raise DefinitionRefused(table, f"{error.reason}. The statement was: {statement}", _BY_HAND) from error
