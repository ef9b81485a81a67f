"""Creates, empties and drops tables of a PostgreSQL slave.

A slave's table has the master's columns in their order, with types, collations, NOT NULL, identity, generation
expressions and defaults, and the key. It does not have comments, ownership, privileges, storage parameters or user
triggers. A partitioned table becomes a plain one of the same name, because the changes of all partitions have the
root's name; a partition added or dropped on the master needs nothing on the slave. A table of an inheritance tree is
replicated for itself. Identity columns are BY DEFAULT, because their values come from the master. Indexes and other
constraints are made after the load (`sluice.vendors.postgres.target.constraints`).
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

import psycopg

from sluice import sql_files
from sluice.database.load import TouchingForeignKey
from sluice.database.schema import SequenceDefinition, TableDefinition
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres import catalog, sequences
from sluice.vendors.postgres.connection import literal, native, quoted
from sluice.vendors.postgres.errors import in_one_line
from sluice.vendors.postgres.expressions import RESTART_UPDATE, Examiner, ExpressionRefused, row_of, type_of
from sluice.vendors.postgres.target import constraints
from sluice.vendors.postgres.target.alter_plan import column_clause
from sluice.vendors.postgres.types import create_schema

log = logging.getLogger("sluice.load")

TRUNCATED_TOGETHER = 100
"""The most tables of one TRUNCATE: each needs locks, also for its indexes and TOAST, and a server has few."""
LONGEST = 63
"""The most bytes of a name; a server cuts longer ones."""
LOCK_TIMEOUT = "30s"
"""How long emptying waits for readers of the slave before it fails."""


def define(connection: Session, tables: Sequence[TableName]) -> list[TableDefinition]:
    """The definitions of those of `tables` that exist on the master, in the given order."""
    shapes = catalog.shapes(connection, tables)
    keys = constraints.keys(connection, tables)
    behind: dict[TableName, list[SequenceDefinition]] = {}
    for sequence in sequences.read(connection, tables):
        behind.setdefault(sequence.table, []).append(sequence)
    generated: dict[TableName, dict[str, str]] = {}
    for schema, name, column, expression in connection.execute(
        sql_files.render("postgres", "table_generated"), catalog.pairs(tables)
    ).fetchall():
        generated.setdefault(TableName(schema, name), {})[column] = expression
    return [
        TableDefinition(
            shapes[table],
            keys[table][0] if table in keys else None,
            keys[table][1] if table in keys else "i",
            tuple(behind.get(table, ())),
            generated.get(table, {}),
        )
        for table in tables
        if table in shapes
    ]


def create(connection: Session, definition: TableDefinition, *, trusted: bool = False) -> None:
    """Makes an absent table, in the caller's transaction.

    A default that the slave cannot have, because it calls a function that is missing or not trusted, is left out and
    logged: replicated values never need it. `trusted`: any expression may be run. Raises `ExpressionRefused`; the
    transaction is lost then.
    """
    examiner = Examiner(connection, trusted=trusted)
    name = quoted(definition.table.schema, definition.table.name)
    schema_made = create_schema(connection, definition.table.schema)
    definition = _with_sequences_beside(definition)
    shape = definition.shape
    for sequence in definition.sequences:
        sequences.create(connection, sequence)
    identities = {sequence.column: sequence for sequence in definition.sequences if sequence.identity}
    lines = [
        column_clause(
            replace(column, default=definition.generated.get(column.name)),
            native(connection).info.server_version,
            identity=sequences.options(identities[column.name]) if column.name in identities else "",
        )
        for column in shape.columns
    ]
    key = ", ".join(quoted(column.name) for column in shape.key)
    key_name = quoted(definition.key_name) if definition.key_name else ""
    if key_name and catalog.exists(connection, f"{quoted(definition.table.schema)}.{key_name}"):
        # A kept table, which had this one's name before, has the index's name: the server chooses another one.
        key_name = ""
    if definition.key_name and definition.key_kind in "pu":
        word = "PRIMARY KEY" if definition.key_kind == "p" else "UNIQUE"
        lines.append(f"{f'CONSTRAINT {key_name} ' if key_name else ''}{word} ({key})")
    body = ",\n    ".join(lines)
    statement = f"CREATE TABLE {name} (\n    {body}\n)"
    reason = examiner.types([column.type for column in shape.columns])
    row = row_of(column for column in shape.columns if not column.generated)
    for column in shape.columns:
        if column.generated and not reason:
            expression = definition.generated[column.name]
            reason = examiner.evaluated(expression, row, definition.table.name, type_=type_of(column))
    if reason:
        by_hand = f"{schema_made}; {statement}" if schema_made else statement
        raise ExpressionRefused(definition.table, by_hand, reason, again=RESTART_UPDATE)
    connection.execute(statement.encode())
    if definition.key_name and definition.key_kind == "i":
        connection.execute(f"CREATE UNIQUE INDEX {key_name} ON {name} ({key})".encode())
    for column in shape.columns:
        if column.default is not None and not column.generated:
            _set_default(connection, examiner, definition, column)
    for sequence in definition.sequences:
        sequences.own(connection, sequence)


def _with_sequences_beside(definition: TableDefinition) -> TableDefinition:
    """Moves its sequences to the schema of the table, which may be another than on the master, as the server demands.

    A sequence of a renamed table is named after it, as two tables of one name may come from two schemas.
    """
    table = definition.table
    if table.on_master == table:
        return definition
    moved: dict[str, SequenceDefinition] = {}
    for sequence in definition.sequences:
        if sequence.owned and not sequence.identity:
            name = sequence.name if table.name == table.on_master.name else f"{table.name}_{sequence.column}_seq"
            moved[sequence.column] = replace(sequence, schema=table.schema, name=_shortened(name))
    columns = tuple(
        replace(column, default=f"nextval({literal(sequences.quoted_name(moved[column.name]))}::regclass)")
        if column.name in moved and column.default is not None
        else column
        for column in definition.shape.columns
    )
    others = tuple(moved.get(sequence.column, sequence) for sequence in definition.sequences)
    return replace(definition, shape=replace(definition.shape, columns=columns), sequences=others)


def _shortened(name: str) -> str:
    """A name that the server accepts, a different one for each `name`."""
    if len(name.encode()) <= LONGEST:
        return name
    return f"{name.encode()[: LONGEST - 17].decode(errors='ignore')}_{sha256(name.encode()).hexdigest()[:16]}"


def create_scratch(connection: Session, like: TableShape) -> TableName:
    """Makes a temporary table of this session with these columns; one a session."""
    name = "sluice_scratch"
    columns = ", ".join(f"{quoted(column.name)} {type_of(column)}" for column in like.columns)
    connection.execute(f"CREATE TEMPORARY TABLE {quoted(name)} ({columns})".encode())
    (schema,) = connection.execute(b"SELECT pg_catalog.pg_my_temp_schema()::regnamespace::text").fetchall()[0]
    return TableName(schema, name)


def drop(connection: Session, table: TableName) -> None:
    """Drops a table that this update made, in the caller's transaction."""
    connection.execute(f"DROP TABLE IF EXISTS {quoted(table.schema, table.name)}".encode())


