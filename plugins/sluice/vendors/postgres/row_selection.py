"""Finds and deletes the parts of a PostgreSQL table that a user names, by keys or by an SQL condition."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from sluice import sql_files
from sluice.database.rows import KeyOrder, NotEvaluated, SelectionInvalid
from sluice.database.session import Session
from sluice.errors import Transient
from sluice.model.blocks import Key
from sluice.model.key_ranges import Match
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.postgres.arrays import array_literal, array_type
from sluice.vendors.postgres.connection import literal, native, quoted
from sluice.vendors.postgres.errors import in_one_line
from sluice.vendors.postgres.key_order import typed, value_text
from sluice.vendors.postgres.source import owner_code

FETCHED_ROWS = 5_000


def key_of(connection: Session, shape: TableShape, text: str) -> Key:
    """The canonical texts of a key that a user wrote: the value itself, or a JSON list with a value for each column.

    Raises `SelectionInvalid`, `OwnerCode`.
    """
    owner_code.expect_none(connection, shape.table)
    names = ", ".join(f"{column.name} {column.type}" for column in shape.key)
    values: list[object] = [text]
    if len(shape.key) > 1:
        try:
            values = json.loads(text)
        except ValueError:
            values = []
        if not isinstance(values, list) or len(values) != len(shape.key):
            raise SelectionInvalid(
                f"{text!r} is no key of {shape.table}: write a JSON list with one value for each of ({names}), such as "
                + json.dumps(["…"] * len(shape.key), ensure_ascii=False)
            )
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    expressions = ", ".join(
        value_text(column.type, f"({typed(column, literal(value))})")
        for column, value in zip(shape.key, texts, strict=True)
    )
    try:
        row = connection.execute(f"SELECT {expressions}".encode()).fetchone()
    except psycopg.DataError as error:
        raise SelectionInvalid(f"{text!r} is no key of {shape.table} ({names}): {in_one_line(error)}") from error
    assert row is not None
    return tuple(row)


def check(connection: Session, order: KeyOrder, where: str, server: str) -> None:
    """Checks a condition. Raises `SelectionInvalid` if this database refuses it, `NotEvaluated`."""
    statement = sql_files.render("postgres", "key_matching", texts="1", source=order.source, where=where)
    table = order.shape.table
    with _evaluating(where, table, server), owner_code.reading(connection, order.shape):
        connection.execute("SET TRANSACTION READ ONLY")
        try:
            # PREPARE checks names and types and executes nothing, so no error shows a value. The protocol of prepared
            # statements accepts only one statement.
            native(connection).execute(f"PREPARE sluice_where AS {statement}".encode(), prepare=True)
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
            raise SelectionInvalid(
                f"where: {where!r} is no condition on {table} at {server}: {in_one_line(error)}"
            ) from error
        connection.execute("DEALLOCATE sluice_where")
        native(connection).execute(f"EXPLAIN {statement}".encode(), prepare=True)


def runs(connection: Session, order: KeyOrder, where: str, lo: Key | None, hi: Key | None) -> Iterator[Match]:
    """The runs of adjacent rows of the master for which `where` holds, in key order, between `lo` and `hi`.

    Each ends at the next row for which it does not hold. Reads the table once. Raises `SelectionInvalid`.
    """
    keys = ", ".join(quoted(column.name) for column in order.shape.key)
    statement = sql_files.render(
        "postgres",
        "key_runs",
        keys=keys,
        texts=_texts(order),
        source=order.source,
        within=order.within(lo, hi),
        where=where,
    )
    begun: Key | None = None
    skipped, ended = 0, 1
    for *key, hit, number in _rows(connection, statement, order, where):
        if hit:
            begun, skipped = tuple(key), number - ended
        elif begun is not None:
            yield Match((begun, tuple(key)), skipped)
            begun, ended = None, number
    if begun is not None:
        yield Match((begun, hi), skipped)


def matching(connection: Session, order: KeyOrder, where: str) -> Iterator[list[Key]]:
    """Yields lists of the keys of the slave's rows for which `where` holds. Raises `SelectionInvalid`."""
    statement = sql_files.render("postgres", "key_matching", texts=_texts(order), source=order.source, where=where)
    some: list[Key] = []
    for row in _rows(connection, statement, order, where):
        some.append(tuple(row))
        if len(some) >= FETCHED_ROWS:
            yield some
            some = []
    if some:
        yield some


