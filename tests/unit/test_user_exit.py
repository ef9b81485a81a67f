"""User exits: their input, their allowed results, and the report of one that fails."""

import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.apply.rejects import UntransformedRows
from sluice.database import xml_images
from sluice.model.transformation import Computed, Constant, Excluded, Renamed
from sluice.transform.table_transform import MOST_NAMED, RowNotTransformed, TransformationInvalid
from tests.unit.changes import History
from tests.unit.transforming import bound, rows, shape, texts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "transform.md"
PEOPLE = shape(id="key integer", name="text", mail="text", country="character varying(2)")
HEAD = "import pyarrow as pa\nimport pyarrow.compute as pc\nSEEN = []\n"
Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """`write(body)`: writes a module whose function `f(rows)` has that body; returns the name of the exit."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[str] = []

    def written(body: str) -> str:
        name = f"exits_{tmp_path.name.replace('-', '_')}_{len(made)}"
        monkeypatch.delitem(sys.modules, name, raising=False)
        made.append(name)
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        (tmp_path / f"{name}.py").write_text(f"{HEAD}def f(rows):\n{lines}")
        return f"{name}:f"

    return written


def test_the_example_of_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n# plugins/shop_exits\.py\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "shop_exits.py").write_text(example)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_exits", raising=False)
    transform = bound(PEOPLE, user_exit="shop_exits:people")
    given = [("1", "Ada", "ada@x.org", "CH"), ("2", "Bob", "bob@y.org", "XX"), ("3", None, None, None)]
    assert rows(transform, *given) == [
        {"id": "1", "name": "Ada", "mail": "…@x.org", "country": "CH"},
        {"id": "3", "name": None, "mail": None, "country": None},
    ]


def test_an_exit_gets_rows_after_where_and_columns(write: Write) -> None:
    name = write("SEEN.append(rows.to_pylist())\nreturn rows")
    transform = bound(
        PEOPLE, "country = 'CH'", user_exit=name, mail=Excluded(), name=Renamed("Name"), twice=Computed("id * 2"),
        mark=Constant(None),
    )  # fmt: skip
    found = transform.rows(
        ["id", "name", "mail", "country"],
        [texts("1", "2", "3"), texts("a", "b", "c"), texts("x", "y", "z"), texts("CH", "DE", "CH")],
        texts("INSERT", "UPDATE", "DELETE"),
    )
    expected = [
        {"id": "1", "Name": "a", "country": "CH", "twice": "2", "mark": None},
        {"id": "3", "Name": "c", "country": "CH", "twice": "6", "mark": None},
    ]
    *_, seen = sys.modules[name.partition(":")[0]].SEEN
    added = [{"sluice_row": 0, "sluice_action": "INSERT"}, {"sluice_row": 1, "sluice_action": "DELETE"}]
    assert seen == [row | more for row, more in zip(expected, added, strict=True)]
    assert [column.to_pylist() for column in found.columns] == [[row[name] for row in expected] for name in found.names]


def test_rows_may_come_back_in_any_order(write: Write) -> None:
    name = write(
        "rows = rows.filter(pc.not_equal(rows['id'], '2')).sort_by([('id', 'descending')])\n"
        "return rows.set_column(1, 'name', pc.utf8_upper(rows['name']).cast(pa.string()).dictionary_encode())"
    )
    given = [(str(number), f"n{number}", None, None) for number in range(1, 5)]
    assert [(row["id"], row["name"]) for row in rows(bound(PEOPLE, user_exit=name), *given)] == [
        ("1", "N1"), ("3", "N3"), ("4", "N4"),
    ]  # fmt: skip


def test_it_is_called_in_another_process_as_well(write: Write) -> None:
    transform = bound(PEOPLE, user_exit=write("return rows.slice(1)"))
    given = [("1", "a", None, None), ("2", "b", None, None)]
    assert rows(pickle.loads(pickle.dumps(transform)), *given) == rows(transform, *given)


def test_an_executor_that_lacks_its_module_says_so(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write("return rows")
    traveling = pickle.dumps(bound(PEOPLE, user_exit=name))
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, name.partition(":")[0])
    with pytest.raises(RowNotTransformed, match=r"FunctionMissing: the module .* cannot be imported on"):
        rows(pickle.loads(traveling), ("1", "a", None, None))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return rows.to_pylist()", "it gives list, and not a pyarrow.Table"),
        ("return rows.drop_columns(['mail'])", "its answer has not exactly one column mail"),
        ("return rows.drop_columns(['sluice_row'])", "not exactly one column sluice_row"),
        ("return rows.append_column('more', rows['mail'])", "its answer has more, which is no column of the slave's"),
        ("return rows.set_column(1, 'name', pa.nulls(rows.num_rows, pa.int64()))", "name of its answer is int64"),
        ("return rows.set_column(0, 'id', rows['name'])", "it changes id, which is part of the key"),
        ("return pa.concat_tables([rows, rows])", "twice the same number: several rows of one need extra_key"),
        ("return rows.set_column(1, 'name', pa.array(['\\0'] * rows.num_rows))", "holds the character NUL"),
        ("return rows['nmae']", "KeyError"),
        ("raise SystemExit('enough')", "SystemExit: enough"),
    ],
)
def test_an_answer_that_cannot_be_used_is_reported(write: Write, body: str, told: str) -> None:
    transform = bound(PEOPLE, user_exit=write(body), strict=False)
    with pytest.raises(RowNotTransformed) as raised:
        rows(transform, ("7", "x", None, None))
    assert told in str(raised.value) and "the row id = '7'" in str(raised.value)
    assert "Fix the function, then clear the task apply" in str(raised.value)


def test_one_that_cannot_be_called_is_reported_when_the_configuration_is_checked(write: Write) -> None:
    for name, told in (
        ("no_such_module_here:f", "the module no_such_module_here cannot be imported on"),
        (write("return rows").replace(":f", ":g"), "has no function g"),
        (write("return rows['nmae']"), "fails without any row: “KeyError"),
    ):
        with pytest.raises(TransformationInvalid) as raised:
            bound(PEOPLE, user_exit=name)
        assert told in str(raised.value)


FAILS = (
    "if pc.any(pc.equal(rows['name'], 'bad')).as_py(): raise ValueError('what ' + rows['mail'][0].as_py())\nreturn rows"
)


def test_each_row_for_which_it_fails_is_found(write: Write) -> None:
    transform = bound(PEOPLE, user_exit=write(FAILS))
    given = [(str(number), "bad" if number in (3, 8) else "n", "m", None) for number in range(1, 10)]
    with pytest.raises(RowNotTransformed) as raised:
        rows(transform, *given)
    assert raised.value.keys == ({"id": "3"}, {"id": "8"})
    assert "the row id = '3' and 1 more row: “ValueError: what m" in str(raised.value)
    hidden = bound(shape(id="key integer", name="text", mail="text", secret="text"), user_exit=write(FAILS))
    with pytest.raises(RowNotTransformed, match="ValueError, whose text is not shown"):
        rows(hidden, *given)


def test_one_that_fails_for_rows_together_names_none(write: Write) -> None:
    transform = bound(PEOPLE, user_exit=write("assert rows.num_rows < 2\nreturn rows"))
    with pytest.raises(RowNotTransformed, match="rows that come together") as raised:
        rows(transform, ("1", "a", None, None), ("2", "b", None, None))
    assert not raised.value.keys


def test_changes_of_such_rows_are_set_aside_whole_and_nothing_else(write: Write) -> None:
    table = shape(id="key integer", name="text", mail="text")
    transform = bound(table, user_exit=write(FAILS), id=Renamed("ID"))
    history = History(transform.master.table, ("id", "name", "mail"))
    history.insert("1", "n", "m")
    history.insert("2", "bad", "m")
    history.update(("2", "bad", "m"), ("3", "bad", "m"))
    history.update(("1", "n", "m"), ("1", "o", "m"))
    found = UntransformedRows(rejecting=True)
    with pytest.raises(RowNotTransformed) as raised:
        rows(transform, ("2", "bad", "m"))
    assert found.note(raised.value)
    kept, rejects = found.without(history.window(), transform, xml_images)
    assert kept.column("repl_key").to_pylist() == [1, 4]
    assert [(str(each.change.action), each.change.old, each.change.new) for each in rejects] == [
        ("INSERT", {}, {"ID": "2"}),
        ("UPDATE", {"ID": "2"}, {"ID": "3"}),
    ]
    assert all("name" not in each.change.new and "the row id = '2'" in each.reason for each in rejects)
    assert not found.note(raised.value), "known: nothing was gained"


def test_it_stops_where_no_policy_says_otherwise_or_too_many_rows_fail(write: Write) -> None:
    transform = bound(PEOPLE, user_exit=write(FAILS))
    few = [("1", "bad", "m", None)]
    many = [(str(number), "bad", "m", None) for number in range(2 * MOST_NAMED)]
    for given, rejecting in ((few, False), (many, True)):
        with pytest.raises(RowNotTransformed) as raised:
            rows(transform, *given)
        assert not UntransformedRows(rejecting=rejecting).note(raised.value)
