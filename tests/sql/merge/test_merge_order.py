"""Foreign keys and unique values between the changes of a window."""

from typing import Any

import pyarrow as pa
import pytest

from sluice.database import xml_images
from sluice.database.apply import ReplayOptions
from sluice.database.conflicts import Collision
from sluice.model.names import TableName
from sluice.vendors.postgres.target.replay import Replayer
from tests.sql.merge.helpers import T, filled, merger, reduced, rows, same
from tests.unit.changes import History

PARENT, CHILD = TableName("public", "a_parent"), TableName("public", "b_child")


def family(slave: Any, action: str) -> tuple[History, History]:
    slave.execute(
        "CREATE TABLE public.a_parent (id int PRIMARY KEY, v text);"
        "CREATE TABLE public.b_child (id int PRIMARY KEY, parent int REFERENCES public.a_parent "
        f"ON DELETE {action} ON UPDATE {action} DEFERRABLE)"
    )
    slave.commit()
    parent, child = History(PARENT), History(CHILD, ("id", "parent"))
    parent.insert("1", "a")
    child.insert("10", "1")
    return parent, child


@pytest.mark.parametrize("order", [1, -1])
def test_foreign_keys_hold_after_every_statement(slave: Any, size: str, order: int) -> None:
    parent, child = family(slave, "RESTRICT")
    apply = merger(slave, cascades=True)
    apply.merge([reduced(parent), reduced(child)][::order])
    parent.insert("2", "b")
    child.insert("20", "2")
    child.delete("10", "1")
    parent.delete("1", "a")
    apply.merge([reduced(parent, 1), reduced(child, 1)][::order])
    same(slave, parent)
    same(slave, child)


@pytest.mark.parametrize("safe", [False, True])
def test_a_row_that_lives_on_is_never_deleted(slave: Any, size: str, safe: bool) -> None:
    parent, child = family(slave, "CASCADE")
    apply = merger(slave, cascades=True)
    replay = Replayer(slave, apply.targets)
    apply.merge([reduced(parent), reduced(child)], safe=safe)
    parent.update(("1", "a"), ("1", "b"))
    apply.merge([reduced(parent, 1)], safe=safe)
    parent.update(("1", "b"), ("2", "b"))  # the child follows on the master, and that is captured too
    child.update(("10", "1"), ("10", "2"))
    items = pa.concat_tables([parent.window(2), child.window(1)])
    try:
        apply.merge([reduced(parent, 2), reduced(child, 1)], safe=safe)
    except Collision:
        replay.replay(xml_images.changes(items, {PARENT: ("id",), CHILD: ("id",)}), ReplayOptions(safe=safe))
    same(slave, parent)
    same(slave, child)


def test_tables_that_refer_to_each_other(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE TABLE public.a_parent (id int PRIMARY KEY, v int);"
        "CREATE TABLE public.b_child (id int PRIMARY KEY, parent int REFERENCES public.a_parent DEFERRABLE);"
        "ALTER TABLE public.a_parent ADD FOREIGN KEY (v) REFERENCES public.b_child DEFERRABLE"
    )
    slave.commit()
    slave.execute("SET CONSTRAINTS ALL DEFERRED")
    parent, child = History(PARENT), History(CHILD, ("id", "parent"))
    parent.insert("1", "10")
    child.insert("10", "1")
    merger(slave, cascades=True).merge([reduced(parent), reduced(child)])
    slave.commit()
    same(slave, parent)


# Unique values


@pytest.mark.parametrize("cascades", [False, True])
@pytest.mark.parametrize("safe", [False, True])
def test_unique_values_change_places(slave: Any, size: str, cascades: bool, safe: bool) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text UNIQUE, w text);"
        "CREATE TABLE public.child (t int REFERENCES public.t ON DELETE CASCADE)"
    )
    history = History(T, ("id", "v", "w"))
    for number in ("1", "2", "3"):
        history.insert(number, f"v{number}", None)
    at = len(history.items)
    apply = merger(slave, cascades=cascades)
    apply.merge([reduced(history)])
    history.update(("1", "v1", None), ("1", "away", None))
    history.update(("2", "v2", None), ("2", "v1", None))
    history.update(("1", "away", None), ("1", "v2", None))
    if cascades:
        with pytest.raises(Collision, match=r"public\.t.*change by change"):
            apply.merge([reduced(history, at)], safe=safe)
        Replayer(slave, apply.targets).replay(history.changes(at), ReplayOptions(safe=safe))
    else:
        apply.merge([reduced(history, at)], safe=safe)
    same(slave, history)


def test_a_collision_leaves_everything_as_it_was(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text UNIQUE); CREATE TABLE public.a (id int PRIMARY KEY, v text);"
        "CREATE TABLE public.child (t int REFERENCES public.t)"
    )
    history, other = History(), History(TableName("public", "a"))
    at = filled(history, 3)
    filled(other, 2)
    apply = merger(slave, cascades=True)
    apply.merge([reduced(history)])
    history.update(("1", "v1"), ("1", "x"))
    history.update(("0", "v0"), ("0", "v1"))
    history.update(("1", "x"), ("1", "v0"))
    before = rows(slave)
    with pytest.raises(Collision):
        apply.merge([reduced(history, at), reduced(other)])
    assert rows(slave) == before
    assert rows(slave, other.table) == []


def test_seed_002s_example_twice(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE SCHEMA dummydb; CREATE TABLE dummydb.dummytbl (id int PRIMARY KEY, int_value int, str_value text)"
    )
    table = TableName("dummydb", "dummytbl")
    history = History(table, ("id", "int_value", "str_value"))
    history.insert("888", "888888", "abc888")
    apply = merger(slave)
    apply.merge([reduced(history)])
    history.insert("123", "999", "abc")
    history.update(("123", "999", "abc"), ("123", "888999", "abc"))
    history.update(("888", "888888", "abc888"), ("999", "888888", "abc888"))
    for _ in range(2):
        apply.merge([reduced(history, 1)], safe=True)
        same(slave, history)
    for _ in range(2):
        Replayer(slave, apply.targets).replay(history.changes(1), ReplayOptions(safe=True))
        same(slave, history)
