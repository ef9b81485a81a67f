"""Changes one by one: matching ones are applied in order, others are named or rejected; safe mode may repeat."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sluice.apply import net_changes
from sluice.database import xml_images
from sluice.database.apply import Replayed, ReplayOptions
from sluice.database.conflicts import ChangeRefused, ColumnMissing, Drift, ValueUnfit
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.target import replay
from sluice.vendors.postgres.target.replay import Replayer
from sluice.vendors.postgres.target.slave_tables import SlaveTables
from tests.unit.changes import History

pytestmark = pytest.mark.releases

T = TableName("public", "t")


@pytest.fixture
def slave(database: Callable[..., ConnectionInfo]) -> Iterator[Any]:
    with connection.connect(database(), application="test replay") as link:
        yield link


def play(slave: Any, history: History, start: int = 0, **options: Any) -> Replayed:
    return Replayer(slave, SlaveTables(slave)).replay(history.changes(start), ReplayOptions(**options))


def rows(slave: Any, table: TableName = T, columns: str = "*") -> list[tuple[str | None, ...]]:
    found = slave.execute(f"SELECT {columns} FROM {table}").fetchall()
    return sorted((tuple(None if value is None else str(value) for value in row) for row in found), key=repr)


@pytest.fixture
def drifted(slave: Any) -> tuple[History, int]:
    """Row 1 is deleted on the slave, row 2 changed, row 9 inserted."""
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    for number in range(5):
        history.insert(str(number), f"v{number}")
    play(slave, history)
    slave.execute(
        "DELETE FROM public.t WHERE id = 1; UPDATE public.t SET v = 'mine' WHERE id = 2;"
        "INSERT INTO public.t VALUES (9, 'mine')"
    )
    slave.commit()
    at = len(history.items)
    history.update(("0", "v0"), ("0", "fine"))
    return history, at


CASES: dict[str, tuple[Callable[[History], None], dict[str, Any]]] = {
    "update of a row that is gone": (
        lambda history: history.update(("1", "v1"), ("1", "new")),
        {"key": {"id": "1"}, "action": "UPDATE", "expected": "one", "found": "none"},
    ),
    "key change of a row that is gone": (
        lambda history: history.update(("1", "v1"), ("11", "v1")),
        {"key": {"id": "1"}, "action": "UPDATE", "expected": "one", "found": "none"},
    ),
    "delete of a row that is gone": (
        lambda history: history.delete("1", "v1"),
        {"key": {"id": "1"}, "action": "DELETE", "expected": "one", "found": "none"},
    ),
    "update of a row changed by hand": (
        lambda history: history.update(("2", "v2"), ("2", "new")),
        {"key": {"id": "2"}, "action": "UPDATE", "differing": {"v": ("mine", "v2")}},
    ),
    "delete of a row changed by hand": (
        lambda history: history.delete("2", "v2"),
        {"key": {"id": "2"}, "action": "DELETE", "differing": {"v": ("mine", "v2")}},
    ),
    "insert of a row that is there": (
        lambda history: history.insert("9", "theirs"),
        {"key": {"id": "9"}, "action": "INSERT"},
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_drift_is_named_and_everything_undone(slave: Any, drifted: tuple[History, int], case: str) -> None:
    history, at = drifted
    before = rows(slave)
    change, facts = CASES[case]
    change(history)
    with pytest.raises(Drift) as caught:
        play(slave, history, at, images=[T])
    assert {name: getattr(caught.value, name) for name in facts} == facts
    assert rows(slave) == before


def test_rejected_changes_are_set_aside_with_their_images_and_the_rest_is_applied(
    slave: Any, drifted: tuple[History, int]
) -> None:
    history, at = drifted
    for case in ("update of a row that is gone", "update of a row changed by hand", "insert of a row that is there"):
        CASES[case][0](history)
    history.insert("50", "fine")
    done = play(slave, history, at, images=[T], reject=True)
    assert [(reject.change.action.value, reject.change.shown) for reject in done.rejects] == [
        ("UPDATE", {"id": "1"}),
        ("UPDATE", {"id": "2"}),
        ("INSERT", {"id": "9"}),
    ]
    assert done.changes == 5
    first = done.rejects[0]
    assert first.change.oldcontent == '<col name="id">1</col><col name="v">v1</col>'
    assert "expected one on the slave and found none" in first.reason
    assert rows(slave) == [("0", "fine"), ("2", "mine"), ("3", "v3"), ("4", "v4"), ("50", "fine"), ("9", "mine")]


def test_a_value_that_does_not_fit_can_be_rejected(slave: Any) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v varchar(3))")
    history = History()
    history.insert("1", "abc")
    history.insert("2", "too long")
    with pytest.raises(ValueUnfit, match="too long for type"):
        play(slave, history)
    assert rows(slave) == []
    assert len(play(slave, history, reject=True).rejects) == 1
    assert rows(slave) == [("1", "abc")]


def test_a_foreign_key_that_refuses_says_so(slave: Any) -> None:
    slave.execute(
        "CREATE TABLE public.p (id int PRIMARY KEY);"
        "CREATE TABLE public.t (id int PRIMARY KEY, v int REFERENCES public.p)"
    )
    history = History()
    history.insert("1", "7")
    with pytest.raises(ChangeRefused, match=r"row id = .1.: the slave refuses the INSERT.*Key \(v\)=\(7\)"):
        play(slave, history)


def test_a_missing_column_is_named(slave: Any) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    history = History()
    history.insert("1", "x")
    with pytest.raises(ColumnMissing):
        play(slave, history)
    assert rows(slave) == []


def test_changes_of_many_tables_go_in_their_order(slave: Any) -> None:
    slave.execute(
        "CREATE TABLE public.a (id int PRIMARY KEY, v text);"
        "CREATE TABLE public.b (id int PRIMARY KEY, v int NOT NULL REFERENCES public.a ON UPDATE CASCADE)"
    )
    parent, child = History(TableName("public", "a")), History(TableName("public", "b"))
    order: list[tuple[History, int]] = []

    def note(history: History, change: Callable[..., None], *arguments: Any) -> None:
        change(*arguments)
        order.append((history, len(history.items) - 1))

    note(parent, parent.insert, "1", "x")
    note(child, child.insert, "10", "1")
    note(parent, parent.insert, "2", "y")
    note(child, child.update, ("10", "1"), ("10", "2"))
    note(parent, parent.delete, "1", "x")
    items = pa.concat_tables([history.window(at, at + 1) for history, at in order])
    Replayer(slave, SlaveTables(slave)).replay(xml_images.changes(items, {parent.table: ("id",), child.table: ("id",)}))
    assert rows(slave, parent.table) == [("2", "y")]
    assert rows(slave, child.table) == [("10", "2")]


@pytest.mark.parametrize("size", [1, 3, 500])
def test_batches_of_any_size(slave: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(replay, "_CHUNK", size)
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text UNIQUE)")
    history = History()
    for number in range(10):
        history.insert(str(number), f"v{number}")
    for number in range(10):
        history.update((str(number), f"v{number}"), (str(number + 100), f"w{number}"))
    assert play(slave, history).changes == 20
    assert rows(slave) == sorted(history.rows, key=repr)


def test_half_of_a_key_change(slave: Any) -> None:
    """The old key's block was read after the change, the new key's before: only the insert is applied."""
    slave.execute(
        "CREATE TABLE public.t (a text, b int, v text, PRIMARY KEY (b, a)); INSERT INTO public.t VALUES ('x', 3, '3')"
    )
    history = History(T, ("a", "b", "v"), ("b", "a"))
    history.insert("x", "1", "1")
    history.insert("x", "3", "3")
    at = len(history.items)
    history.update(("x", "1", "1"), ("x", "2", "1"))
    history.update(("x", "3", "3"), ("x", "4", "3"))
    found = net_changes.events(history.window(at), history.key, xml_images)
    assert found.guid.to_pylist() == ["1:11:x", "1:21:x", "1:31:x", "1:41:x"]
    kept = net_changes.kept_items(found, np.array([False, True, True, False]))
    assert kept.column("action").to_pylist() == ["INSERT", "DELETE"]
    Replayer(slave, SlaveTables(slave)).replay(xml_images.changes(kept, {T: history.key}))
    assert rows(slave) == [("x", "2", "1")]


# Safe mode


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("UNIQUE (v)", ("a", "b")),
        ("UNIQUE (v) DEFERRABLE INITIALLY DEFERRED", ("a", "b")),
        pytest.param(
            "UNIQUE NULLS NOT DISTINCT (v)", (None, "b"), marks=pytest.mark.since(15, "unique constraints over NULLs")
        ),
        ("EXCLUDE USING btree (v WITH =)", ("a", "b")),
        ("EXCLUDE USING hash (lower(v) WITH =) WHERE (id > 0)", ("a", "B")),
    ],
)
def test_a_displaced_row_is_restored_by_its_own_change(
    slave: Any, constraint: str, values: tuple[str | None, str]
) -> None:
    """The slave is ahead: row 2 already has the value that row 1 had in this window."""
    one, other = values
    slave.execute(f"CREATE TABLE public.t (id int PRIMARY KEY, v text, CONSTRAINT u {constraint})")
    slave.commit()
    history = History()
    history.insert("2", other)
    history.insert("1", one)
    history.update(("1", one), ("1", "c"))
    history.update(("2", other), ("2", one))
    play(slave, history)
    slave.commit()
    for start in range(4):
        for _ in range(2):
            play(slave, history, start, safe=True)
            slave.commit()
            assert rows(slave) == sorted(history.rows, key=repr)


def test_safe_mode_makes_what_should_be_whatever_is_there(slave: Any, drifted: tuple[History, int]) -> None:
    history, at = drifted
    history.update(("1", "v1"), ("1", "new"))
    history.update(("2", "v2"), ("22", "new"))
    history.delete("3", "v3")
    history.insert("9", "theirs")
    for _ in range(2):
        play(slave, history, at, safe=True)
        assert rows(slave) == sorted(history.rows, key=repr)


def test_safe_mode_never_deletes_a_row_that_lives_on(slave: Any) -> None:
    slave.execute(
        "CREATE TABLE public.t (id numeric PRIMARY KEY, v text UNIQUE, own int DEFAULT 7);"
        "CREATE TABLE public.child (t numeric REFERENCES public.t ON DELETE CASCADE ON UPDATE CASCADE);"
        "INSERT INTO public.t VALUES (1.0, 'a', 8); INSERT INTO public.child VALUES (1.0)"
    )
    history = History()
    history.insert("1.0", "a")
    history.update(("1.0", "a"), ("1.0", "b"))
    history.update(("1.0", "b"), ("1.00", "b"))  # another text, the same key
    history.update(("1.00", "b"), ("2", "c"))
    for start in (0, 1, 2):
        for _ in range(2):
            play(slave, history, start, safe=True)
        if start == 0:
            # It began with the insert: the row 2 of the first pass gave way to nobody.
            assert rows(slave, T, "id, v") == [("2", "c")]
    assert slave.execute("SELECT t::text FROM public.child").fetchall() == [("2",)]
    assert slave.execute("SELECT own FROM public.t").fetchall() == [(8,)]


def test_an_identity_that_only_the_database_updates(slave: Any) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int GENERATED ALWAYS AS IDENTITY)"
    )
    history = History()
    history.insert("1", "5")
    history.update(("1", "5"), ("1", "6"))
    history.update(("1", "6"), ("2", "6"))
    play(slave, history)
    assert rows(slave) == [("2", "6")]
    for start in (0, 1, 2):
        play(slave, history, start, safe=True)
        assert rows(slave) == [("2", "6")]


def test_a_keyless_table_in_safe_mode(slave: Any) -> None:
    slave.execute("CREATE TABLE public.t (a int, p point)")
    history = History(T, ("a", "p"), ())
    history.insert("1", "(1,2)")
    history.insert("1", "(1,2)")
    history.insert(None, None)
    history.update(("1", "(1,2)"), (None, "(1,2)"))
    history.delete(None, None)
    play(slave, history, safe=True)
    assert rows(slave) == sorted(history.rows, key=repr)


def test_names_may_be_anything(slave: Any) -> None:
    table = TableName('Sch."ema', "t%s ${x}")
    names = ("select", 'a "b" %(c)s', "$1", "e1")
    quoted = [connection.quoted(name) for name in names]
    slave.execute(
        f"CREATE SCHEMA {connection.quoted(table.schema)};"
        f"CREATE TABLE {connection.quoted(table.schema, table.name)} ({' text, '.join(quoted)} text,"
        f' PRIMARY KEY ("select"), UNIQUE ("$1", "e1"))'.encode()
    )
    history = History(table, names, ("select",))
    history.insert("a", *"bcd")
    history.update(("a", *"bcd"), ("x", *"bcd"))
    history.update(("x", *"bcd"), ("x", "y", *"cd"))
    for safe in (False, True):
        play(slave, history, safe=safe)
        found = slave.execute(f"SELECT * FROM {connection.quoted(table.schema, table.name)}".encode()).fetchall()
        assert found == history.rows
