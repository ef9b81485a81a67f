"""An exit that makes several rows of one: their keys, their changes against a model, and what is refused."""

import pickle
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from sluice.apply import net_changes
from sluice.apply.rejects import UntransformedRows
from sluice.apply.slave_changes import SlaveChanges, keys_of_master
from sluice.database import xml_images
from sluice.model.transformation import ColumnChange, Computed, Constant, Excluded, Renamed
from sluice.transform import changes
from sluice.transform.table_transform import RowNotTransformed, TableTransform, TransformationInvalid
from tests.examples import examples
from tests.unit.changes import TABLE, History
from tests.unit.test_transformed_changes import COLUMNS, DICE, alike, history_of, replayed
from tests.unit.test_transformed_net_changes import applied, of_slave, states
from tests.unit.transforming import bound, rows, shape


def letters(given: pa.Table) -> pa.Table:
    """A user exit: a row for each letter of the note, the last one first; none of a row without a note."""
    made = [
        row | {"note": letter, "line": str(place)}
        for row in reversed(given.to_pylist())
        for place, letter in enumerate(sorted(set(row["note"] or "")), 1)
    ]
    return pa.Table.from_pylist(made, given.schema)


LETTERS = f"{__name__}:{letters.__name__}"
LINE = {"line": Computed("0")}
KEYS = [("line",), ("note",), ("note", "line")]


def letters_of(key: tuple[str, ...], **columns: ColumnChange) -> TableTransform:
    return bound(shape(**COLUMNS), user_exit=LETTERS, extra_key=key, **LINE, **columns)


def test_the_example_of_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "transform.md").read_text()
    (example,) = re.findall(r"```python\n# plugins/order_lines\.py\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "order_lines.py").write_text(example)
    monkeypatch.syspath_prepend(str(tmp_path))
    transform = bound(
        shape(id="key integer", items="text"), user_exit="order_lines:lines", extra_key=["line"],
        items=Renamed("item"), **LINE,
    )  # fmt: skip
    history = History(columns=("id", "items"))
    history.insert("7", "nail|screw")
    history.update(("7", "nail|screw"), ("7", "nail|bolt|nut"))
    history.update(("7", "nail|bolt|nut"), ("8", "nail"))
    history.delete("8", "nail")
    found = xml_images.changes(changes.of_slave(history.window(), transform, xml_images), {TABLE: transform.key()})
    told = [(str(each.action), *[(row["id"], row["line"]) for row in (each.old, each.new) if row]) for each in found]
    assert told == [
        ("INSERT", ("7", "1")), ("INSERT", ("7", "2")),
        ("UPDATE", ("7", "2"), ("7", "2")), ("INSERT", ("7", "3")),
        ("DELETE", ("7", "2")), ("DELETE", ("7", "3")), ("UPDATE", ("7", "1"), ("8", "1")),
        ("DELETE", ("8", "1")),
    ]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=",".join)
@settings(max_examples=examples(60), deadline=None)
@given(DICE)
def test_a_replay_leads_to_what_the_exit_makes_of_the_master(key: tuple[str, ...], dice: random.Random) -> None:
    history, transform = history_of(dice), letters_of(key, id=Renamed("number"))
    found = changes.of_slave(history.window(), transform, xml_images)
    assert alike(replayed(found, transform.key()), [*of_slave(transform, history.rows).values()])
    assert found.column("repl_key").to_pylist() == sorted(found.column("repl_key").to_pylist())


@pytest.mark.parametrize("key", KEYS, ids=",".join)
@settings(max_examples=examples(60), deadline=None)
@given(DICE)
def test_any_window_leads_from_the_slaves_state_to_the_next(key: tuple[str, ...], dice: random.Random) -> None:
    history, transform = history_of(dice), letters_of(key)
    start = dice.randrange(len(history.items))
    stop = dice.randint(start + 1, len(history.items))
    found, known = net_changes.events(history.window(start, stop), ("id",), xml_images), states(history)
    before, after = (of_slave(transform, known[place]) for place in (start, stop))
    net = SlaveChanges(found, transform).net(compare=True, safe=False)
    assert applied(net, before, safe=False, may_lead_back=True) == after
    # In safe mode the slave may be anywhere in the window.
    safe = SlaveChanges(found, transform).net(compare=False, safe=True)
    for at in range(start, stop + 1):
        assert applied(safe, of_slave(transform, known[at]), safe=True) == after


@settings(max_examples=examples(60), deadline=None)
@given(DICE)
def test_rows_of_blocks_that_are_read_later_are_left_out(dice: random.Random) -> None:
    history, transform = history_of(dice), letters_of(("line",))
    dropped = {str(dice.randint(1, 9)) for _ in range(3)}
    found = net_changes.events(history.window(), ("id",), xml_images)
    keep = np.array([guid not in dropped for guid in found.guid.to_pylist()])
    expected = of_slave(transform, [row for row in history.rows if row[0] not in dropped])
    mine = SlaveChanges(found, transform, keep)
    assert applied(mine.net(compare=False, safe=False), {}, safe=False) == expected
    again = net_changes.reduce(net_changes.events(mine.items(), transform.key(), xml_images))
    assert applied(again, {}, safe=False) == expected


