"""The logical types of a vendor's column types, and its column types for logical types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.database.schema import TypeDefinition, defined_in
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType, Kind, LogicalType
from sluice.model.names import split_qualified
from sluice.model.table_definition import TableDefinition


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

    def holds(self, own: str, needed: str) -> bool:
        """Whether a column of the type `own` can hold every value of the type `needed` unchanged."""
        ...


# Labels of enums that the master renamed, for slaves on which a label is a text in each row.


def renamed(of_master: ColumnTypes, old: TableDefinition, new: TableDefinition) -> dict[str, Mapping[str, str]]:
    """For each column whose enum has other labels in `new`: the new name of each former label."""
    former = {number: label for enum in old.enums for number, label in enum.labels}
    renamed: dict[tuple[str, ...], dict[str, str]] = {
        (enum.schema, enum.name): {
            former[number]: label for number, label in enum.labels if former.get(number, label) != label
        }
        for enum in new.enums
    }
    defined = defined_in(new)
    columns: dict[str, Mapping[str, str]] = {}
    for column in new.shape.replicated:
        logical = of_master.logical(column.type, defined)
        labels = renamed.get(tuple(split_qualified(logical.name))) if logical.kind is Kind.ENUM else None
        if labels:
            columns[column.name] = labels
    return columns
