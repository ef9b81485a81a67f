"""The rows of `<prefix>DEFINITIONS` of a slave: what it has of the master's indexes, constraints and comments.

And of its columns: under which definition of the master the slave's table was made or altered last. A change of a
definition may come twice, and names of columns move between columns: only this tells which column of the slave is
which of the master.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sluice.control.own_tables import SlaveStore
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.model.table_definition import TableDefinition, format_definition, parse

_BEGUN = "begun"
"""The kind of the row that says that definitions are followed; it may be the only row."""
_COLUMNS = "columns"
"""The kind of the rows with the columns of a table."""


@dataclass(frozen=True)
class KnownColumns:
    """The columns of a slave's table, as the master defined them."""

    shape: TableShape
    followed: bool
    """The slave came to them by a change of the stream; otherwise by a load, which may be ahead of the stream."""


class DefinitionStore(SlaveStore):
    """Reads and writes what the slave has of the master's definitions."""

    def read(self) -> list[Defined] | None:
        """All rows; None before anything was followed."""
        if not self._own.has("definitions"):
            return None
        rows = [row for row in self._execute("definitions_read").fetchall() if row[0] != _COLUMNS]
        if not rows:
            return None
        return [
            Defined(DefinedKind(kind), TableName(schema, table), name, definition, bool(making))
            for kind, schema, table, name, definition, making in rows
            if kind != _BEGUN
        ]

    def begin(self) -> None:
        """Notes that definitions are followed: from now on, what has no row is new."""
        # Not empty: to some servers an empty text is NULL.
        begin = dict.fromkeys(("kind", "table_schema", "table", "name", "definition"), _BEGUN)
        self._execute("definitions_put", **begin, making=False)

    def put(self, defined: Defined, *, making: bool = False) -> None:
        """Records that the slave has it; with `making`, that it may be incomplete."""
        with self.connection.transaction():
            self.forget(defined)
            self._execute("definitions_put", **_id_columns(defined), definition=defined.definition, making=making)

    def columns(self, tables: Collection[TableName]) -> dict[TableName, KnownColumns]:
        """The columns of those of `tables` for which they were noted, by the master's names."""
        if not self._own.has("definitions"):
            return {}
        return {
            TableName(schema, name): KnownColumns(parse(definition).shape, not loaded)
            for kind, schema, name, _, definition, loaded in self._execute("definitions_read").fetchall()
            if kind == _COLUMNS and TableName(schema, name) in tables
        }

    def put_columns(self, shape: TableShape, *, followed: bool) -> None:
        """Records the columns that the slave's table has now."""
        self._execute("definitions_forget", **_columns_of(shape.table))
        text = format_definition(TableDefinition(shape))
        self._execute("definitions_put", **_columns_of(shape.table), definition=text, making=not followed)

    def forget_table(self, table: TableName) -> None:
        """Notes that the slave no longer has the table: another one of its name brings its own definitions."""
        self._execute("definitions_forget_table", table_schema=table.schema, table=table.name)

    def rename_table(self, old: TableName, new: TableName) -> None:
        """Notes that the slave's table has another name. Does nothing when called once more."""
        tables = {TableName(schema, name) for _, schema, name, *_ in self._execute("definitions_read")}
        if old in tables:
            self.forget_table(new)
            names = {"new_schema": new.schema, "new_table": new.name}
            self._execute("definitions_rename_table", table_schema=old.schema, table=old.name, **names)

    def forget(self, defined: Defined) -> None:
        """Notes that the slave no longer has it."""
        self._execute("definitions_forget", **_id_columns(defined))


def _id_columns(defined: Defined) -> dict[str, str]:
    table = defined.table
    return {"kind": str(defined.kind), "table_schema": table.schema, "table": table.name, "name": defined.name}


def _columns_of(table: TableName) -> dict[str, str]:
    return {"kind": _COLUMNS, "table_schema": table.schema, "table": table.name, "name": _COLUMNS}
