"""Changes of the master become changes of the slave, compared with a model; rows move in and out."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.database import xml_images
from sluice.database.items import ITEMS
from sluice.model.transformation import ColumnChange, Computed, Constant, Excluded, Renamed
from sluice.transform import changes
from sluice.transform.engine import TEXT
from sluice.transform.user_exit import ROW
from tests.examples import examples
from tests.unit.changes import TABLE, History, Values
from tests.unit.transforming import bound, rows, shape

COLUMNS = {"id": "key integer", "Land": "text", "amount": "numeric(10,2)", "note": "text"}
LANDS = [None, "CH", "CH", "DE", "", "]]>", "<&", "\x01", "'\""]
NOTES = [None, "", "x", "</col>", "a\nb", "é\x85"]
AMOUNTS = [None, "0.00", "10.50", "-3.25"]
WHERES = st.sampled_from([None, "\"Land\" = 'CH'", "amount > 0 OR note IS NULL", "id % 2 = 0", "\"Land\" <> ''"])
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.just(Renamed("number")),
        "Land": st.sampled_from([Excluded(), Renamed("land"), Constant("X&Y"), Computed("upper(note)")]),
        "amount": st.sampled_from(
            [Excluded(), Renamed("a"), Constant(None), Computed("CAST(amount * 2 AS DECIMAL(10,2))")]
        ),
        "note": st.sampled_from([Excluded(), Constant("]]>"), Computed("note || '&' || \"Land\"")]),
        "more": st.sampled_from([Constant("1"), Computed("amount + id")]),
    },
)


MARK = pa.scalar("!", TEXT), pa.scalar("", TEXT)


def marked(given: pa.Table) -> pa.Table:
    """A user exit: it omits rows without CH in the first column after the key, marks that column, and returns the last
    row first."""
    name = given.column_names[1]
    if name == ROW:
        return given
    found = given.filter(pc.fill_null(pc.not_equal(given[name], "CH"), pa.scalar(True)))
    return found.set_column(1, name, pc.binary_join_element_wise(found[name], *MARK)).sort_by([(ROW, "descending")])


EXITS = st.sampled_from([None, f"{__name__}:{marked.__name__}"])
DICE = st.integers(0, 2**32).map(random.Random)


def history_of(dice: random.Random, key: tuple[str, ...] = ("id",)) -> History:
    """Inserts, updates, also of keys, and deletes; longer than what a strategy would draw."""
    history = History(columns=tuple(COLUMNS), key=key)
    for _ in range(dice.randint(1, 40)):
        row: Values = (str(dice.randint(1, 9)), dice.choice(LANDS), dice.choice(AMOUNTS), dice.choice(NOTES))
        free = not key or all(other[0] != row[0] for other in history.rows)
        kind = dice.choice("iiuuukkd") if history.rows else "i"
        if kind == "i" and free:
            history.insert(*row)
        elif kind == "d":
            history.delete(*dice.choice(history.rows))
        else:
            old = dice.choice(history.rows)
            history.update(old, row if free and kind == "k" else (old[0], *row[1:]))
    return history


def replayed(items: pa.Table, key: tuple[str, ...]) -> list[dict[str, str | None]]:
    """The slave's rows after these changes; each must match the rows."""
    held: list[dict[str, str | None]] = []
    for change in xml_images.changes(items, {TABLE: key}):
        if change.old:
            fitting = next(row for row in held if row == dict(change.old))
            held.remove(fitting)
        if change.new:
            held.append(dict(change.new))
    return held


