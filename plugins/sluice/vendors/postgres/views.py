"""Views: read on either side, created and dropped on a slave."""

from collections.abc import Sequence

import psycopg

from sluice import sql_files
from sluice.database.following import NotMade
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.model.views import View
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.expressions import Examiner
from sluice.vendors.postgres.types import create_schema

_OTHER_COLUMNS = "42P16"
"""A view is not replaced where a column of it goes, or gets another name or type."""


def read(connection: Session, prefix: Prefix) -> list[View]:
    """All views of the database. Raises psycopg's errors."""
    rows = catalog.rows_with_retries(connection, sql_files.render("postgres", "views", prefix=prefix.lower))
    return [
        View(
            TableName(schema, name), tuple(columns), tuple(types), tuple(options), query,
            tuple(TableName(*read) for read in zip(schemas, names, strict=True)),
        )
        for schema, name, columns, types, options, query, schemas, names in rows
    ]  # fmt: skip


def statement(view: View) -> str:
    """Makes it, or replaces it by one with the same columns and perhaps more."""
    options = f" WITH ({', '.join(view.options)})" if view.options else ""
    columns = f" ({', '.join(quoted(column) for column in view.columns)})" if view.columns else ""
    return f"CREATE OR REPLACE VIEW {_name(view)}{columns}{options} AS {view.query.rstrip(' ;')}"


def drop_statement(name: TableName) -> str:
    return f"DROP VIEW IF EXISTS {quoted(name.schema, name.name)}"


def make(connection: Session, view: View, *, trusted: bool) -> None:
    """Makes or replaces it, in the caller's transaction; readers see the one or the other.

    Where a column is another one, the views that read it go and come back with it. Raises `NotMade` if what it calls
    is not run on the slave unseen, and psycopg's errors.
    """
    create_schema(connection, view.name.schema)
    readers = [reader for reader in view.readers if catalog.exists(connection, _name(reader))]
    try:
        with connection.transaction():
            connection.execute(statement(view).encode())
        views: Sequence[View] = [view]
    except psycopg.Error as error:
        if error.sqlstate != _OTHER_COLUMNS:
            raise
        for old in [*reversed(readers), view]:
            connection.execute(drop_statement(old.name).encode())
        views = [view, *readers]
        for new in views:
            connection.execute(statement(new).encode())
    for each in views:
        _examine(connection, each, trusted=trusted)


def _examine(connection: Session, view: View, *, trusted: bool) -> None:
    row = connection.execute(sql_files.render("postgres", "view_tree"), {"name": _name(view)}).fetchone()
    assert row is not None, "it was made just now"
    if reason := Examiner(connection, trusted=trusted).query(row[0]):
        raise NotMade(f"{view.name}: {reason}")


def _name(view: View) -> str:
    return quoted(view.name.schema, view.name.name)
