"""What a vendor's column types mean, and what it makes of columns of another vendor."""

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
        """What the values of a type are; `type_name` as the vendor writes it in DDL.

        `defined`: types of the database's own that it may name. Unknown ones are of the kind OTHER.
        """
        ...

    def made_of(self, connection: Session, columns: Sequence[LogicalColumn]) -> list[ColumnType]:
        """What the columns of one table become on this server."""
        ...

    def holds(self, own: str, wanted: str) -> bool:
        """Whether a column of the type `own` takes every value of the type `wanted` without changing or refusing it."""
        ...
