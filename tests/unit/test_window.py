"""A window that was read: cut at each TRUNCATE and change of a definition, split by table, in order."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.apply.window_runs import CutItem, by_table, pieces, runs
from sluice.database import xml_images
from sluice.database.items import ITEMS
from sluice.model.change import ROW_ACTIONS
from sluice.model.names import TableName

BOUND = "<partition><rows>true</rows></partition>"
NAMES = ("a", "b", 'o"dd', "")
ITEM = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
CUT = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["TRUNCATE", "DELETE WHERE"]))


def items(rows: list[tuple[str, str, str]], chunk: int = 3) -> Any:
    """Items as they come from the master, in several batches."""
    made = [
        {
            "repl_key": number, "trans_key": 1, "schema": schema, "table": table, "guid": str(number),
            "action": action, "content": BOUND if action == "DELETE WHERE" else f"c{number}", "oldcontent": None,
        }
        for number, (schema, table, action) in enumerate(rows)
    ]  # fmt: skip
    parts = [pa.Table.from_pylist(made[at : at + chunk], ITEMS) for at in range(0, len(made), chunk)]
    return pa.concat_tables(parts) if parts else ITEMS.empty_table()


@given(st.lists(ITEM, min_size=1, max_size=40))
def test_each_table_has_its_changes_in_their_order_and_nothing_else(rows: list[tuple[str, str, str]]) -> None:
    found = by_table(items(rows))
    wanted: dict[TableName, list[tuple[int, str]]] = {}
    for number, (schema, table, action) in enumerate(rows):
        wanted.setdefault(TableName(schema, table), []).append((number, action))
    assert {
        table: list(zip(mine["repl_key"].to_pylist(), mine["action"].to_pylist(), strict=True))
        for table, mine in found.items()
    } == wanted
    for mine in found.values():
        assert mine["content"].to_pylist() == [f"c{key}" for key in mine["repl_key"].to_pylist()]
        assert mine.schema == ITEMS


@given(st.lists(st.one_of(ITEM, CUT), max_size=40))
def test_nothing_passes_a_cut(rows: list[tuple[str, str, str]]) -> None:
    seen: list[int] = []
    for run in runs(items(rows), xml_images):
        if isinstance(run, CutItem):
            keys = [run.repl_key]
            assert rows[run.repl_key] == (run.table.schema, run.table.name, str(run.action))
        else:
            keys = sorted(key for mine in run.values() for key in mine["repl_key"].to_pylist())
            assert all(rows[key][2] in ROW_ACTIONS for key in keys)
        assert keys == list(range(len(seen), len(seen) + len(keys)))
        seen += keys
    assert len(seen) == len(rows)


@given(st.lists(ITEM, min_size=1, max_size=20), st.sets(st.integers(0, 19)))
def test_pieces_end_before_each_place(rows: list[tuple[str, str, str]], places: set[int]) -> None:
    whole = items(rows)
    gaps = sorted(places)
    doubled = whole.set_column(0, "repl_key", pa.array([2 * number for number in range(len(rows))], pa.int64()))
    parts = pieces(doubled, [2 * gap + 1 for gap in gaps])
    assert len(parts) == len(gaps) + 1
    assert pa.concat_tables(parts).equals(doubled)
    for part, low, high in zip(parts, [-1, *gaps], [*gaps, len(rows)], strict=True):
        assert all(2 * low + 1 < key < 2 * high + 1 for key in part["repl_key"].to_pylist())


def test_no_items_are_of_no_table() -> None:
    assert by_table(ITEMS.empty_table()) == {}
