"""The name of a loader's job: its first block, and the estimated number of blocks."""

from typing import Any

from sluice.load.progress import TableLoad, next_block
from sluice.model.names import TableName

NONE = {"planned": 0, "begun": 0, "stored": 0, "rows": 0, "bytes": 0, "rows_per_second": 0.0, "estimate": None}


def table(name: str, **values: Any) -> TableLoad:
    return TableLoad(TableName("public", name), **{**NONE, **values})


def test_a_table_that_nobody_has_begun_has_as_many_blocks_as_its_statistics_say() -> None:
    fresh = table("orders", planned=1, estimate=2_000_000)
    assert next_block([fresh], 0, 50_000) == "public.orders 1/40"
    assert next_block([fresh], 3, 50_000) == "public.orders 4/40"
    assert next_block([table("orders", planned=1)], 0, 50_000) == "public.orders 1/1"


def test_blocks_that_are_stored_say_how_large_they_are() -> None:
    half = table("orders", planned=1, begun=1, stored=10, rows=1_000_000, estimate=4_000_000)
    assert next_block([half], 0, 50_000) == "public.orders 12/40"
    exported = table("orders", planned=1, begun=1, exported=10, rows=1_000_000, estimate=4_000_000)
    assert next_block([exported], 0, 50_000) == "public.orders 12/40"


def test_the_first_table_with_something_left_is_named_and_no_other() -> None:
    tables = [
        table("done", stored=3, rows=9),
        table("read", begun=1),
        table("next", planned=1),
        table("last", planned=1),
    ]
    assert next_block(tables, 0, 10) == "public.next 1/1"
    assert next_block(tables[:2], 0, 10) == ""


def test_later_loaders_begin_with_the_next_table_if_there_are_few_blocks() -> None:
    tables = [table("small", planned=1, estimate=5), table("orders", planned=1, estimate=100)]
    found = [next_block(tables, ahead, 50) for ahead in range(4)]
    assert found == ["public.small 1/1", "public.orders 1/2", "public.orders 2/2", ""]


def test_an_import_knows_all_its_blocks() -> None:
    carried = table("orders", planned=0, begun=2, stored=9, exported=29, rows=900, estimate=1_000_000)
    assert next_block([carried], 0, 50, imports=True) == "public.orders 12/40"
    assert next_block([table("orders", planned=3, stored=2)], 0, 50, imports=True) == ""
