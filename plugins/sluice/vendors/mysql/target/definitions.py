"""Indexes and foreign keys on a MariaDB or MySQL slave (`sluice.vendors.common.definitions`).

Each index is created while rows are read and written. Foreign keys act for other sessions, not for the apply's. A
comment on a column is a part of the whole column here: the comparison of definitions reports it.
"""

from collections.abc import Sequence

from sluice.database.errors import StatementFailed
from sluice.database.schema import Index
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import Catalog
from sluice.vendors.common.definitions import Definitions, Unindexable
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native, quoted
from sluice.vendors.mysql.errors import text_of

PREFIX = 191
"""Characters of a long text that an index holds, where it need not keep texts apart."""
KEY_CHARACTERS = 768


class MySQLDefinitions(Definitions):
    catalog: Catalog = catalog
    foreign_key_settings = "SET foreign_key_checks = 0"

    def run(self, connection: Session, statement: str) -> None:
        native(connection).run(statement)

    def quoted(self, *names: str) -> str:
        return quoted(*names)

    def place(self, table: TableName) -> str:
        return names.place(table)

    def index_statement(self, index: Index, columns: Sequence[str], shape: TableShape) -> str:
        kind = "UNIQUE INDEX" if index.unique else "INDEX"
        parts = ", ".join(_part(shape, name, unique=index.unique) for name in columns)
        return f"ALTER TABLE {names.place(index.table)} ADD {kind} {quoted(index.name)} ({parts})"

    def drop_index_statement(self, table: TableName, name: str) -> str:
        return f"ALTER TABLE {names.place(table)} DROP INDEX {quoted(name)}"

    def drop_foreign_key_statement(self, table: TableName, name: str) -> str:
        return f"ALTER TABLE {names.place(table)} DROP FOREIGN KEY {quoted(name)}"

    def rename_index_statement(self, table: TableName, name: str, new: str) -> str:
        return f"ALTER TABLE {names.place(table)} RENAME INDEX {quoted(name)} TO {quoted(new)}"

    def reason(self, error: StatementFailed) -> str:
        return error.reason or text_of(error)


DEFINITIONS = MySQLDefinitions()


def _part(shape: TableShape, name: str, *, unique: bool) -> str:
    """A column as an index names it, a long text by its beginning. Raises `Unindexable`."""
    own = ColumnTexts(name, shape.column(name).type)
    long = own.base.endswith(("text", "blob")) or own.length > KEY_CHARACTERS
    if long and unique:
        raise Unindexable("a text of its columns is too long for a unique index")
    return f"{own.quoted}({PREFIX})" if long else own.quoted
