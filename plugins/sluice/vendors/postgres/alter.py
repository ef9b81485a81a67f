"""Changes of definitions on the slave: TRUNCATE, CREATE, ALTER, DROP.

    alterer = Alterer(connection, merger.targets, place)
    alterer.apply(item)              # CREATE, ALTER, DROP: item.action, .table, .content, .oldcontent
    alterer.truncate(tables)

Everything happens in the caller's transaction. What is there already is left alone, so that an item
may come twice. Columns are matched by their number in the master's definitions, which a rename
keeps, and changed on the slave by name; columns that only the slave has stay as they are.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import psycopg

from sluice.domain import definition as definitions
from sluice.domain.change import Action
from sluice.domain.definition import Definition
from sluice.domain.names import TableName
from sluice.domain.shape import Column, TableShape
from sluice.errors import RESTART_APPLY, Terminal
from sluice.vendors.postgres import catalog, columns, enums, tables
from sluice.vendors.postgres import connection as connections
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.ranges import value_text
from sluice.vendors.postgres.target import Targets

log = logging.getLogger("sluice.apply")

_SAVEPOINT = "sluice_alter"


class DefinitionRefused(Terminal):
    """The slave cannot follow a change of a table's definition."""

    def __init__(self, table: TableName, statement: str, reason: str):
        super().__init__(
            f"{table}: the slave refuses to follow the master's change of its definition: {reason}. The statement was: "
            f"{statement}. Remove what is in the way on the slave (a view, a constraint, a column of its own) or make "
            f"the change there by hand, then {RESTART_APPLY}."
        )
        self.table = table
        self.statement = statement
        self.reason = reason


class Item(Protocol):
    """What a definition's change consists of."""

    @property
    def action(self) -> Action: ...
    @property
    def table(self) -> TableName: ...
    @property
    def content(self) -> str | None: ...
    @property
    def oldcontent(self) -> str | None: ...


