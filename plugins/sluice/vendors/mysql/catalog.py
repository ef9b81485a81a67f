"""Tables, keys, indexes and foreign keys, from information_schema, and the names of a master's tables there.

A server has databases and no schemas. Tables of the master's schema `public` are in the database of the connection;
those of any other schema are in a database of that name. Sluice's own tables are in the connection's database.
"""

import hashlib
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.database.errors import LockNotAvailable, StatementFailed
from sluice.database.schema import (
    Constraint,
    Index,
)
from sluice.database.session import Session
from sluice.model.defined import Defined, DefinedKind
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.common.catalog import Catalog, OwnForeignKey, OwnIndex, keyed
from sluice.vendors.common.definitions import Definitions, Unindexable
from sluice.vendors.common.slave_tables import SlaveTable, SlaveTables
from sluice.vendors.mysql.column_types import ColumnTexts
from sluice.vendors.mysql.connection import DEFINITION_LOCK_SECONDS, MySQLSession, native, quoted
from sluice.vendors.mysql.errors import number_of, text_of

HERE = "public"
LONGEST = 64
"""Characters of a name."""
LONGEST_FILE = 251
"""Bytes of a file's name without its ending: a table has a file of its name, a database a folder."""
_FOREIGN_KEY_REFUSED = frozenset({1825, 1215, 3780})
"""The server says no more than that the key is wrong."""
OF_SERVER = frozenset({"information_schema", "mysql", "performance_schema", "sys"})
"""Databases in which the server keeps its own."""


def qualified(table: TableName) -> str:
    """The table's quoted name in a statement."""
    return quoted(table.name) if table.schema == HERE else quoted(table.schema, table.name)


def database_of(session: MySQLSession, schema: str) -> str:
    """The database that holds the tables of a master's schema."""
    return session.info.database if schema == HERE else schema


def table_of(session: MySQLSession, database: str, name: str) -> TableName:
    """A table's name on the master."""
    return TableName(HERE if database == session.info.database else database, name)


def fault(session: MySQLSession, table: TableName) -> str | None:
    """Why the table cannot have its name here, for `the table is … on the slave`; None if it can."""
    if table.schema == session.info.database and table.schema != HERE:
        return f"in the database {table.schema}, as the schema {HERE} is: let the connection name another,"
    if table.schema.lower() in OF_SERVER:
        return f"in {table.schema}, a database of the server's own,"
    for part in (table.schema, table.name):
        if len(part) > LONGEST:
            return f"a name of more than {LONGEST} characters, which no table has"
        if part.endswith(" ") or any(ord(letter) > 0xFFFF or letter == "\0" for letter in part):
            return "a name that ends with a blank, or has a character beyond U+FFFF, which no table has"
        if session.folds_names and part != part.lower():
            return "a name with capital letters, which a server with lower_case_table_names does not keep,"
        if _file_bytes(part) > LONGEST_FILE:
            return "a name with so many signs that the server's file of that name would have too long a name,"
    return None


def in_dictionary(name: str) -> str:
    """The name with which information_schema is asked for this one: it compares its names, of which none has a
    character beyond U+FFFF, with no text that has."""
    return "".join(letter if ord(letter) <= 0xFFFF else "\ufffd" for letter in name)


def _file_bytes(name: str) -> int:
    """The length of the server's file of that name: signs and most letters are `@` and four hexadecimal digits there,
    letters of European scripts `@` and two signs."""
    plain = sum(letter.isascii() and (letter.isalnum() or letter == "_") for letter in name)
    european = sum("\u00c0" <= letter <= "\u0587" or "\u1e00" <= letter <= "\u1fff" for letter in name)
    return plain + 3 * european + 5 * (len(name) - plain - european)


PRIMARY = "PRIMARY"
OF_TRIGGERS = ("event_object_schema", "event_object_table")
"""Columns that name the table of a trigger."""
_ACTIONS = {"CASCADE": "c", "SET NULL": "n", "SET DEFAULT": "d", "RESTRICT": "r", "NO ACTION": "a"}


def among(
    session: MySQLSession, tables: Sequence[TableName], columns: tuple[str, str] = ("table_schema", "table_name")
) -> tuple[str, dict[str, object]]:
    """The condition that two columns of information_schema name one of `tables`, and its parameters.

    Byte by byte: to those columns `Items` and `ITEMS` are one name, and of a list with both the server looks for one.
    """
    names = [(database_of(session, table.schema), table.name) for table in tables]
    values: dict[str, object] = {}
    for number, (database, name) in enumerate(names):
        values |= {f"d{number}": database, f"n{number}": name}
    pairs = ", ".join(f"(%(d{number})s, %(n{number})s)" for number in range(len(names)))
    schema, name = columns
    condition = f"(CAST({schema} AS BINARY), CAST({name} AS BINARY)) IN ({pairs})"
    if len(names) > 1:
        return condition, values
    # By these the server finds one table without opening all.
    values |= {"d": in_dictionary(names[0][0]), "n": in_dictionary(names[0][1])}
    return f"({condition} AND {schema} = %(d)s AND {name} = %(n)s)", values


