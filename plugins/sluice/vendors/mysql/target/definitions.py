"""Indexes and foreign keys on a MariaDB or MySQL slave (`sluice.vendors.common.definitions`).

Each index is created while rows are read and written. Foreign keys act for other sessions, not for the apply's. A
comment on a column is a part of the whole column here: the comparison of definitions reports it.
"""

import hashlib
import re
import time
from collections.abc import Collection, Mapping, Sequence

from sluice.database.errors import LockNotAvailable, StatementFailed
from sluice.database.schema import Constraint, Index
from sluice.database.session import Session
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import Catalog, OwnIndex
from sluice.vendors.common.definitions import Definitions, Unindexable
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import DEFINITION_LOCK_SECONDS, native, quoted
from sluice.vendors.mysql.errors import text_of

PREFIX = 191
"""Characters of a long text that an index holds, where it need not keep texts apart."""
KEY_CHARACTERS = 768
TRIES, WAIT_SECONDS, PAUSE_SECONDS = 10, 1, 1.0
"""How often, and how long, a statement waits for a table that others use; what they do goes on in the pauses."""
_MARK = re.compile(r"~[0-9a-f]{6}$")
"""After the name of a foreign key that another table has as well."""
_AS_THEY_ARE: Mapping[str, str] = {}


class MySQLDefinitions(Definitions):
    catalog: Catalog = catalog
    foreign_key_settings = "SET foreign_key_checks = 0"

    def run(self, connection: Session, statement: str) -> None:
        native(connection).run(statement)

    def run_beside_others(self, connection: Session, statement: str) -> None:
        """Whoever comes while it waits for a transaction that used the table waits behind it, also for a row."""
        session = native(connection)
        try:
            for left in range(TRIES, -1, -1):
                session.run(f"SET lock_wait_timeout = {WAIT_SECONDS}")
                try:
                    session.run(statement)
                    return
                except LockNotAvailable:
                    if not left:
                        raise
                    time.sleep(PAUSE_SECONDS)
        finally:
            if not (session.closed or session.broken):
                session.run(f"SET lock_wait_timeout = {DEFINITION_LOCK_SECONDS}")

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

    def free_name(self, connection: Session, wanted: Constraint) -> str:
        """Its name is one of the whole database here, with whatever case."""
        session = native(connection)
        taken = session.read_schema(
            "SELECT 1 FROM information_schema.referential_constraints WHERE constraint_schema = %(here)s "
            "AND constraint_name = %(name)s",
            {
                "here": names.database_of(session, wanted.table.schema),
                "name": names.in_dictionary(wanted.name),
            },
        ).fetchone()
        mark = hashlib.sha256(f"{wanted.table} {wanted.name}".encode()).hexdigest()[:6]
        return f"{wanted.name[: names.LONGEST - len(mark) - 1]}~{mark}" if taken else wanted.name

    def name_of_master(self, name: str) -> str:
        return _MARK.sub("", name)

    def drop(self, connection: Session, defined: Defined) -> None:
        if defined.kind is not DefinedKind.FOREIGN_KEYS:
            # Not while another session checks a foreign key by it; where it was the only one, another takes its place.
            gone = [each for each in catalog.own_indexes(connection, [defined.table]) if each.name == defined.name]
            added = "".join(f", {clause}" for clause in needed_indexes(connection, defined.table, gone))
            self.run(connection, self.foreign_key_settings)
            self._follow(connection, self.drop_index_statement(defined.table, defined.name) + added)
            self.run(connection, "SET foreign_key_checks = 1")
        else:
            super().drop(connection, defined)

    def drop_foreign_key_statement(self, table: TableName, name: str) -> str:
        return f"ALTER TABLE {names.place(table)} DROP FOREIGN KEY {quoted(name)}"

    def rename_index_statement(self, table: TableName, name: str, new: str) -> str:
        return f"ALTER TABLE {names.place(table)} RENAME INDEX {quoted(name)} TO {quoted(new)}"

    def reason(self, error: StatementFailed) -> str:
        return error.reason or text_of(error)


def needed_indexes(
    connection: Session,
    table: TableName,
    gone: Collection[OwnIndex],
    gone_keys: Collection[str] = (),
    renamed: Mapping[str, str] = _AS_THEY_ARE,
) -> list[str]:
    """The clauses of ALTER TABLE that give foreign keys of the table an index, where one of `gone` is their only one.

    `gone_keys`: foreign keys that go too. `renamed`: columns that get another name in the same statement.
    """
    left = [each for each in catalog.own_indexes(connection, [table]) if each not in gone]
    wanted = dict.fromkeys(
        own.key.columns
        for own in catalog.foreign_keys(connection, [table])
        if own.key.child == table and own.name not in gone_keys
    )
    return [
        f"ADD INDEX ({', '.join(quoted(renamed.get(name, name)) for name in columns)})"
        for columns in wanted
        if not any(each.columns[: len(columns)] == columns for each in left)
    ]


DEFINITIONS = MySQLDefinitions()


def _part(shape: TableShape, name: str, *, unique: bool) -> str:
    """A column as an index names it, a long text by its beginning. Raises `Unindexable`."""
    own = ColumnTexts(name, shape.column(name).type)
    long = own.base.endswith(("text", "blob")) or own.length > KEY_CHARACTERS
    if long and unique:
        raise Unindexable("a text of its columns is too long for a unique index")
    return f"{own.quoted}({PREFIX})" if long else own.quoted
