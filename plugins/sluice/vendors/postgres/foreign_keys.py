"""Reads foreign keys of a PostgreSQL database."""

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from sluice import sql_files
from sluice.database.apply import Acting
from sluice.database.session import Session
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import native


def read(connection: Session, tables: Iterable[TableName]) -> list[ForeignKey]:
    """The foreign keys of `tables`. Raises psycopg's errors."""
    listed = list(tables)
    pairs = ([table.schema for table in listed], [table.name for table in listed])
    rows = psycopg.RawCursor(native(connection)).execute(sql_files.render("postgres", "foreign_keys"), pairs)
    return [_key(row) for row in rows]


def acting(connection: Session) -> list[Acting]:
    """The foreign keys of the database whose actions change or delete rows. Raises psycopg's errors."""
    rows = connection.execute(sql_files.render("postgres", "foreign_keys_acting").encode())
    return [Acting(name, definition, _key(row)) for name, definition, *row in rows]


def _key(row: Sequence[Any]) -> ForeignKey:
    schema, name, parent_schema, parent, on_update, on_delete, columns, parent_columns = row
    child, parent_table = TableName(schema, name), TableName(parent_schema, parent)
    return ForeignKey(child, parent_table, on_update, on_delete, tuple(columns), tuple(parent_columns))