def shapes(connection: Session, tables: Iterable[TableName]) -> dict[TableName, TableShape]:
    """The shapes of those of `tables` that exist, not of views."""
    session, listed = native(connection), list(dict.fromkeys(tables))
    if not listed:
        return {}
    condition, values = among(session, listed)
    columns: dict[TableName, list[Column]] = {}
    for database, name, *column in session.read_schema(sql_files.render("mysql", "columns", tables=condition), values):
        columns.setdefault(table_of(session, database, name), []).append(_column(column))
    return keyed(columns, own_indexes(connection, list(columns)))


def shape(connection: Session, table: TableName) -> TableShape | None:
    """The shape of one table; None if it does not exist."""
    return shapes(connection, [table]).get(table)


def own_indexes(connection: Session, tables: Sequence[TableName]) -> list[OwnIndex]:
    """The indexes of `tables`, primary keys first."""
    session = native(connection)
    if not tables:
        return []
    condition, values = among(session, tables)
    by_index: dict[tuple[TableName, str], list[tuple[str | None, bool, bool]]] = {}
    rows = session.read_schema(sql_files.render("mysql", "indexes", tables=condition), values)
    for database, name, index, unique, column, part in rows:
        entry = (column, bool(unique), part is not None)
        by_index.setdefault((table_of(session, database, name), index), []).append(entry)
    uniques = [
        OwnIndex(
            table,
            index,
            parts[0][1],
            tuple(column or "" for column, _, _ in parts),
            all(column is not None and not prefix for column, _, prefix in parts),
            index == PRIMARY,
        )
        for (table, index), parts in by_index.items()
    ]
    return sorted(uniques, key=lambda index: (index.table, not index.primary, index.name))


def foreign_keys(connection: Session, tables: Sequence[TableName]) -> list[OwnForeignKey]:
    """The foreign keys from or to any of `tables`."""
    session = native(connection)
    if not tables:
        return []
    condition, values = among(session, tables)
    referred, _ = among(session, tables, ("referenced_table_schema", "referenced_table_name"))
    statement = sql_files.render("mysql", "foreign_keys", tables=f"({condition} OR {referred})")
    by_name: dict[tuple[TableName, str], tuple[TableName, str, str, list[str], list[str]]] = {}
    for database, name, key, column, other, parent, parent_column, on_update, on_delete in session.read_schema(
        statement, values
    ):
        child = table_of(session, database, name)
        entry = by_name.setdefault(
            (child, key),
            (table_of(session, other, parent), _ACTIONS[on_update], _ACTIONS[on_delete], [], []),
        )
        entry[3].append(column)
        entry[4].append(parent_column)
    return [
        OwnForeignKey(key, ForeignKey(child, parent, on_update, on_delete, tuple(columns), tuple(parents)))
        for (child, key), (parent, on_update, on_delete, columns, parents) in by_name.items()
    ]


def _column(row: Sequence[object]) -> Column:
    name, column_type, position, nullable, default, extra, collation = map(str, row[:7])
    generated = "v" if "VIRTUAL" in extra else "s" if "STORED GENERATED" in extra or "PERSISTENT" in extra else ""
    return Column(
        name,
        column_type,
        int(position),
        nullable == "YES",
        0,
        None if row[4] is None or default == "NULL" else default,
        "d" if "auto_increment" in extra else "",
        generated,
        None if row[6] is None else collation,
    )


@dataclass(frozen=True)
class MySQLColumn(ColumnTexts):
    """One column of a slave's table."""

    generated: str = ""
    collation: str | None = None


@dataclass(frozen=True)
class MySQLTable(SlaveTable[MySQLColumn]):
    """One table of the slave."""

    @property
    def qualified(self) -> str:
        """Its quoted name."""
        return qualified(self.table)


class MySQLSlaveTables(SlaveTables[MySQLTable]):
    """Foreign keys do not act in these sessions."""

    catalog: Catalog = sys.modules[__name__]

    def made(
        self, shapes: Mapping[TableName, TableShape], uniques: Mapping[TableName, tuple[OwnIndex, ...]]
    ) -> Iterable[MySQLTable]:
        session = native(self.connection)
        condition, values = among(session, list(shapes), OF_TRIGGERS)
        triggers = session.read_schema(sql_files.render("mysql", "triggers", tables=condition), values).fetchall()
        watched = {table_of(session, database, name) for database, name, _ in triggers}
        for table, shape in shapes.items():
            columns = tuple(MySQLColumn(each.name, each.type, each.generated, each.collation) for each in shape.columns)
            yield MySQLTable(shape, columns, uniques[table], table in watched, self.hidden(table, columns))

    def connected(self, table: TableName, among: Iterable[TableName]) -> set[TableName]:
        """The table alone."""
        return {table}