class Alterer:
    """Alters one slave over one connection. `targets` forgets what it knew of the tables."""

    def __init__(self, connection: psycopg.Connection[Any], targets: Targets, place: str):
        self.connection = connection
        self.targets = targets
        self.place = place

    def apply(self, item: Item) -> None:
        """Does what is missing, in either mode.

        Raises `DefinitionRefused` and errors of `connection.classify`; the transaction is lost then.
        """
        if item.action is Action.CREATE:
            self._create(definitions.parse(item.content or ""))
        elif item.action is Action.DROP:
            self._drop(item.table)
        elif item.action is Action.ALTER:
            self._alter(definitions.parse(item.oldcontent or ""), definitions.parse(item.content or ""))
        else:
            raise ValueError(f"{item.action} is no change of a definition")
        self.targets.forget()

    def prepare(self, items: Sequence[Item]) -> None:
        """Makes the enums and adds the labels that the items bring: a transaction that adds a label may not use it.

        To be called in a transaction before that of the items; a second time it does nothing. Raises as `apply`.
        """
        names = enums.Names()
        for item in items:
            if item.action not in (Action.CREATE, Action.ALTER):
                continue
            for enum in definitions.parse(item.oldcontent).enums if item.oldcontent else ():
                names.add(enum)
            for enum in definitions.parse(item.content or "").enums:
                names.add(enum)
                known = [(one, enums.labels(self.connection, one)) for one in names.of_type(enum)]
                there = next(((one, present) for one, present in known if present is not None), None)
                if there is None:
                    self._do(item.table, enums.creation(enum))
                else:
                    for statement in enums.additions(*there, names):
                        self._do(item.table, statement)

    def truncate(self, tables: Sequence[TableName]) -> None:
        """Empties the tables; row by row, children first, where a foreign key or the privileges want it so."""
        order = self.targets.order(dict.fromkeys(tables))
        try:
            self._try(f"TRUNCATE {', '.join(self.targets[table].only for table in order)}")
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege):
            for table in reversed(order):
                self._do(table, f"DELETE FROM {self.targets[table].only}")

    def delete_where(self, item: Item) -> None:
        """Deletes the rows that went with a partition. Raises as `apply`."""
        condition = self._condition(item)
        if condition is not None:
            self._do(item.table, f"DELETE FROM {self.targets[item.table].only} WHERE {condition}")

    def keys(self, item: Item) -> list[tuple[str, ...]]:
        """The key texts of all rows that a TRUNCATE or DELETE WHERE removes."""
        shape = self._shape(item.table)
        texts = ", ".join(value_text(column.type, quoted(column.name)) for column in shape.key) if shape else ""
        condition = self._condition(item)
        if not texts or condition is None:
            return []
        rows = self.connection.execute(
            f"SELECT {texts} FROM {self.targets[item.table].only} WHERE {condition}".encode()
        )
        return [tuple(row) for row in rows]

    def _condition(self, item: Item) -> str | None:
        """What the rows that go meet; None without the table. Hash partitions are found by tables partitioned alike."""
        if self._shape(item.table) is None:
            return None
        if item.action is not Action.DELETE_WHERE:
            return "true"
        bound = definitions.parse_bound(item.content or "")
        condition = bound.condition
        for number, key in bound.hashes:
            alike = f"sluice_hash_{number}"
            self._do(item.table, f"DROP TABLE IF EXISTS pg_temp.{alike}")
            name = quoted(item.table.schema, item.table.name)
            self._do(item.table, f"CREATE TEMPORARY TABLE {alike} (LIKE {name}) PARTITION BY {key} ON COMMIT DROP")
            condition = condition.replace(f"'{number}'::oid", f"'pg_temp.{alike}'::regclass")
        return condition

    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        """Deletes the rows of these keys; how many."""
        shape, target = self._shape(table), self.targets[table]
        if shape is None or not shape.key or not keys:
            return 0
        key = [target.column(column.name) for column in shape.key]
        match = " AND ".join(
            f"t.{column.quoted} {column.equals or 'OPERATOR(pg_catalog.=)'} s.c{number}::{column.plain}"
            for number, column in enumerate(key, start=1)
        )
        arrays = ", ".join(f"${number}::text[]" for number in range(1, len(key) + 1))
        names = ", ".join(f"c{number}" for number in range(1, len(key) + 1))
        text = f"DELETE FROM {target.only} t USING unnest({arrays}) AS s ({names}) WHERE {match}"
        parameters = [[texts[number] for texts in keys] for number in range(len(key))]
        return psycopg.RawCursor(self.connection).execute(text, parameters).rowcount

    def _create(self, wanted: Definition) -> None:
        table, shape = wanted.table, wanted.shape
        if self._shape(table) is not None:
            return
        version = self.connection.info.server_version
        lines = [columns.clause(column, version) for column in shape.columns]
        if shape.key:
            lines.append(f"PRIMARY KEY ({', '.join(quoted(column.name) for column in shape.key)})")
        if self.connection.execute("SELECT to_regnamespace(%s) IS NULL", [quoted(table.schema)]).fetchone() == (True,):
            self._do(table, f"CREATE SCHEMA {quoted(table.schema)}")
        self._do(table, f"CREATE TABLE {quoted(table.schema, table.name)} ({', '.join(lines)})")
        self._set_defaults(Definition(TableShape(table, ())), wanted, TableShape(table, ()))

    def _drop(self, table: TableName) -> None:
        if self._shape(table) is None:
            return
        # The master dropped it, hence nothing there refers to it any more.
        for key in tables.foreign_keys(self.connection, [table]):
            if key.parent == table and key.child != table:
                child = quoted(key.child.schema, key.child.name)
                self._do(table, f"ALTER TABLE {child} DROP CONSTRAINT IF EXISTS {quoted(key.name)}")
        self._do(table, f"DROP TABLE {quoted(table.schema, table.name)}")

    def _alter(self, old: Definition, new: Definition) -> None:
        if old.table != new.table:
            self._rename(old.table, new.table)
        self._follow_enums(old, new)
        have = self._shape(new.table)
        if have is None:
            self._create(new)
            return
        version = self.connection.info.server_version
        name = quoted(new.table.schema, new.table.name)
        key = [column.name for column in new.shape.key]
        key_changes = [column.name for column in old.shape.key] != [_old_name(old, column) for column in new.shape.key]
        key_changes = key_changes and [column.name for column in have.key] != key
        if key_changes:
            self._drop_key(new.table, old)
        for clause in plan(old, new, have, version):
            self._do(new.table, f"ALTER TABLE {name} {clause}")
        self._set_defaults(old, new, have)
        if key_changes and key:
            self._do(new.table, f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(map(quoted, key))})")

    def _follow_enums(self, old: Definition, new: Definition) -> None:
        """Types and labels are renamed; what is new of them is there already (`prepare`)."""
        for enum in new.enums:
            present = enums.labels(self.connection, enum)
            moved = enums.moves(old, enum) if present is None else None
            if moved is not None and (present := enums.labels(self.connection, moved[0])) is not None:
                for statement in moved[1]:
                    self._do(new.table, statement)
            for statement in enums.renames(old, enum, present or ()):
                self._do(new.table, statement)

    def _set_defaults(self, old: Definition, new: Definition, have: TableShape) -> None:
        for column, clause in defaults(old, new, have):
            try:
                self._try(f"ALTER TABLE {quoted(new.table.schema, new.table.name)} {clause}")
            except psycopg.ProgrammingError as error:
                # A function or sequence that only the master has; replicated values never need it.
                log.warning("%s.%s: default left out on the slave: %s", new.table, column, error)

    def _rename(self, old: TableName, new: TableName) -> None:
        if self._shape(old) is None:
            return
        name = quoted(old.schema, old.name)
        if old.name != new.name:
            self._do(old, f"ALTER TABLE {name} RENAME TO {quoted(new.name)}")
            name = quoted(old.schema, new.name)
        if old.schema != new.schema:
            self._do(old, f"ALTER TABLE {name} SET SCHEMA {quoted(new.schema)}")

    def _drop_key(self, table: TableName, old: Definition) -> None:
        """The slave's primary key, when it is the one the master had."""
        row = self.connection.execute(
            "SELECT x.conname, array_agg(a.attname::text) FROM pg_catalog.pg_constraint x "
            "JOIN pg_catalog.pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = ANY (x.conkey) "
            "WHERE x.contype = 'p' AND x.conrelid = to_regclass(%s) GROUP BY x.conname",
            [quoted(table.schema, table.name)],
        ).fetchone()
        if row is not None and set(row[1]) == {column.name for column in old.shape.key}:
            self._do(table, f"ALTER TABLE {quoted(table.schema, table.name)} DROP CONSTRAINT {quoted(row[0])}")

    def _shape(self, table: TableName) -> TableShape | None:
        return catalog.shape(self.connection, table)

    def _do(self, table: TableName, statement: str) -> None:
        try:
            self.connection.execute(statement.encode())
        except psycopg.Error as error:
            raise self._refused(table, statement, error) from error

    def _try(self, statement: str) -> None:
        """With the transaction as it was when it fails."""
        with self.connection.transaction(_SAVEPOINT):
            self.connection.execute(statement.encode())

    def _refused(self, table: TableName, statement: str, error: psycopg.Error) -> Exception:
        classified = connections.classify(error, self.place)
        if not isinstance(classified, connections.StatementFailed):
            return classified
        detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
        return DefinitionRefused(table, statement, (error.diag.message_primary or str(error)) + detail)


