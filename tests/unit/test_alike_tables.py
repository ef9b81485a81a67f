"""Tables of the same columns and key are reduced together, to the same net changes as one by one."""

import pickle
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.apply import alike_tables, net_changes
from sluice.apply.window_runs import Run
from sluice.database import xml_images
from sluice.database.net_changes import KINDS, NetChanges
from sluice.model.names import TableName
from tests.examples import examples
from tests.unit.changes import History

ID = st.sampled_from(["1", "2", "3", "4"])
TEXT = st.sampled_from([None, "", "a", "]]>", "<&", '"', "\\"])
STEPS = st.lists(st.tuples(st.sampled_from(["insert", "delete", "update", "key"]), ID, ID, TEXT), max_size=12)
SHAPES = st.sampled_from([(("id", "v"), ("id",)), (("id", "v"), ()), (("id", "w"), ("id",)), (("v", "id"), ("id",))])


def history(name: str, columns: tuple[str, ...], key: tuple[str, ...], steps: list[Any]) -> History:
    made = History(TableName("public", name), columns, key)
    place = columns.index("id")

    def row(found: str, text: str | None) -> tuple[str | None, ...]:
        return (found, text) if place == 0 else (text, found)

    for what, one, other, text in steps:
        mine = next((each for each in made.rows if each[place] == one), None)
        taken = any(each[place] == other for each in made.rows)
        if mine is None:
            made.insert(*row(one, text))
        elif what == "delete":
            made.delete(*mine)
        elif what == "update" or (what == "key" and not taken):
            made.update(mine, row(other if what == "key" else one, text))
    return made


def rows(changes: NetChanges, kind: str) -> list[dict[str, Any]]:
    """The rows with every old image, also equal ones."""
    table = getattr(changes, kind)
    beside = [number for number, name in enumerate(changes.columns, start=1) if name not in changes.key]
    images = (
        {f"b{number}": f"c{number}" for number in beside} if changes.compared and kind in ("updates", "moves") else {}
    )
    return [{**{old: row[new] for old, new in images.items()}, **row} for row in table.to_pylist()]


def one_by_one(run: Run, keys: dict[TableName, tuple[str, ...]], compared: bool, safe: bool) -> dict[TableName, Any]:
    return {
        table: net_changes.reduce(net_changes.events(items, keys[table], xml_images), before=compared, safe=safe)
        for table, items in run.items()
    }


@pytest.mark.long
@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(SHAPES, STEPS, st.integers(0, 4)), min_size=2, max_size=6),
    st.sampled_from(["compared", "not compared", "safe"]),
)
def test_net_changes_are_those_of_each_table_by_itself(tables: list[Any], mode: str) -> None:
    compared, safe = mode == "compared", mode == "safe"
    run: Run = {}
    keys = {}
    for number, ((columns, key), steps, start) in enumerate(tables):
        made = history(f"t{number}", columns, key, steps)
        if len(made.items) > start:
            keys[made.table], run[made.table] = key, made.window(start)
    with mock.patch.object(xml_images, "FEW", 0), mock.patch.object(alike_tables, "MOST_TOGETHER", 20):
        found = alike_tables.reduced(run, keys, xml_images, compares=lambda table: compared, safe=safe)
        wanted = one_by_one(run, keys, compared, safe)
    for table, changes in found.items():
        alone = wanted[table]
        assert (changes.table, changes.columns, changes.key) == (alone.table, alone.columns, alone.key)
        assert (changes.changes, changes.compared) == (alone.changes, alone.compared)
        assert all(rows(changes, kind) == rows(alone, kind) for kind in KINDS)


def filled(name: str, columns: tuple[str, ...] = ("id", "v"), key: tuple[str, ...] = ("id",)) -> History:
    return history(name, columns, key, [("insert", str(number), "", "text") for number in range(50)])


def reduced(tables: list[History], **options: Any) -> dict[str, NetChanges]:
    run = {made.table: made.window() for made in tables}
    keys = {made.table: made.key for made in tables}
    found = alike_tables.reduced(run, keys, xml_images, compares=lambda table: True, safe=False, **options)
    return {table.name: changes for table, changes in found.items()}


def test_only_tables_of_the_same_columns_and_key_go_together() -> None:
    tables = [filled("a"), filled("b"), filled("c", ("id", "w")), filled("d", key=()), filled("e", ("v", "id"))]
    assert set(reduced(tables)) == {"a", "b"}


def test_many_changes_of_a_table_are_reduced_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike_tables, "MOST_OF_ONE", 49)
    assert reduced([filled("a"), filled("b")]) == {}


def test_a_table_that_cannot_be_reduced_leaves_all_like_it_to_be_reduced_one_by_one() -> None:
    broken = filled("b")
    broken.items[30]["content"] = "no row"
    assert reduced([filled("a"), broken, filled("c")]) == {}
    other_key = filled("b")
    for item in other_key.items:
        item["guid"] = f"other {item['guid']}"
    assert set(reduced([filled("a"), other_key, filled("c")])) == {"a", "c"}
    silent = filled("b")
    silent.update(("1", "text"), ("1", "new"))
    silent.items[-1]["oldcontent"] = None
    assert reduced([filled("a"), silent, filled("c")]) == {}


def test_a_table_alone_brings_none_of_the_others_along() -> None:
    found = reduced([filled(f"t{number}") for number in range(40)])["t7"]
    whole, alone = (len(pickle.dumps(each)) for each in (found, alike_tables.alone(found)))
    assert alone * 5 < whole
    assert alike_tables.alone(found).inserts.equals(found.inserts)
    assert isinstance(found.inserts, pa.Table)
