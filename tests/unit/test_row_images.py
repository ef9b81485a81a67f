"""An apply reads rows only through the source's codec: it does the same for every format."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.apply import net_changes
from sluice.apply.key_events import WrongKey
from sluice.apply.slave_foreign_keys import in_cascade_order
from sluice.apply.window_runs import CutItem, runs
from sluice.database import xml_images
from sluice.model.change import Action
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition, format_definition
from sluice.verify.offline_compare import images
from tests.unit.changes import TABLE, History
from tests.unit.json_images import JsonImages, as_json
from tests.unit.test_net_changes import EXAMPLES, STEPS, play

JSON = JsonImages()


def parts(changes: Any) -> list[Any]:
    tables = (changes.deletes, changes.updates, changes.moves, changes.inserts)
    return [changes.columns, changes.key, changes.compared, *(table.to_pydict() for table in tables)]


@pytest.mark.long
@EXAMPLES
@given(STEPS, st.sampled_from([("a",), ("b", "a"), ()]), st.booleans())
def test_net_changes_are_the_same(steps: list[Any], key: tuple[str, ...], before: bool) -> None:
    items = play(steps, key or ("a",)).window()
    if not key:
        items = items.set_column(4, "guid", pa.array([""] * items.num_rows, pa.large_string()))
    if not items.num_rows:
        return
    ours = net_changes.reduce(net_changes.events(items, key, xml_images), before=before)
    theirs = net_changes.reduce(net_changes.events(as_json(items), key, JSON), before=before)
    assert parts(theirs) == parts(ours)
    assert net_changes.changed_key_texts(as_json(items), key, JSON) == (
        net_changes.changed_key_texts(items, key, xml_images) if key else set()
    )
    keys = {TableName("s", "t"): key}
    assert list(JSON.changes(as_json(items), keys)) == list(xml_images.changes(items, keys))


def test_changes_of_definitions_cut_the_stream_with_what_they_define() -> None:
    definition = TableDefinition(TableShape(TABLE, (Column("id", "bigint", 1, False, 1),)), complete=True)
    history = History()
    history.insert("1", "a")
    history._item(Action.CREATE, "", format_definition(definition), None)
    history.insert("2", "b")
    found = list(runs(as_json(history.window()), JSON))
    assert [isinstance(run, CutItem) for run in found] == [False, True, False]
    cut = found[1]
    assert isinstance(cut, CutItem)
    assert cut.defined == definition


def test_effects_follow_their_causes() -> None:
    parent, child = TableName("public", "p"), TableName("public", "c")
    rows = History(parent, ("id",)), History(child, ("id", "p"))
    for number in ("1", "2"):
        rows[0].insert(number)
        rows[1].insert(number, number)
    for history in rows:
        history.items.clear()
    rows[0].update(("2",), ("3",))
    rows[0].update(("1",), ("2",))
    rows[1].update(("2", "2"), ("2", "3"))
    rows[1].update(("1", "1"), ("1", "2"))
    items = pa.concat_tables([history.window() for history in rows])
    items = items.set_column(0, "repl_key", pa.array(range(4), pa.int64()))
    items = items.set_column(1, "trans_key", pa.array([7] * 4, pa.int64()))
    keys = {parent: ("id",), child: ("id",)}
    foreign = [ForeignKey(child, parent, "c", "a", ("p",), ("id",))]
    ordered = in_cascade_order(items, keys, foreign, xml_images)
    assert ordered.column("repl_key").to_pylist() == [0, 2, 1, 3]
    assert in_cascade_order(as_json(items), keys, foreign, JSON).column("repl_key").to_pylist() == [0, 2, 1, 3]


def test_rows_of_waiting_changes_are_read() -> None:
    new, old = '{"id": "1", "v": null}', '{"id": "1", "v": "a"}'
    assert images(JSON, "UPDATE", new, '{"v": "a"}') == ("UPDATE", {"id": "1", "v": None}, {"id": "1", "v": "a"})
    assert images(JSON, "DELETE", None, old) == ("DELETE", None, {"id": "1", "v": "a"})
    assert images(JSON, "TRUNCATE", None, None) == ("TRUNCATE", None, None)


def test_rows_without_the_column_of_the_key_are_refused() -> None:
    history = History()
    history.insert("1", "a")
    items = as_json(history.window())
    with pytest.raises(WrongKey):
        net_changes.events(items, ("gone",), JSON)
