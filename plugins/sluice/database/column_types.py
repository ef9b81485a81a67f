"""The logical types of a vendor's column types, and its column types for logical types."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.database.schema import TypeDefinition
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType, LogicalType


@dataclass(frozen=True)
class LogicalColumn:
    """A column, in no vendor's words."""

    name: str
    logical: LogicalType
    key: bool = False
    """Part of the table's key."""


class ColumnTypes(Protocol):
    """The column types of one vendor."""

    def logical(self, type_name: str, defined: Sequence[TypeDefinition] = ()) -> LogicalType:
        """The logical type of a type; `type_name` as the vendor writes it in DDL.

        `defined`: user-defined types of the database to which it may refer. Unknown ones are of the kind OTHER.
        """
        ...

    def made_of(self, connection: Session, columns: Sequence[LogicalColumn]) -> list[ColumnType]:
        """The columns of one table on this server."""
        ...

    def holds(self, own: str, wanted: str) -> bool:
        """Whether a column of the type `own` can hold every value of the type `wanted` unchanged."""
        ...