def empty(connection: Session, shapes: Sequence[TableShape]) -> None:
    """Deletes all rows of these tables of the slave, over a session in autocommit.

    Tables that refer to each other are truncated together, others in groups. Uses DELETE if the account may not
    TRUNCATE. Cascades to no other table. Raises psycopg's errors.
    """
    only = {shape.table: "" if shape.partitioned else "ONLY " for shape in shapes}
    tables = list(only)
    keys = foreign_keys(connection, tables)
    bound = {table for key in keys for table in (key.child, key.parent) if key.child_loaded and key.parent_loaded}
    groups = [[table for table in tables if table in bound]]
    free = [table for table in tables if table not in bound]
    groups += [free[start : start + TRUNCATED_TOGETHER] for start in range(0, len(free), TRUNCATED_TOGETHER)]
    for group in groups:
        if not group:
            continue
        # ONLY: tables that inherit from one are replicated for themselves, or not at all.
        names = [only[table] + quoted(table.schema, table.name) for table in group]
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                connection.execute(f"TRUNCATE {', '.join(names)}".encode())
        except psycopg.errors.InsufficientPrivilege:
            with connection.transaction():
                connection.execute("SET CONSTRAINTS ALL DEFERRED")
                for name in names:
                    connection.execute(f"DELETE FROM {name}".encode())


