"""Which rows of a slave have labels that were renamed on the master."""

from sluice.database.column_types import renamed
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import DomainType, EnumType, TableDefinition
from sluice.vendors.postgres import column_types

TYPES = {"id": "integer", "Mood": 'public."Mood"', "felt": "public.felt", "all": 'public."Mood"[]', "other": "public.o"}


def definition(*labels: tuple[int, str], name: str = "Mood") -> TableDefinition:
    columns = tuple(Column(column, type_, place) for place, (column, type_) in enumerate(TYPES.items(), 1))
    return TableDefinition(
        TableShape(TableName("public", "t"), columns),
        enums=(EnumType("public", name, labels), EnumType("public", "o", ((9, "one"),))),
        domains=(DomainType("public", "felt", 'public."Mood"'),),
    )


def test_a_label_that_keeps_its_number_is_renamed_in_each_column_that_has_it_as_a_text() -> None:
    old, new = definition((1, "sad"), (2, "ok")), definition((1, "it's sad"), (3, "between"), (2, "ok"))
    assert renamed(column_types, old, new) == {"Mood": {"sad": "it's sad"}, "felt": {"sad": "it's sad"}}


def test_labels_may_change_places() -> None:
    found = renamed(column_types, definition((1, "a"), (2, "b")), definition((1, "b"), (2, "a")))
    assert found["Mood"] == {"a": "b", "b": "a"}


def test_added_labels_and_renamed_types_rename_no_label() -> None:
    old = definition((1, "a"), name="formerly")
    assert renamed(column_types, old, definition((1, "a"), (2, "b"))) == {}
