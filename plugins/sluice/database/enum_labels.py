"""Labels of enums that the master renamed, for slaves on which a label is a text in each row."""

from collections.abc import Mapping

from sluice.database.column_types import ColumnTypes
from sluice.database.schema import defined_in
from sluice.model.logical_type import Kind
from sluice.model.names import split_qualified
from sluice.model.table_definition import TableDefinition


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