def plan(old: Definition, new: Definition, have: TableShape, version: int) -> list[str]:
    """The clauses of ALTER TABLE that turn the slave's `have` from the `old` definition to the `new` one.

    Defaults come apart (`defaults`), the key too. `version`: the slave's server version.
    """
    there = {column.name: column for column in have.columns}
    before = {column.position: column for column in old.shape.columns}
    after = {column.position: column for column in new.shape.columns}
    clauses: list[str] = []
    for position, column in before.items():
        if position not in after and column.name in there:
            clauses.append(f"DROP COLUMN {quoted(column.name)}")
            del there[column.name]
    renames = [
        (before[position].name, column.name)
        for position, column in after.items()
        if position in before and before[position].name != column.name and before[position].name in there
    ]
    sources = {source for source, _ in renames}
    aside = {}
    for number, (source, wanted) in enumerate(renames):
        if wanted in sources:
            # Names change places: through names that nobody has.
            aside[source] = f"sluice_renamed_{number}"
            clauses.append(f"RENAME COLUMN {quoted(source)} TO {quoted(aside[source])}")
    moved = [there.pop(source) for source, _ in renames]
    for (source, wanted), column in zip(renames, moved, strict=True):
        clauses.append(f"RENAME COLUMN {quoted(aside.get(source, source))} TO {quoted(wanted)}")
        there[wanted] = column
    for position, column in after.items():
        if position not in before:
            if column.name not in there:
                clauses += _added(column, new.missing.get(column.name), version)
        elif column.name in there:
            clauses += _altered(before[position], column, there[column.name], version)
    return clauses


