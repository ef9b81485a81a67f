"""Column types of this server (`sluice.database.column_types.ColumnTypes`)."""

from collections.abc import Sequence

from sluice.database.column_types import LogicalColumn
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType
from sluice.vendors.mysql import column_types
from sluice.vendors.mysql.column_types import holds, logical  # noqa: F401
from sluice.vendors.mysql.connection import native


def made_of(connection: Session, columns: Sequence[LogicalColumn]) -> list[ColumnType]:
    """The columns of one table on the session's server."""
    return column_types.made_of(columns, mariadb=native(connection).mariadb)