def in_order(connection: Session, shape: TableShape, keys: Sequence[Key]) -> list[Key]:
    """`keys` in the order of the master. Raises `OwnerCode`."""
    if len(keys) < 2:
        return list(keys)
    owner_code.expect_none(connection, shape.table)
    names = [f"k{number}" for number in range(1, len(shape.key) + 1)]
    pairs = list(zip(names, shape.key, strict=True))
    statement = sql_files.render(
        "postgres",
        "keys_in_order",
        columns=", ".join(f"unnest(%({name})s::{array_type(column)}) AS {name}" for name, column in pairs),
        typed=", ".join(typed(column, name) for name, column in pairs).replace("%", "%%"),
    )
    parameters: dict[str, object] = {
        name: array_literal([key[index] for key in keys]) for index, name in enumerate(names)
    }
    rows = connection.execute(statement, {**parameters, "texts": len(keys)}).fetchall()
    return [keys[number - 1] for (number,) in rows]


def delete(connection: Session, order: KeyOrder, keys: Sequence[Key]) -> None:
    """Deletes the slave's rows with these keys."""
    pairs = [(f"k{number}", column) for number, column in enumerate(order.shape.key, start=1)]
    columns = ", ".join(f"unnest(%({name})s::{array_type(column)}) AS {name}" for name, column in pairs)
    match = " AND ".join(
        f"t.{quoted(column.name)} OPERATOR({equal}) s.{typed(column, name)}".replace("%", "%%")
        for (name, column), equal in zip(pairs, order.equal, strict=True)
    )
    source = order.source.replace("%", "%%")
    for start in range(0, len(keys), FETCHED_ROWS):
        some = keys[start : start + FETCHED_ROWS]
        parameters = {name: array_literal([key[index] for key in some]) for index, (name, _) in enumerate(pairs)}
        statement = f"DELETE FROM {source} AS t USING (SELECT {columns}) AS s WHERE {match}"
        connection.execute(statement.encode(), parameters)


def _rows(connection: Session, statement: str, order: KeyOrder, where: str) -> Iterator[Sequence[Any]]:
    with _evaluating(where, order.shape.table, "the database"), owner_code.reading(connection, order.shape):
        connection.execute("SET TRANSACTION READ ONLY")
        with native(connection).cursor(name="sluice_parts") as cursor:
            cursor.itersize = FETCHED_ROWS
            cursor.execute(statement.encode())
            yield from cursor


@contextmanager
def _evaluating(where: str, table: TableName, server: str) -> Iterator[None]:
    """Raises errors with their SQLSTATE only, because their texts can show any value that the account may read.

    Raises `SelectionInvalid`, `NotEvaluated`, and psycopg's errors of a lost connection.
    """
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        state = f"SQLSTATE {error.sqlstate}"
        if isinstance(error, Transient):
            raise NotEvaluated(f"{server}: where: {where!r} cannot be evaluated on {table} just now: {state}") from None
        raise SelectionInvalid(
            f"where: {where!r} cannot be evaluated on {table}: {state}. PostgreSQL's documentation lists what the "
            "states mean; the server's log has the error's text, which is not shown here"
        ) from None


def _texts(order: KeyOrder) -> str:
    """The key's texts under new names; under the columns' names ORDER BY would sort by the texts."""
    texts = (value_text(column.type, quoted(column.name)) for column in order.shape.key)
    return ", ".join(f'{text} AS "sluice text {index}"' for index, text in enumerate(texts, start=1))
