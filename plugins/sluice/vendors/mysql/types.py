"""Column types of this server (`sluice.database.column_types.ColumnTypes`)."""

from collections.abc import Sequence
from dataclasses import replace

from sluice.database.column_types import LogicalColumn
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType
from sluice.vendors.mysql import column_types
from sluice.vendors.mysql.column_types import holds, logical
from sluice.vendors.mysql.connection import native

__all__ = ["holds", "logical", "made_of"]

UUID_SINCE = (10, 7, 0)


def made_of(connection: Session, columns: Sequence[LogicalColumn]) -> list[ColumnType]:
    """What the columns of one table become on the session's server."""
    session = native(connection)
    made = column_types.made_of(columns, mariadb=session.mariadb)
    if session.mariadb and session.version < UUID_SINCE:
        return [replace(each, type="char(36)") if each.type == "uuid" else each for each in made]
    return made