def foreign_keys(connection: Session, tables: Sequence[TableName]) -> list[TouchingForeignKey]:
    """The slave's foreign keys from or to any of `tables`."""
    rows = connection.execute(sql_files.render("postgres", "foreign_keys_touching"), catalog.pairs(tables)).fetchall()
    return [
        TouchingForeignKey(TableName(schema, child), name, TableName(other, parent), child_loaded, parent_loaded)
        for schema, child, name, other, parent, child_loaded, parent_loaded in rows
    ]


def with_unique_values(connection: Session, tables: Sequence[TableName]) -> set[TableName]:
    """Those of `tables` that have unique indexes beside the primary key."""
    rows = connection.execute(sql_files.render("postgres", "table_indexes"), catalog.pairs(tables)).fetchall()
    return {TableName(row[0], row[1]) for row in rows if (row[3] or row[6] == "x") and not row[8]}


def filled(connection: Session, table: TableName) -> bool:
    """Whether the table exists on the slave and has rows."""
    if catalog.shape(connection, table) is None:
        return False
    row = connection.execute(f"SELECT EXISTS (SELECT FROM {quoted(table.schema, table.name)})".encode()).fetchone()
    return bool(row and row[0])


def refusals(connection: Session, definitions: Sequence[TableDefinition]) -> dict[TableName, str]:
    """Those with names that only a master of another vendor has: this one creates all others as they are."""
    found = {each.table: too_long(each.shape) for each in definitions}
    remedy = "give the columns other names there, by columns: {NAME: {rename: OTHER}} of the table"
    return {table: f"{fault}; {remedy}" for table, fault in found.items() if fault}


def too_long(shape: TableShape) -> str:
    """Which names of columns a server would cut; empty if none."""
    names = [column.name for column in shape.replicated if len(column.name.encode()) > LONGEST]
    return f"{', '.join(map(repr, names))}: names of columns have at most {LONGEST} bytes there" if names else ""


def not_tables(connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
    """Those of `tables` whose name the slave uses for another object, such as a view → what it is."""
    rows = connection.execute(sql_files.render("postgres", "names_taken"), catalog.pairs(tables)).fetchall()
    taken = {TableName(schema, name): what for schema, name, what in rows}
    why = f"a name of more than {LONGEST} bytes, which no table has"
    long = [table for table in tables if max(len(table.schema.encode()), len(table.name.encode())) > LONGEST]
    return taken | dict.fromkeys(long, why)


def missing_privileges(connection: Session, tables: Iterable[TableName]) -> dict[TableName, str]:
    """Table → privileges that this account lacks on it, e.g. `INSERT, DELETE`."""
    listed = list(tables)
    rows = connection.execute(sql_files.render("postgres", "privileges_lacking"), catalog.pairs(listed)).fetchall()
    return {TableName(schema, name): ", ".join(lacking) for schema, name, lacking in rows}


def analyze(connection: Session, table: TableName) -> None:
    """Gathers statistics of the new rows for the slave's planner."""
    connection.execute(f"ANALYZE {quoted(table.schema, table.name)}".encode())


def _set_default(connection: Session, examiner: Examiner, definition: TableDefinition, column: Column) -> None:
    name = quoted(definition.table.schema, definition.table.name)
    statement = f"ALTER TABLE {name} ALTER COLUMN {quoted(column.name)} SET DEFAULT {column.default}"
    try:
        reason = examiner.default(str(column.default), column)
        if not reason:
            with connection.transaction():
                connection.execute(statement.encode())
    except psycopg.ProgrammingError as error:
        reason = in_one_line(error)
    if reason:
        log.warning(
            "%s.%s: default left out on the slave: %s. The statement was: %s",
            definition.table,
            column.name,
            reason,
            statement,
        )