PREFIX = 191
"""Characters of a long text that an index holds, where it need not keep texts apart."""
KEY_CHARACTERS = 768
"""The most that all columns of an index have together."""
WIDEST = 8
"""What a column of another type needs of that at most."""
TRIES, WAIT_SECONDS, PAUSE_SECONDS = 10, 1, 1.0
"""How often, and how long, a statement waits for a table that others use; what they do continues in the pauses."""
_MARK = re.compile(r"~[0-9a-f]{6}$")
"""After the name of a foreign key that another table has as well."""
_AS_THEY_ARE: Mapping[str, str] = {}


class MySQLDefinitions(Definitions):
    """Indexes and foreign keys of MySQL and MariaDB."""

    catalog: Catalog = sys.modules[__name__]
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

    def qualified(self, table: TableName) -> str:
        return qualified(table)

    def index_statement(self, index: Index, columns: Sequence[str], shape: TableShape) -> str:
        kind = "UNIQUE INDEX" if index.unique else "INDEX"
        parts = _parts([ColumnTexts(name, shape.column(name).type) for name in columns], unique=index.unique)
        return f"ALTER TABLE {qualified(index.table)} ADD {kind} {quoted(index.name)} ({', '.join(parts)})"

    def drop_index_statement(self, table: TableName, name: str) -> str:
        return f"ALTER TABLE {qualified(table)} DROP INDEX {quoted(name)}"

    def free_name(self, connection: Session, wanted: Constraint) -> str:
        """Its name is unique in the whole database, regardless of case."""
        session = native(connection)
        taken = session.read_schema(
            "SELECT 1 FROM information_schema.referential_constraints WHERE constraint_schema = %(here)s "
            "AND constraint_name = %(name)s",
            {
                "here": database_of(session, wanted.table.schema),
                "name": in_dictionary(wanted.name),
            },
        ).fetchone()
        mark = hashlib.sha256(f"{wanted.table} {wanted.name}".encode()).hexdigest()[:6]
        return f"{wanted.name[: LONGEST - len(mark) - 1]}~{mark}" if taken else wanted.name

    def name_of_master(self, name: str) -> str:
        return _MARK.sub("", name)

    def drop(self, connection: Session, defined: Defined) -> None:
        if defined.kind is not DefinedKind.FOREIGN_KEYS:
            # Not while another session checks a foreign key by it; where it was the only one, another takes its place.
            gone = [each for each in own_indexes(connection, [defined.table]) if each.name == defined.name]
            added = "".join(f", {clause}" for clause in needed_indexes(connection, defined.table, gone))
            self.run(connection, self.foreign_key_settings)
            self._follow(connection, self.drop_index_statement(defined.table, defined.name) + added)
            self.run(connection, "SET foreign_key_checks = 1")
        else:
            super().drop(connection, defined)

    def drop_foreign_key_statement(self, table: TableName, name: str) -> str:
        return f"ALTER TABLE {qualified(table)} DROP FOREIGN KEY {quoted(name)}"

    def rename_index_statement(self, table: TableName, name: str, new: str) -> str:
        return f"ALTER TABLE {qualified(table)} RENAME INDEX {quoted(name)} TO {quoted(new)}"

    def reason(self, error: StatementFailed) -> str:
        if number_of(error) in _FOREIGN_KEY_REFUSED:
            return (
                "this server makes a foreign key only over columns of the same type and length on both sides, and a "
                f"text without a length is none of them (error {error.server_code})"
            )
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
    left = [each for each in own_indexes(connection, [table]) if each not in gone]
    indexed = dict.fromkeys(
        own.key.columns
        for own in foreign_keys(connection, [table])
        if own.key.child == table and own.name not in gone_keys
    )
    return [
        f"ADD INDEX ({', '.join(quoted(renamed.get(name, name)) for name in columns)})"
        for columns in indexed
        if not any(each.columns[: len(columns)] == columns for each in left)
    ]


DEFINITIONS = MySQLDefinitions()


def whole(columns: Sequence[ColumnTexts]) -> bool:
    """Whether an index can have these columns without cutting a text."""
    texts = [each for each in columns if each.is_text]
    room = KEY_CHARACTERS - WIDEST * (len(columns) - len(texts))
    return all(each.length for each in texts) and sum(each.length for each in texts) <= room


def _parts(columns: Sequence[ColumnTexts], *, unique: bool) -> Iterator[str]:
    """Columns as an index names them, texts by their beginnings where the index would be too long. Raises
    `Unindexable`."""
    texts = [each for each in columns if each.is_text]
    if unique and not all(0 < each.length <= KEY_CHARACTERS for each in texts):
        raise Unindexable("a text of its columns is too long for a unique index")
    held = KEY_CHARACTERS
    if not unique and not whole(columns):
        held = min(PREFIX, (KEY_CHARACTERS - WIDEST * (len(columns) - len(texts))) // len(texts))
    for each in columns:
        cut = each.is_text and not 0 < each.length <= held
        yield f"{each.quoted}({held})" if cut else each.quoted
