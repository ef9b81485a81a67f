"""For any history of a table, the net changes of a window turn its state before into its state after."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.apply import net_changes
from sluice.database import xml_images
from sluice.database.net_changes import NetChanges
from sluice.database.row_images import MixedShapes
from sluice.model.guid import key_text
from sluice.model.names import TableName
from tests.errors import raises_code
from tests.examples import examples
from tests.unit.changes import History, Values

KEY = st.sampled_from(["1", "2", "3", "4"])
OTHER = st.sampled_from(["x", "y:1", ""])
TEXT = st.sampled_from([None, "", "a", "]]>", "<&", "\n"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "delete", "update", "key"]), KEY, OTHER, KEY, OTHER, TEXT), max_size=40
)


EXAMPLES = settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True, params=["few", "many"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both readers of contents: rows parsed at once and in pieces."""
    monkeypatch.setattr(xml_images, "FEW", 1000 if request.param == "few" else 0)
    monkeypatch.setattr(net_changes, "PIECE", 1000 if request.param == "few" else 3)


def play(steps: list[Any], key: tuple[str, ...]) -> History:
    history = History(TableName("s", "t"), ("a", "b", "v"), key)

    def holder(a: str, b: str) -> Values | None:
        return next((row for row in history.rows if row[0] == a and (len(key) == 1 or row[1] == b)), None)

    for what, a, b, a2, b2, v in steps:
        row = holder(a, b)
        if what == "insert" and row is None:
            history.insert(a, b, v)
        elif row is None:
            continue
        elif what == "delete":
            history.delete(*row)
        elif what == "update":
            history.update(row, (row[0], b2 if len(key) == 1 else row[1], v))
        elif holder(a2, b2) is None:
            history.update(row, (a2, b2, v))
    return history


def rows_of(table: pa.Table, letter: str) -> list[tuple[Any, ...]]:
    names = [name for name in table.column_names if name[0] == letter and name != "copies"]
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def beside_key(row: Values, place: list[int]) -> Values:
    return tuple(value for number, value in enumerate(row) if number not in place)


def images_of(changes: NetChanges, table: Any) -> list[Values]:
    """The old values of the columns beside the key: of `c` if there is no `b`."""
    if not changes.compared or not table.num_rows:
        return [()] * table.num_rows
    beside = [number for number, name in enumerate(changes.columns, start=1) if name not in changes.key]
    found = [f"b{number}" if f"b{number}" in table.column_names else f"c{number}" for number in beside]
    return list(zip(*(table.column(name).to_pylist() for name in found), strict=True))


def apply(changes: NetChanges, before: list[Values]) -> list[Values]:
    """The state after, checking that every change matches the rows."""
    place = [("a", "b", "v").index(name) for name in changes.key]
    rows = {tuple(row[p] for p in place): row for row in before}
    for kind in ("deletes", "moves"):
        table = getattr(changes, kind)
        for key, image in zip(rows_of(table, "k"), images_of(changes, table), strict=True):
            found = rows.pop(key)
            assert not changes.compared or beside_key(found, place) == image
    for row, image in zip(rows_of(changes.updates, "c"), images_of(changes, changes.updates), strict=True):
        found = rows[tuple(row[p] for p in place)]
        assert not changes.compared or beside_key(found, place) == image
        rows[tuple(row[p] for p in place)] = row
    for row in rows_of(changes.moves, "c") + rows_of(changes.inserts, "c"):
        assert tuple(row[p] for p in place) not in rows
        rows[tuple(row[p] for p in place)] = row
    return list(rows.values())


def state_at(history: History, stop: int, steps: list[Any], key: tuple[str, ...]) -> list[Values]:
    """The rows after the first `stop` items."""
    for count in range(len(steps) + 1):
        shorter = play(steps[:count], key)
        if len(shorter.items) == stop:
            return list(shorter.rows)
    raise AssertionError(stop)


@EXAMPLES
@given(STEPS, st.sampled_from([("a",), ("a", "b"), ("b", "a")]), st.booleans(), st.data())
def test_any_window_leads_from_its_start_to_its_end(
    steps: list[Any], key: tuple[str, ...], before: bool, data: st.DataObject
) -> None:
    history = play(steps, key)
    start = data.draw(st.integers(0, len(history.items)))
    stop = data.draw(st.integers(start, len(history.items)))
    window = history.window(start, stop)
    if not window.num_rows:
        return
    chunk = data.draw(st.integers(1, 10))
    window = pa.concat_tables([window.slice(at, chunk) for at in range(0, stop - start, chunk)])
    changes = net_changes.reduce(net_changes.events(window, key, xml_images), before=before)
    old, new = state_at(history, start, steps, key), state_at(history, stop, steps, key)
    assert sorted(apply(changes, old), key=repr) == sorted(new, key=repr)
    assert changes.changes == stop - start
    assert changes.compared == before


