"""Safe mode: applied changes may be applied again, in any windows, with the same end."""

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
from tests.unit.changes import History, Values

COLUMNS = ("id", "u", "a", "b", "v")
TABLE = """
DROP TABLE IF EXISTS public.child, public.t;
CREATE TABLE public.t (id int PRIMARY KEY, u int UNIQUE, a int, b int, v text, UNIQUE (a, b));
CREATE UNIQUE INDEX ON public.t (v) WHERE v LIKE 'one%';
"""
"""A nullable unique column, a nullable pair, and values that are unique only where they begin with `one`."""
NUMBER = st.integers(0, 4).map(str)
MAYBE = st.one_of(st.none(), st.integers(0, 2).map(str))
TEXT = st.sampled_from([None, "", "x", "one", "one\n"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["delete", "update", "key", "swap keys", "swap values"]),
        NUMBER,
        NUMBER,
        st.tuples(MAYBE, MAYBE, MAYBE, TEXT),
    ),
    min_size=2,
    max_size=25,
)
NOTHING = (None, None, None, None)
PART = st.integers(0, 10).map(lambda tenths: tenths / 10)
"""Of what there is: a place in a history."""
RUNS = st.lists(st.tuples(PART, PART, PART), max_size=4)
WAYS = st.lists(st.sampled_from(["merge", "replay"]), min_size=1, max_size=5)
SETTINGS = settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
def link(database: Callable[..., ConnectionInfo]) -> Iterator[Any]:
    with connection.connect(database(), application="test") as link:
        yield link


def claims(row: Values) -> list[Any]:
    """The unique values of a row."""
    _, u, a, b, v = row
    found: list[Any] = [("u", u)] if u is not None else []
    if a is not None and b is not None:
        found.append(("ab", a, b))
    if v is not None and v.startswith("one"):
        found.append(("v", v))
    return found


def fits(row: Values, others: list[Values]) -> bool:
    taken = [claim for other in others for claim in claims(other)]
    return not any(claim in taken for claim in claims(row))


def play(steps: list[Any]) -> History:
    """Runs what the table's constraints allow, like a master."""
    history = History(TableName("public", "t"), COLUMNS, ("id",))
    for what, one, other, values in steps:
        rows = {str(row[0]): row for row in history.rows}
        mine, theirs = rows.get(one), rows.get(other)
        free = values if fits((one, *values), [row for row in history.rows if row is not mine]) else NOTHING
        if mine is None:
            history.insert(one, *free)
        elif what == "delete":
            history.delete(*mine)
        elif what == "key" and theirs is None:
            history.update(mine, (other, *mine[1:]))
        elif what == "swap keys" and theirs is not None and one != other:
            history.update(mine, ("99", *mine[1:]))
            history.update(theirs, (one, *theirs[1:]))
            history.update(("99", *mine[1:]), (other, *mine[1:]))
        elif what == "swap values" and theirs is not None and one != other:
            history.update(mine, (one, *NOTHING))
            history.update(theirs, (other, *mine[1:]))
            history.update((one, *NOTHING), (one, *theirs[1:]))
        else:
            history.update(mine, (one, *free))
    return history


class Slave:
    """The table on a slave, and the classes that apply to it. `ways` are taken in turn."""

    def __init__(self, link: Any, history: History, ways: list[str], *, cascades: bool):
        self.link = link
        self.history = history
        self.merger = Merger(link, cascades=cascades)
        self.replayer = Replayer(link, self.merger.targets)
        self.ways = itertools.cycle(ways)

    def apply(self, start: int, stop: int, *, safe: bool) -> None:
        items = self.history.window(start, stop)
        if not items.num_rows:
            return
        key = self.history.key
        try:
            if next(self.ways) == "replay":
                raise Collision(self.history.table, "as asked for")
            self.merger.merge([net_changes.reduce(net_changes.events(items, key, xml_images), safe=safe)], safe=safe)
        except Collision:
            self.replayer.replay(xml_images.changes(items, {self.history.table: key}), ReplayOptions(safe=safe))

    def rows(self) -> list[Values]:
        found = self.link.execute("SELECT id::text, u::text, a::text, b::text, v FROM public.t").fetchall()
        return sorted(found, key=repr)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cascades", [False, True], ids=["rows may go and come", "others refer to the rows"])
@SETTINGS
@given(steps=STEPS, reached=PART, runs=RUNS, last=st.tuples(PART, PART), ways=WAYS)
def test_any_part_of_any_history_may_be_applied_again(
    link: Any, cascades: bool, steps: Any, reached: float, runs: list[Any], last: Any, ways: list[str]
) -> None:
    """The apply dies again and again, and each time falls back behind what the slave has."""
    history = play(steps)
    link.execute(TABLE)
    if cascades:
        link.execute("CREATE TABLE public.child (t int REFERENCES public.t ON DELETE CASCADE)")
    slave = Slave(link, history, ways, cascades=cascades)
    total = len(history.items)
    place = round(reached * total)
    slave.apply(0, place, safe=False)
    for back, middle, forward in [*runs, (*last, 1.0)]:
        start = round((1 - back) * place)
        between = start + round(middle * (total - start))
        place = between + round(forward * (total - between))
        slave.apply(start, between, safe=True)
        slave.apply(between, place, safe=True)
    assert slave.rows() == sorted(history.rows, key=repr)
    link.rollback()


@pytest.mark.long
@SETTINGS
@given(steps=STEPS, start=PART, reached=PART, ways=WAYS)
def test_one_window_past_what_was_applied_is_enough(
    link: Any, steps: Any, start: float, reached: float, ways: Any
) -> None:
    """A reader sees the state before and the state after, and nothing in between: no second window has to fix it."""
    history = play(steps)
    link.execute(TABLE)
    slave = Slave(link, history, ways, cascades=False)
    total = len(history.items)
    slave.apply(0, round(reached * total), safe=False)
    slave.apply(round(start * reached * total), total, safe=True)
    assert slave.rows() == sorted(history.rows, key=repr)
    link.rollback()
