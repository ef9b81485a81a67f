"""Sequences of the columns of tables: created on a slave, so that it can be written to after a fail-over."""

from collections.abc import Collection, Sequence

from sluice import sql_files
from sluice.database.schema import FreeSequence, SequenceDefinition
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.types import create_schema


def quoted_name(sequence: SequenceDefinition | FreeSequence) -> str:
    """Its qualified name, for statements."""
    if isinstance(sequence, FreeSequence):
        return quoted(sequence.name.schema, sequence.name.name)
    return quoted(sequence.schema, sequence.name)


def options(sequence: SequenceDefinition | FreeSequence) -> str:
    """The options for CREATE SEQUENCE and for an identity."""
    return (
        f"START WITH {sequence.start} INCREMENT BY {sequence.increment} MINVALUE {sequence.minimum} "
        f"MAXVALUE {sequence.maximum} CACHE {sequence.cache} {'CYCLE' if sequence.cycle else 'NO CYCLE'}"
    )


def read(connection: Session, tables: Sequence[TableName], *, values: bool = True) -> list[SequenceDefinition]:
    """The sequences of columns of `tables`, by table and column. `values`: whether their values are read, which waits
    for sessions that have locked them."""
    rows = connection.execute(
        sql_files.render("postgres", "table_sequences"),
        catalog.pairs(tables) | {"values": values},
    ).fetchall()
    return [SequenceDefinition(TableName(schema, name), *values) for schema, name, *values in rows]


def create(connection: Session, sequence: SequenceDefinition) -> None:
    """Creates the sequence of a default if it is missing; identity columns create their own."""
    if sequence.identity:
        return
    create_schema(connection, sequence.schema)
    connection.execute(
        f"CREATE SEQUENCE IF NOT EXISTS {quoted_name(sequence)} AS {sequence.type} {options(sequence)}".encode()
    )


def free(connection: Session, prefix: Prefix, schemas: Collection[str], *, values: bool = True) -> list[FreeSequence]:
    """The sequences in `schemas` that are no column's default. `values`: as for `read`."""
    statement = sql_files.render("postgres", "failover_sequences", prefix=prefix.lower)
    rows = catalog.rows_with_retries(connection, statement, {"schemas": sorted(schemas), "values": values})
    return [
        FreeSequence(TableName(schema, name), kind, start, increment, minimum, maximum, cache, cycle, last, *who)
        for schema, name, increment, minimum, maximum, last, kind, start, cache, cycle, *who in rows
    ]


def free_statements(sequence: FreeSequence) -> list[str]:
    """Make it where it is absent, and otherwise as the master's is."""
    name = quoted_name(sequence)
    return [
        f"CREATE SEQUENCE IF NOT EXISTS {name} AS {sequence.type} {options(sequence)}",
        f"ALTER SEQUENCE {name} AS {sequence.type} {options(sequence)}",
    ]


def make_free(connection: Session, sequence: FreeSequence) -> None:
    """Makes or alters it, and puts it where the master's is, never back; in the caller's transaction."""
    create_schema(connection, sequence.name.schema)
    for statement in free_statements(sequence):
        connection.execute(statement.encode())
    if sequence.last is None:
        return
    name = quoted_name(sequence)
    row = connection.execute(f"SELECT last_value, is_called FROM {name}".encode()).fetchone()
    assert row is not None
    value, called = row
    if not called or (value < sequence.last if sequence.increment > 0 else value > sequence.last):
        connection.execute(f"SELECT setval({literal(name)}::regclass, {sequence.last})".encode())


def own(connection: Session, sequence: SequenceDefinition) -> None:
    """Makes the column own the sequence, as on the master, so that it is dropped with the column."""
    if sequence.owned and not sequence.identity:
        column = quoted(sequence.table.schema, sequence.table.name, sequence.column)
        connection.execute(f"ALTER SEQUENCE {quoted_name(sequence)} OWNED BY {column}".encode())


def advance(connection: Session, master: Sequence[SequenceDefinition]) -> int:
    """Puts the slave's sequences where the master's are, never back; how many moved.

    A moment's picture: replication does not carry sequences. Sequences that the slave lacks are passed over, and so are
    those that the account may not read on the master, or not read or set on the slave.
    """
    on_slave = {(one.table, one.column): one for one in read(connection, list(dict.fromkeys(s.table for s in master)))}
    moved = 0
    for sequence in master:
        own_sequence = on_slave.get((sequence.table, sequence.column))
        if own_sequence is None or sequence.last is None or not (own_sequence.readable and own_sequence.settable):
            continue
        ahead = own_sequence.last is not None and (
            own_sequence.last >= sequence.last if sequence.increment > 0 else own_sequence.last <= sequence.last
        )
        if not ahead:
            name = literal(quoted_name(own_sequence))
            connection.execute(f"SELECT setval({name}::regclass, {sequence.last})".encode())
            moved += 1
    return moved
