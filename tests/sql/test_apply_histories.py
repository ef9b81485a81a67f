"""Any history of a table, cut into windows anywhere, makes the slave equal: by net changes and by replay."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.apply import net_changes
from sluice.database import xml_images
from sluice.database.apply import ReplayOptions
from sluice.database.conflicts import Collision
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.target.merge import Merger
from sluice.vendors.postgres.target.replay import Replayer
from tests.examples import examples
from tests.unit.changes import History

TEXTS = st.one_of(
    st.none(),
    st.sampled_from(["", "a", "\\N", "\\.", "x\ty\r\n\\.\n", "<&>", "]]></col>", '{"a",NULL}', "NULL", "'; --", "🐘"]),
)
KEYS = st.integers(0, 5).map(str)
STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "delete", "value", "unique", "key", "swap"]), KEYS, KEYS, TEXTS), max_size=30
)


def play(history: History, steps: list[tuple[str, str, str, str | None]]) -> None:
    """Runs what the table's constraints (id, u unique) allow, like a master."""
    for what, one, other, text in steps:
        rows = {row[0]: row for row in history.rows}
        taken = {row[1] for row in history.rows}
        if what == "insert" and one not in rows and other not in taken:
            history.insert(one, other, text)
        elif one not in rows:
            continue
        elif what == "delete":
            history.delete(*rows[one])
        elif what == "value":
            history.update(rows[one], (one, rows[one][1], text))
        elif what == "unique" and other not in taken - {rows[one][1]}:
            history.update(rows[one], (one, other, text))
        elif what == "key" and other not in rows:
            history.update(rows[one], (other, rows[one][1], text))
        elif what == "swap" and other in rows and one != other:
            # Through a key and a unique value that nobody has.
            (_, u, v), (_, u2, v2) = rows[one], rows[other]
            history.update((one, u, v), ("99", "99", v))
            history.update((other, u2, v2), (one, u, v2))
            history.update(("99", "99", v), (other, u2, text))


class Slave:
    """A table on a slave, and the classes that apply to it."""

    def __init__(self, link: Any, table: str, *, cascades: bool):
        self.link = link
        self.table = TableName("public", table)
        self.merger = Merger(link, cascades=cascades)
        self.replayer = Replayer(link, self.merger.targets)

    def apply(self, history: History, start: int, stop: int, *, way: str, safe: bool, images: bool) -> None:
        items = history.window(start, stop)
        if not items.num_rows:
            return
        try:
            if way == "replay":
                raise Collision(self.table, "as asked for")
            changes = net_changes.reduce(net_changes.events(items, history.key, xml_images), before=images)
            self.merger.merge([changes], safe=safe)
        except Collision:
            one_by_one = xml_images.changes(items, {self.table: history.key})
            self.replayer.replay(one_by_one, ReplayOptions(safe=safe, images=[self.table] if images else []))

    def rows(self) -> list[Any]:
        found = self.link.execute(f"SELECT * FROM {self.table}").fetchall()
        return sorted((tuple(None if value is None else str(value) for value in row) for row in found), key=repr)


@pytest.fixture
def link(database: Callable[..., ConnectionInfo]) -> Iterator[Any]:
    with connection.connect(database(), application="test") as link:
        yield link


def same(history: History, slave: Slave) -> None:
    assert slave.rows() == sorted(history.rows, key=repr)


SETTINGS = settings(
    max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cascades", [False, True], ids=["rows may go and come", "others refer to the rows"])
@SETTINGS
@given(
    steps=STEPS,
    cuts=st.lists(st.integers(0, 60), max_size=4),
    way=st.sampled_from(["merge", "replay"]),
    safe=st.booleans(),
    images=st.booleans(),
)
def test_windows_of_a_keyed_table(
    link: Any, cascades: bool, steps: Any, cuts: list[int], way: str, safe: bool, images: bool
) -> None:
    link.execute("DROP TABLE IF EXISTS public.t; CREATE TABLE public.t (id int PRIMARY KEY, u int UNIQUE, v text)")
    if cascades:
        link.execute("CREATE TABLE public.child (t int REFERENCES public.t ON DELETE CASCADE)")
    history = History(TableName("public", "t"), ("id", "u", "v"), ("id",))
    play(history, steps)
    slave = Slave(link, "t", cascades=cascades)
    bounds = [0, *sorted(min(cut, len(history.items)) for cut in cuts), len(history.items)]
    for start, stop in itertools.pairwise(bounds):
        slave.apply(history, start, stop, way=way, safe=safe, images=images)
    same(history, slave)
    link.rollback()


@pytest.mark.long
@SETTINGS
@given(steps=STEPS, cut=st.integers(0, 60), again=st.integers(0, 60), way=st.sampled_from(["merge", "replay"]))
def test_safe_mode_may_begin_anywhere_again(link: Any, steps: Any, cut: int, again: int, way: str) -> None:
    link.execute("DROP TABLE IF EXISTS public.t; CREATE TABLE public.t (id int PRIMARY KEY, u int UNIQUE, v text)")
    history = History(TableName("public", "t"), ("id", "u", "v"), ("id",))
    play(history, steps)
    slave = Slave(link, "t", cascades=False)
    total = len(history.items)
    slave.apply(history, 0, total, way=way, safe=False, images=False)
    same(history, slave)
    bounds = [min(again, total), max(min(again, total), min(cut, total)), total]
    for start, stop in itertools.pairwise(bounds):
        slave.apply(history, start, stop, way=way, safe=True, images=False)
    same(history, slave)
    link.rollback()


@pytest.mark.long
@SETTINGS
@given(
    steps=st.lists(st.tuples(st.sampled_from(["insert", "delete", "update"]), KEYS, TEXTS, TEXTS), max_size=30),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    way=st.sampled_from(["merge", "replay"]),
)
def test_windows_of_a_table_without_a_key(link: Any, steps: Any, cuts: list[int], way: str) -> None:
    link.execute("DROP TABLE IF EXISTS public.t; CREATE TABLE public.t (a int, j json, p text)")
    history = History(TableName("public", "t"), ("a", "j", "p"), ())
    for what, number, text, other in steps:
        row = (number if int(number) % 2 else None, '{"a": 1}' if int(number) % 3 else None, text)
        if what == "insert":
            history.insert(*row)
        elif row in history.rows:
            history.delete(*row) if what == "delete" else history.update(row, (row[0], row[1], other))
    slave = Slave(link, "t", cascades=False)
    bounds = [0, *sorted(min(cut, len(history.items)) for cut in cuts), len(history.items)]
    for start, stop in itertools.pairwise(bounds):
        slave.apply(history, start, stop, way=way, safe=False, images=False)
    found = link.execute("SELECT a::text, j::text, p FROM public.t").fetchall()
    assert sorted(found, key=repr) == sorted(history.rows, key=repr)
    link.rollback()
