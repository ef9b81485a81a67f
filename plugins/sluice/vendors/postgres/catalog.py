"""Reads tables from PostgreSQL's catalogue."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg

from sluice import sql_files
from sluice.database.rows import Estimate
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres.connection import quoted

_TRIES = 5


def shapes(connection: Session, tables: Iterable[TableName]) -> dict[TableName, TableShape]:
    """The shapes of those of `tables` that exist, in one statement.

    The key is the primary key, otherwise a unique index that is immediate, plain and all NOT NULL, of several the one
    with the fewest and first columns; never one with a generated column.
    """
    listed = list(dict.fromkeys(tables))
    rows = connection.execute(
        sql_files.render("postgres", "shapes"),
        pairs(listed),
    ).fetchall()
    columns: dict[TableName, list[Column]] = {}
    partitioned: dict[TableName, bool] = {}
    for schema, name, is_partitioned, *values in rows:
        table = TableName(schema, name)
        partitioned[table] = is_partitioned
        # A table without columns gives one row with NULLs.
        columns.setdefault(table, []).extend([Column(*values)] if values[0] is not None else [])
    return {table: TableShape(table, tuple(of_table), partitioned[table]) for table, of_table in columns.items()}


def shape(connection: Session, table: TableName) -> TableShape | None:
    """The shape of one table, None when it does not exist."""
    return shapes(connection, [table]).get(table)


def tables(connection: Session) -> list[TableName]:
    """All ordinary and partitioned tables outside the system's schemas, without partitions."""
    rows = connection.execute(sql_files.render("postgres", "tables")).fetchall()
    return [TableName(schema, name) for schema, name in rows]


def only(shape: TableShape) -> str:
    """The table for FROM, without tables that inherit from it, which are replicated for themselves."""
    # The rows of a partitioned table are in its partitions, which are not replicated for themselves.
    return f"{'' if shape.partitioned else 'ONLY '}{quoted(shape.table.schema, shape.table.name)}"


def exists(connection: Session, relation: str) -> bool:
    """Whether a relation of this quoted name exists."""
    row = connection.execute(sql_files.render("postgres", "relation_exists"), {"relation": relation}).fetchone()
    return bool(row and row[0])


def rows_with_retries(connection: Session, statement: str, parameters: Mapping[str, object] | None = None) -> list[Any]:
    """The rows of a query of the catalogue.

    Repeats it after an internal error, which PostgreSQL raises for an object that is dropped while it writes out the
    object's definition, and after a deadlock with DDL, as the definition of a view locks what it reads.
    """
    left = _TRIES
    while True:
        try:
            with connection.transaction():
                return connection.execute(statement, parameters).fetchall()
        except (psycopg.errors.InternalError_, psycopg.errors.DeadlockDetected):
            left -= 1
            if not left:
                raise


def pairs(tables: Sequence[TableName]) -> dict[str, list[str]]:
    """`tables` as the parameters `schemas` and `names` of statements that take many."""
    return {"schemas": [table.schema for table in tables], "names": [table.name for table in tables]}


def locked(connection: Session, tables: Sequence[TableName]) -> set[TableName]:
    """Those of `tables` that nobody can read, because a session has locked them or waits to."""
    rows = connection.execute(sql_files.render("postgres", "tables_locked"), pairs(tables)).fetchall()
    return {TableName(schema, name) for schema, name in rows}


def primary_key(connection: Session, table: TableName) -> tuple[str, list[str]] | None:
    """The name of the primary key's constraint, and its columns in their order; None without one."""
    row = connection.execute(
        "SELECT x.conname, array_agg(a.attname::text ORDER BY array_position(x.conkey, a.attnum)) "
        "FROM pg_catalog.pg_constraint x "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = ANY (x.conkey) "
        "WHERE x.contype = 'p' AND x.conrelid = to_regclass(%s) GROUP BY x.conname",
        [quoted(table.schema, table.name)],
    ).fetchone()
    return None if row is None else (row[0], row[1])


# How large a PostgreSQL table is, from statistics.


def estimates(connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
    """One entry for each of `tables` that exists. Raises psycopg's errors."""
    rows = connection.execute(
        sql_files.render("postgres", "estimates"),
        pairs(tables),
    ).fetchall()
    return {TableName(schema, name): Estimate(count, size) for schema, name, count, size in rows}
