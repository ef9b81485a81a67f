"""Indexes and foreign keys on an Oracle slave (`sluice.vendors.common.definitions`).

Writers wait while an index is created, unless the server can create it ONLINE. Foreign keys act in the apply's
sessions, at the end of a transaction.
"""

from collections.abc import Sequence

from sluice.database.schema import Index
from sluice.database.session import Session
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import Catalog
from sluice.vendors.common.definitions import Definitions, Unindexable
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import native, quoted


class OracleDefinitions(Definitions):
    catalog: Catalog = catalog
    foreign_key_options = " DEFERRABLE ENABLE NOVALIDATE"

    def run(self, connection: Session, statement: str) -> None:
        native(connection).run(statement)

    def quoted(self, *names: str) -> str:
        return quoted(*names)

    def place(self, table: TableName) -> str:
        return names.place(table)

    def index_statement(self, index: Index, columns: Sequence[str], shape: TableShape) -> str:
        for name in columns:
            if ColumnTexts(name, shape.column(name).type).lob:
                raise Unindexable(f"its column {name} is a LOB there")
        kind = "UNIQUE INDEX" if index.unique else "INDEX"
        listed = ", ".join(map(quoted, columns))
        return f"CREATE {kind} {quoted(index.name)} ON {names.place(index.table)} ({listed})"

    def drop_index_statement(self, table: TableName, name: str) -> str:
        return f"DROP INDEX {quoted(name)}"

    def drop_foreign_key_statement(self, table: TableName, name: str) -> str:
        return f"ALTER TABLE {names.place(table)} DROP CONSTRAINT {quoted(name)}"

    def rename_index_statement(self, table: TableName, name: str, new: str) -> str:
        return f"ALTER INDEX {quoted(name)} RENAME TO {quoted(new)}"


DEFINITIONS = OracleDefinitions()


def clause(key: ForeignKey) -> str:
    """A foreign key as ADD CONSTRAINT takes it."""
    columns, parents = (", ".join(map(quoted, each)) for each in (key.columns, key.parent_columns))
    action = {"c": " ON DELETE CASCADE", "n": " ON DELETE SET NULL"}.get(key.on_delete, "")
    return f"FOREIGN KEY ({columns}) REFERENCES {names.place(key.parent)} ({parents}){action}"