def test_old_images_travel_only_where_they_differ() -> None:
    history = History(columns=("id", "v", "w", "x"))
    for number in ("1", "2"):
        history.insert(number, "v", "w", None)
    at = len(history.items)
    history.update(("1", "v", "w", None), ("1", "v", "w2", None))
    history.update(("2", "v", "w", None), ("2", "v2", "w", None))
    history.update(("2", "v2", "w", None), ("2", "v", "w", None))
    changes = net_changes.reduce(net_changes.events(history.window(at), ("id",), xml_images), before=True)
    assert changes.updates.column_names == ["c1", "c2", "c3", "c4", "b3"]
    assert changes.updates.column("b3").to_pylist() == ["w", "w"]
    history.delete("1", "v", "w2", None)
    changes = net_changes.reduce(net_changes.events(history.window(at), ("id",), xml_images), before=True)
    assert changes.deletes.to_pylist() == [{"k1": "1", "b2": "v", "b3": "w", "b4": None}]
    assert not [name for name in changes.updates.column_names if name[0] == "b"]


def test_nothing_is_compared_where_the_former_values_are_not_known() -> None:
    """As for rows that a change of the table's definition rewrote."""
    history = History()
    history.insert("1", "v")
    history.update(("1", "v"), ("1", "w"))
    history.items[-1]["oldcontent"] = None
    history.delete("1", "w")
    for start in (1, 2):
        changes = net_changes.reduce(net_changes.events(history.window(start), ("id",), xml_images), before=True)
        assert (changes.compared, "b2" in changes.deletes.column_names) == (start == 2, start == 2)


@EXAMPLES
@given(STEPS, st.sampled_from([("a",), ("a", "b")]), st.data())
def test_keys_whose_block_is_read_later_can_be_left_out(
    steps: list[Any], key: tuple[str, ...], data: st.DataObject
) -> None:
    """Dropping changes of some keys by marker does not affect others."""
    history = play(steps, key)
    if not history.items:
        return
    found = net_changes.events(history.window(), key, xml_images)
    dropped = set(data.draw(st.lists(st.sampled_from(sorted(set(found.guid.to_pylist()))))))
    keep = np.array([guid not in dropped for guid in found.guid.to_pylist()])
    changes = net_changes.reduce(found, keep)

    def kept(row: Values) -> bool:
        return key_text(dict(zip(("a", "b", "v"), row, strict=True)), key) not in dropped

    assert sorted(apply(changes, []), key=repr) == sorted(filter(kept, history.rows), key=repr)
    # The same, by way of the items that a replay would get.
    items = net_changes.kept_items(found, keep)
    assert items.column("repl_key").to_pylist() == sorted(items.column("repl_key").to_pylist())
    if items.num_rows:
        again = net_changes.reduce(net_changes.events(items, key, xml_images))
        assert sorted(apply(again, []), key=repr) == sorted(filter(kept, history.rows), key=repr)


@EXAMPLES
@given(STEPS, st.sampled_from([("a",), ("a", "b")]), st.integers(1, 3))
def test_shares_and_entangled_keys_together_are_the_whole(steps: list[Any], key: tuple[str, ...], parts: int) -> None:
    history = play(steps, key)
    items = history.window()
    apart = net_changes.changed_key_texts(items, key, xml_images)
    rows = items.to_pylist()
    driver = pa.Table.from_pylist(
        [row for row in rows if row["guid"] is None or row["guid"] in apart], schema=items.schema
    )
    shares = [
        pa.Table.from_pylist(
            [row for row in rows if row["guid"] is not None and hash(row["guid"]) % parts == number],
            schema=items.schema,
        )
        for number in range(parts)
    ]
    state: list[Values] = []
    for share in [driver, *(net_changes.without(share, apart) for share in shares)]:
        if share.num_rows:
            state = apply(net_changes.reduce(net_changes.events(share, key, xml_images)), state)
    assert sorted(state, key=repr) == sorted(history.rows, key=repr)


