"""Foreign keys of a PostgreSQL database: between which tables, and what they do by themselves."""

from collections.abc import Iterable

import psycopg

from sluice import sql_files
from sluice.database.apply import Acting
from sluice.database.session import Session
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import native


def read(connection: Session, tables: Iterable[TableName]) -> list[ForeignKey]:
    """Those by which `tables` refer to others, or to themselves. Raises psycopg's errors."""
    wanted = list(tables)
    pairs = ([table.schema for table in wanted], [table.name for table in wanted])
    rows = psycopg.RawCursor(native(connection)).execute(sql_files.render("postgres", "foreign_keys"), pairs)
    return [_key(*row) for row in rows]


def acting(connection: Session) -> list[Acting]:
    """Those of the whole database that act. Raises psycopg's errors."""
    rows = connection.execute(sql_files.render("postgres", "foreign_keys_acting").encode())
    return [Acting(name, definition, _key(*row)) for name, definition, *row in rows]


def _key(
    schema: str, name: str, other: str, parent: str, on_update: str, on_delete: str, mine: list[str], its: list[str]
) -> ForeignKey:
    return ForeignKey(TableName(schema, name), TableName(other, parent), on_update, on_delete, tuple(mine), tuple(its))