def alike(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    return sorted(map(repr, one)) == sorted(map(repr, other))


@pytest.mark.long
@settings(max_examples=examples(100), deadline=None)
@given(DICE, WHERES, CHANGES, EXITS)
def test_the_slave_is_the_transformed_master_after_any_history(
    dice: random.Random, where: str | None, columns: dict[str, ColumnChange], user_exit: str | None
) -> None:
    history, transform = history_of(dice), bound(shape(**COLUMNS), where, user_exit=user_exit, **columns)
    found = changes.of_slave(history.window(), transform, xml_images)
    assert alike(replayed(found, transform.key()), rows(transform, *history.rows) if history.rows else [])
    for item in found.to_pylist():
        if item["guid"] is not None:
            image = dict(xml_images.row(item["content"] or item["oldcontent"]))
            assert image[transform.key()[0]] == item["guid"]


@pytest.mark.long
@settings(max_examples=examples(60), deadline=None)
@given(DICE, WHERES, CHANGES, EXITS)
def test_a_table_without_a_key_too(
    dice: random.Random, where: str | None, columns: dict[str, ColumnChange], user_exit: str | None
) -> None:
    history = history_of(dice, key=())
    transform = bound(shape(**{**COLUMNS, "id": "integer"}), where, user_exit=user_exit, **columns)
    found = changes.of_slave(history.window(), transform, xml_images)
    assert alike(replayed(found, ()), rows(transform, *history.rows) if history.rows else [])


def test_an_update_in_and_out_of_where_is_an_insert_and_a_delete() -> None:
    history = History(columns=("id", "country"))
    history.insert("1", "DE")
    history.update(("1", "DE"), ("1", "CH"))
    history.update(("1", "CH"), ("2", "CH"))
    history.update(("2", "CH"), ("3", "DE"))
    history.delete("3", "DE")
    transform = bound(shape(id="key integer", country="text"), "country = 'CH'")
    found = changes.of_slave(history.window(), transform, xml_images).to_pylist()
    assert [(item["repl_key"], item["action"], item["guid"]) for item in found] == [
        (2, "INSERT", "1"),
        (3, "UPDATE", None),
        (4, "DELETE", "2"),
    ]
    assert found[2]["oldcontent"] == '<col name="id">2</col><col name="country">CH</col>'


def test_a_change_of_an_excluded_column_alone_is_none_of_the_slave_and_its_value_is_nowhere() -> None:
    history = History(columns=("id", "secret", "name"))
    history.insert("1", "hunter2", "anna")
    history.update(("1", "hunter2", "anna"), ("1", "hunter3", "anna"))
    history.update(("1", "hunter3", "anna"), ("1", "hunter4", "otto"))
    history.delete("1", "hunter4", "otto")
    transform = bound(shape(id="key integer", secret="text", name="text"), secret=Excluded())
    found = changes.of_slave(history.window(), transform, xml_images)
    assert found.column("action").to_pylist() == ["INSERT", "UPDATE", "DELETE"]
    assert found.column("oldcontent")[1].as_py() == '<col name="id">1</col><col name="name">anna</col>'
    assert "hunter" not in str(found.to_pylist())


def test_an_update_without_an_old_image_stays_one_where_the_row_is_kept_and_goes_where_it_is_not() -> None:
    history = History(columns=("id", "n"))
    history.insert("1", "7")
    history.insert("2", "3")
    items = [item | {"action": "UPDATE"} for item in history.window().to_pylist()]
    transform = bound(shape(id="key integer", n="integer"), "n > 5", n=Renamed("m"))
    found = changes.of_slave(pa.Table.from_pylist(items, schema=ITEMS), transform, xml_images).to_pylist()
    assert [(item["guid"], item["action"], item["content"], item["oldcontent"]) for item in found] == [
        ("1", "UPDATE", '<col name="id">1</col><col name="m">7</col>', None)
    ]


def test_rows_of_several_shapes_are_taken_one_after_another() -> None:
    history = History(columns=("id", "a"))
    history.insert("1", "x")
    items = history.window().to_pylist()
    items.append(items[0] | {"repl_key": 2, "guid": "2", "content": '<col name="id">2</col><col name="b">y</col>'})
    transform = bound(shape(id="key integer", a="text"), strict=False, a=Excluded(), b=Renamed("c"))
    found = changes.of_slave(pa.Table.from_pylist(items, schema=ITEMS), transform, xml_images)
    assert found.column("content").to_pylist() == [
        '<col name="id">1</col>',
        '<col name="id">2</col><col name="c">y</col>',
    ]


def test_many_changes_at_once_are_as_a_few_at_a_time() -> None:
    history = History(columns=("id", "n"))
    for number in range(300):
        history.insert(str(number), str(number % 7))
    for number in range(0, 300, 2):
        history.update((str(number), str(number % 7)), (str(number), str((number + 3) % 7)))
    transform = bound(shape(id="key integer", n="integer"), "n < 3", n=Renamed("m"))
    whole = changes.of_slave(history.window(), transform, xml_images)
    few = [changes.of_slave(history.window(place, place + 30), transform, xml_images) for place in range(0, 450, 30)]
    assert whole.to_pylist() == pa.concat_tables(few).to_pylist()
    assert whole.schema == history.window().schema