@EXAMPLES
@given(st.lists(st.tuples(st.sampled_from(["insert", "delete", "update"]), KEY, TEXT, TEXT), max_size=30), st.data())
def test_rows_without_a_key_are_counted(steps: list[Any], data: st.DataObject) -> None:
    history = History(TableName("s", "t"), ("a", "v"), ())
    states = [[]]
    for what, a, v, other in steps:
        if what == "insert":
            history.insert(a, v)
        elif (a, v) in history.rows:
            history.delete(a, v) if what == "delete" else history.update((a, v), (a, other))
        else:
            continue
        states.append(list(history.rows))
    start = data.draw(st.integers(0, len(history.items)))
    window = history.window(start)
    if not window.num_rows:
        return
    changes = net_changes.reduce(net_changes.events(window, (), xml_images))
    rows = list(states[start])
    for row, copies in zip(rows_of(changes.deletes, "c")[:], changes.deletes.column("copies").to_pylist(), strict=True):
        for _ in range(copies):
            rows.remove(row)
    rows += rows_of(changes.inserts, "c")
    assert sorted(rows, key=repr) == sorted(history.rows, key=repr)


def test_a_row_follows_its_key_through_a_chain() -> None:
    history = History()
    history.insert("1", "a")
    history.insert("2", "b")
    for old, new in ((("2", "b"), ("3", "b")), (("1", "a"), ("2", "a")), (("3", "b"), ("1", "b"))):
        history.update(old, new)
    changes = net_changes.reduce(net_changes.events(history.window(2), ("id",), xml_images))
    assert rows_of(changes.moves, "k") == [("2",), ("1",)] or rows_of(changes.moves, "k") == [("1",), ("2",)]
    assert sorted(zip(rows_of(changes.moves, "k"), rows_of(changes.moves, "c"), strict=True)) == [
        (("1",), ("2", "a")),
        (("2",), ("1", "b")),
    ]


def test_a_truncate_among_rows_is_refused() -> None:
    history = History()
    history.insert("1", "a")
    history.items[0]["action"] = "TRUNCATE"
    with raises_code("not-row-changes"):
        net_changes.events(history.window(), ("id",), xml_images)


def test_inserted_and_deleted_within_a_window_is_nothing() -> None:
    history = History()
    history.insert("1", "a")
    history.update(("1", "a"), ("2", "a"))
    history.delete("2", "a")
    assert net_changes.reduce(net_changes.events(history.window(), ("id",), xml_images)).rows == 0


def test_changes_captured_under_another_key_are_refused() -> None:
    """GUIDs would mean something else, and rows would be lost."""
    history = History(TableName("s", "t"), ("a", "b"), ("a",))
    history.insert("1", "x")
    history.insert("2", "x")
    keyless = History(TableName("s", "t"), ("a", "b"), ())
    keyless.insert("1", "x")
    keyless.insert("2", "y")
    for items, key in (
        (history.window(), ()),
        (history.window(), ("b",)),
        (history.window(), ("a", "b")),
        (keyless.window(), ("a",)),
        (keyless.window(), ("a", "b")),
        (history.window(), ("gone",)),
    ):
        with pytest.raises(net_changes.WrongKey, match=r"s\.t.*initial update"):
            net_changes.events(items, key, xml_images)


def test_each_half_of_a_changed_key_of_two_shapes_is_kept_or_dropped() -> None:
    """Without a net change they are replayed; while blocks load, a replay must not bring more than the blocks lack."""
    history = History()
    history.insert("1", "x")
    history.insert("2", "x")
    history.update(("1", "x"), ("11", "x"))
    history.columns = ("id", "w", "n")
    history.rows = [("2", "x", "0"), ("11", "x", "0")]
    history.update(("2", "x", "0"), ("12", "x", "0"))
    found = net_changes.events(history.window(2), ("id",), xml_images)
    keep = np.array([True, False, False, True])  # 1 goes, 11 and 2 are of blocks that come later, 12 appears
    with pytest.raises(MixedShapes):
        net_changes.reduce(found)
    kept = net_changes.kept_items(found, keep).select(["action", "guid"]).to_pylist()
    assert kept == [{"action": "DELETE", "guid": "1"}, {"action": "INSERT", "guid": "12"}]


def test_a_key_may_be_the_empty_text() -> None:
    history = History()
    history.insert("", "x")
    history.insert("a", "x")
    history.delete("", "x")
    assert rows_of(net_changes.reduce(net_changes.events(history.window(), ("id",), xml_images)).inserts, "c") == [
        ("a", "x")
    ]


def test_a_table_without_replicated_columns_is_refused() -> None:
    history = History(TableName("s", "t"), (), ())
    history.insert()
    with pytest.raises(net_changes.NoColumns):
        net_changes.reduce(net_changes.events(history.window(), (), xml_images))