def defaults(old: Definition, new: Definition, have: TableShape) -> Iterator[tuple[str, str]]:
    """Changed defaults: the column and its clause. The server may lack what a default calls."""
    before = {column.position: column for column in old.shape.columns}
    there = {column.name for column in have.columns}
    for column in new.shape.columns:
        if column.generated or column.identity:
            continue
        previous = before.get(column.position)
        if previous is None:
            if column.name in there:
                continue
            # It was added with the value of the older rows; from here on its own default counts.
            if column.default is not None:
                yield column.name, f"ALTER COLUMN {quoted(column.name)} SET DEFAULT {column.default}"
        elif column.default is not None and (previous.default, previous.type) != (column.default, column.type):
            yield column.name, f"ALTER COLUMN {quoted(column.name)} SET DEFAULT {column.default}"


def _added(column: Column, missing: str | None, version: int) -> list[str]:
    default = None
    if missing is not None:
        # Evaluated once, as on the master: the older rows all have this value.
        default = f"{literal(missing)}::{column.type}"
    elif not column.nullable:
        default = column.default
    added = [f"ADD COLUMN {columns.clause(column, version, default=default)}"]
    if missing is not None and column.default is None:
        added.append(f"ALTER COLUMN {quoted(column.name)} DROP DEFAULT")
    return added


def _altered(before: Column, after: Column, have: Column, version: int) -> list[str]:
    name = quoted(after.name)
    clauses: list[str] = []
    retyped = (before.type, before.collation) != (after.type, after.collation) and (have.type, have.collation) != (
        after.type,
        after.collation,
    )
    if before.generated and not after.generated and have.generated:
        clauses.append(f"ALTER COLUMN {name} DROP EXPRESSION IF EXISTS")
    if before.identity and not after.identity and have.identity:
        clauses.append(f"ALTER COLUMN {name} DROP IDENTITY IF EXISTS")
    if have.default is not None and not have.generated and (retyped or (before.default and after.default is None)):
        clauses.append(f"ALTER COLUMN {name} DROP DEFAULT")
    if retyped:
        collation = f" COLLATE {after.collation}" if after.collation else ""
        using = "" if after.generated else f" USING {name}::{after.type}"
        clauses.append(f"ALTER COLUMN {name} TYPE {after.type}{collation}{using}")
    if after.generated and before.generated and before.default != after.default and version >= 170000:
        clauses.append(f"ALTER COLUMN {name} SET EXPRESSION AS ({after.default})")
    if before.nullable and not after.nullable and have.nullable:
        clauses.append(f"ALTER COLUMN {name} SET NOT NULL")
    if not before.nullable and after.nullable and not have.nullable:
        clauses.append(f"ALTER COLUMN {name} DROP NOT NULL")
    if after.identity and not before.identity and not have.identity:
        clauses.append(f"ALTER COLUMN {name} ADD GENERATED BY DEFAULT AS IDENTITY")
    return clauses


def _old_name(old: Definition, column: Column) -> str | None:
    """What the column was called before, None for a new one."""
    return next((before.name for before in old.shape.columns if before.position == column.position), None)