def test_a_change_touches_only_the_rows_that_differ_and_those_that_go_are_first() -> None:
    history = History(columns=("id", "note"))
    history.insert("1", "abc")
    history.update(("1", "abc"), ("1", "bcd"))
    history.update(("1", "bcd"), ("2", "cd"))
    transform = bound(shape(id="key integer", note="text"), user_exit=LETTERS, extra_key=["note"], **LINE)
    found = changes.of_slave(history.window(1), transform, xml_images).to_pylist()
    told = [(item["repl_key"], item["action"], item["guid"], item["content"], item["oldcontent"]) for item in found]

    def image(number: int, note: str, line: int) -> str:
        return f'<col name="id">{number}</col><col name="note">{note}</col><col name="line">{line}</col>'

    assert told[0] == (2, "DELETE", "1:11:a", None, image(1, "a", 1))
    assert [each[:4] for each in told[1:]] == [
        (2, "UPDATE", "1:11:b", image(1, "b", 1)), (2, "UPDATE", "1:11:c", image(1, "c", 2)),
        (2, "INSERT", "1:11:d", image(1, "d", 3)),
        (3, "DELETE", "1:11:b", None),
        (3, "UPDATE", None, image(2, "c", 1)), (3, "UPDATE", None, image(2, "d", 2)),
    ]  # fmt: skip
    assert keys_of_master(["1:11:b", "2:421:x"], transform) == {"1", "42"}


def halves(given: pa.Table) -> pa.Table:
    made = [row | {"phone": phone} for row in given.to_pylist() for phone in row["phone"].split("|") if phone]
    return pa.Table.from_pylist(made, given.schema)


def test_several_columns_become_rows() -> None:
    transform = bound(
        shape(id="key integer", home="text", work="text"), user_exit=f"{__name__}:{halves.__name__}",
        extra_key=["phone"], home=Excluded(), work=Excluded(), phone=Computed("concat_ws('|', home, work)"),
    )  # fmt: skip
    given = [("1", "044", "079"), ("2", None, "1"), ("3", None, None)]
    assert sorted(tuple(row.values()) for row in rows(transform, *given)) == [("1", "044"), ("1", "079"), ("2", "1")]


def test_another_process_makes_the_same_rows() -> None:
    transform = letters_of(("note",))
    given = [("1", "CH", None, "abca"), ("2", None, None, "b")]
    assert rows(pickle.loads(pickle.dumps(transform)), *given) == rows(transform, *given)


def test_rows_rewritten_without_their_former_values_are_refused() -> None:
    history = History(columns=("id", "note"))
    history.insert("1", "ab")
    items = pa.Table.from_pylist([item | {"action": "UPDATE"} for item in history.items], history.window().schema)
    transform = bound(shape(id="key integer", note="text"), user_exit=LETTERS, extra_key=["note"], **LINE)
    with pytest.raises(TransformationInvalid, match=r"rewrote rows without saying .*load the table again"):
        changes.of_slave(items, transform, xml_images)


def answers(given: pa.Table) -> pa.Table:
    """A user exit that returns what the note says: lines with commas between them, `-` for null."""
    made = [
        row | {"line": None if line == "-" else line}
        for row in given.to_pylist()
        for line in (row["note"] or "").split(",")
    ]
    return pa.Table.from_pylist(made, given.schema)


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("1,2,1", "two rows with the same line (extra_key) for one row"),
        ("1,-", "line of its answer is null, and is part of the key"),
        *(
            (text, "line of its answer is not everywhere a whole number")
            for text in ("01", "+1", "-0", "1.0", " 1", "")
        ),
    ],
)
def test_an_answer_whose_keys_are_no_keys_is_reported(note: str, told: str) -> None:
    made = {"user_exit": f"{__name__}:{answers.__name__}", "extra_key": ["line"], **LINE}
    transform = bound(shape(id="key integer", note="text"), **made)  # type: ignore[arg-type]
    assert len(rows(transform, ("1", "1,2,0,-7"), ("2", "1"))) == 5
    with pytest.raises(RowNotTransformed) as raised:
        rows(transform, ("1", "1"), ("7", note))
    assert told in str(raised.value) and raised.value.keys == ({"id": "7"},)
    assert not UntransformedRows(rejecting=False).note(raised.value)


TWO = shape(id="key integer", note="text", at="date", kind="character(3)")


@pytest.mark.parametrize(
    ("key", "columns", "told"),
    [
        (["lin"], LINE, "extra_key names lin, which is no column of the slave's table; did you mean line?"),
        (["note"], {"note": Excluded()}, "extra_key names note, which is no column"),
        (["note"], {"note": Renamed("letter")}, "extra_key names note, which is no column"),
        (["id"], {}, "extra_key names id, which is in the key already"),
        (["note", "note"], {}, "extra_key names note, which is in the key already"),
        (["number"], {"id": Renamed("number")}, "extra_key names number, which is in the key already"),
        (["at"], {}, "extra_key names at, which is neither a text nor a whole number"),
        (["kind"], {}, "extra_key names kind, which is neither a text nor a whole number"),
        (["half"], {"half": Computed("0.5")}, "extra_key names half, which is neither a text nor a whole number"),
    ],
)
def test_a_key_that_cannot_be_is_refused(key: list[str], columns: dict[str, Any], told: str) -> None:
    with pytest.raises(TransformationInvalid) as raised:
        bound(TWO, user_exit=LETTERS, extra_key=key, strict=False, **columns)
    assert told in str(raised.value)


def test_a_table_without_a_key_is_refused() -> None:
    with pytest.raises(TransformationInvalid, match="extra_key follows the key of the master's table, and it has none"):
        bound(shape(id="integer", note="text"), user_exit=LETTERS, extra_key=["note"], **LINE)


def test_the_slaves_table_has_the_longer_key() -> None:
    transform = bound(
        TWO, user_exit=LETTERS, extra_key=["letter", "line"], note=Renamed("letter"), mark=Constant(None), **LINE
    )
    assert [(column.name, column.type, column.nullable) for column in transform.shape.key] == [
        ("id", "integer", True), ("letter", "text", False), ("line", "integer", False),
    ]  # fmt: skip
    assert transform.master_key() == ("id",)
