"""Changes as Arrow: typed rows before and after, in whatever mixture they come."""

import pyarrow as pa
import pytest

from sluice.database import xml_images
from sluice.database.column_types import LogicalColumn
from sluice.database.items import ITEMS
from sluice.errors import Terminal
from sluice.feed import arrow_columns, change_read
from sluice.feed.change_read import ChangeSchema
from sluice.model.content import format_row
from sluice.model.logical_type import Kind, LogicalType
from sluice.model.names import TableName
from tests.errors import raises_code

TABLE = TableName("public", "t")
COLUMNS = (
    LogicalColumn("id", LogicalType(Kind.INTEGER, 32), key=True),
    LogicalColumn("v", LogicalType(Kind.TEXT)),
)


def items(
    *changes: tuple[str, dict[str, str | None] | None, dict[str, str | None] | None], table: str = "t"
) -> pa.Table:
    rows = [
        {
            "repl_key": number, "trans_key": 7, "schema": "public", "table": table, "guid": "", "action": action,
            "content": None if new is None else format_row(new.items()),
            "oldcontent": None if old is None else format_row(old.items()),
        }
        for number, (action, new, old) in enumerate(changes, start=1)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, ITEMS)


def read(found: pa.Table, columns: tuple[LogicalColumn, ...] = COLUMNS) -> list[tuple[object, ...]]:
    schema = ChangeSchema(TABLE, columns)
    rows = [row for batch in change_read.batches(found, schema, xml_images, "p") for row in batch.to_pylist()]
    assert all(row["position"] == "p" and row["transaction"] == 7 for row in rows)
    return [(row["repl_key"], row["action"], row["before"], row["after"]) for row in rows]


@pytest.mark.parametrize("times", [1, 50])
def test_each_change_has_the_row_before_and_after_it(times: int) -> None:
    found = read(
        items(
            *[
                ("INSERT", {"id": "1", "v": "a"}, None),
                ("UPDATE", {"id": "2", "v": "a"}, {"id": "1"}),
                ("UPDATE", {"id": "2", "v": None}, {"id": "2", "v": "a"}),
                ("TRUNCATE", None, None),
                ("DELETE", None, {"id": "2", "v": ""}),
            ]
            * times
        )
    )
    assert [row[1:] for row in found[:5]] == [
        ("INSERT", None, {"id": 1, "v": "a"}),
        ("UPDATE", {"id": 1, "v": "a"}, {"id": 2, "v": "a"}),
        ("UPDATE", {"id": 2, "v": "a"}, {"id": 2, "v": None}),
        ("TRUNCATE", None, None),
        ("DELETE", {"id": 2, "v": ""}, None),
    ]
    assert [row[0] for row in found] == list(range(1, 5 * times + 1))


def test_rows_of_an_older_definition_lack_what_came_later() -> None:
    found = read(items(("INSERT", {"id": "1"}, None), ("INSERT", {"id": "2", "v": "x"}, None)))
    assert [row[3] for row in found] == [{"id": 1, "v": None}, {"id": 2, "v": "x"}]


def test_a_column_that_came_later_than_the_query_ends_it_with_the_remedy() -> None:
    with raises_code("unknown-column", match=r"'v' that it had not when the query began\. Start the query again"):
        read(items(("INSERT", {"id": "1", "v": "x"}, None)), COLUMNS[:1])


def test_changes_of_other_tables_are_left_out_and_of_all_are_maps() -> None:
    both = pa.concat_tables([items(("INSERT", {"id": "1"}, None)), items(("DELETE", None, {"x": None}), table="u")])
    assert len(read(both)) == 1
    rows = [
        row for batch in change_read.batches(both, ChangeSchema(None, ()), xml_images, "p") for row in batch.to_pylist()
    ]
    assert [(row["table"], row["before"], row["after"]) for row in rows] == [
        ("t", None, [("id", "1")]),
        ("u", [("x", None)], None),
    ]


def test_values_that_do_not_fit_and_names_that_are_no_columns_are_refused() -> None:
    with raises_code("value-does-not-fit", match=r"Column id \(integer of 32 bits\).*option\(\"texts\", \"id\"\)"):
        read(items(("INSERT", {"id": "x", "v": None}, None)))
    with pytest.raises(Terminal, match="no column 'w'"):
        arrow_columns.schema(COLUMNS, ["w"])
    assert arrow_columns.schema(COLUMNS, ["*"]).types == [pa.string(), pa.string()]


@pytest.mark.parametrize(
    ("logical", "wanted"),
    [
        (LogicalType(Kind.NUMBER, 12, 3), pa.decimal128(12, 3)),
        (LogicalType(Kind.NUMBER), pa.string()),
        (LogicalType(Kind.NUMBER, 39, 0), pa.string()),
        (LogicalType(Kind.NUMBER, 2, 5), pa.string()),
        (LogicalType(Kind.INTEGER, 33), pa.int64()),
        (LogicalType(Kind.FLOAT, 32), pa.float32()),
        (LogicalType(Kind.UUID), pa.string()),
    ],
)
def test_types_that_hold_every_value_are_chosen(logical: LogicalType, wanted: pa.DataType) -> None:
    assert arrow_columns.arrow_type(logical) == wanted
