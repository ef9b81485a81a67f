"""A window is split into as few slices as its limits allow; each change is in one of them."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sluice import sql_files
from sluice.apply import window_slicer
from sluice.apply.window_slicer import WindowSlicer
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.position import Position, Window
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.reader import PostgresReader

PREFIX = Prefix("DEMO_")
MOST = 10
"""Changes of a slice."""
DRAW = "SELECT public.demo_draw_keys(%s)"


@pytest.fixture
def master(database: Callable[..., ConnectionInfo], monkeypatch: pytest.MonkeyPatch) -> ConnectionInfo:
    monkeypatch.setattr(window_slicer, "SAMPLE", 3)
    info = database()
    with connection.connect(info, application="test", autocommit=True) as link:
        for name in ("resources_v1", "resources_v6", "resources_v7", "values"):
            link.execute(sql_files.render("postgres", name, prefix="demo_", schema='"public"'))
    return info


class Changes:
    """A window with changes at some REPL_KEYs, and its slices."""

    asked = 0
    """How often executors were asked for."""

    def __init__(self, master: ConnectionInfo, pattern: str, *, stage_above: int = MOST, ready: bool = True) -> None:
        """`pattern`: a character for each REPL_KEY, `x` for a change of the window, any other for none. `ready`:
        whether there are executors."""
        with connection.connect(master, application="a", autocommit=True) as link:
            self.start = PostgresQueue(link, PREFIX, "public").take()
            for number, mark in enumerate(pattern):
                link.execute(
                    "INSERT INTO public.demo_items (tablename, guid, db_action, db_schema, content) "
                    "VALUES ('t', %s, 'INSERT', 'public', 'new')" if mark == "x" else DRAW,
                    [str(number) if mark == "x" else 300],
                )  # fmt: skip
            self.end: Position = PostgresQueue(link, PREFIX, "public").take(self.start)
        options = SimpleNamespace(stage_above=stage_above)
        pair = SimpleNamespace(replication=SimpleNamespace(apply=options), master_info=master, most_changes=MOST)
        self.reader = PostgresReader(master, PREFIX, "public")
        links: Any = SimpleNamespace(pair=pair, reader=self.reader)

        def are_ready() -> bool:
            self.asked += 1
            return ready

        self.slicer = WindowSlicer(links, are_ready)

    def taken(self) -> Iterator[list[str] | None]:
        """The keys of each slice, None for one that executors take."""
        above: int | None = 0
        with self.reader:
            while above is not None:
                found = self.slicer.next(Window(self.start, self.end, above), False, False)
                if found.survey is not None:
                    yield None
                    above = found.survey.last if found.survey.more else None
                    continue
                yield found.items.column("guid").to_pylist()
                above = found.end


def places(pattern: str) -> list[str]:
    return [str(number) for number, mark in enumerate(pattern) if mark == "x"]


@pytest.mark.parametrize(
    "pattern",
    [
        "x" * 25,
        "x" * 10 + "." * 30 + "x" * 10,
        "xxxx....xx" * 4,
        "....xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "x" * 11 + "." * 40,
    ],
)
def test_a_window_with_too_many_changes_goes_in_slices_that_hold_each_once(
    master: ConnectionInfo, pattern: str
) -> None:
    taken = list(Changes(master, pattern).taken())
    assert [key for keys in taken for key in keys or ["staged"]] == places(pattern)
    assert len(taken) > 1
    assert all(0 < len(keys or ()) <= MOST for keys in taken)


@pytest.mark.parametrize("pattern", ["x" * 10, "xxxx" + "." * 30 + "xxxxxx", "x" + "." * 40 + "xxxxxxxxx", "." * 40])
def test_a_window_with_no_more_changes_than_a_slice_has_is_one_however_many_keys_were_drawn(
    master: ConnectionInfo, pattern: str
) -> None:
    assert list(Changes(master, pattern).taken()) == [places(pattern)]


def test_a_window_above_stage_above_is_left_to_the_executors(master: ConnectionInfo) -> None:
    assert list(Changes(master, "x" * 10, stage_above=5).taken()) == [None]


@pytest.mark.parametrize("before", ["." * 40, "x" + "." * 40], ids=["nothing", "one change"])
def test_a_window_above_stage_above_is_left_to_the_executors_whatever_came_before_it(
    master: ConnectionInfo, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Few changes among many keys say nothing about the next window."""
    monkeypatch.setattr(window_slicer, "SAMPLE", 10_000)
    first, second = Changes(master, before, stage_above=5), Changes(master, "x" * 10, stage_above=5)
    assert list(first.taken()) == [places(before)]
    second.reader, second.slicer = first.reader, first.slicer
    assert list(second.taken()) == [None]


def test_a_slice_with_more_bytes_than_this_process_holds_is_left_to_the_executors(
    master: ConnectionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_slicer, "DRIVER_BYTES", 20)
    assert list(Changes(master, "x" * 25).taken()) == [None, None, ["20", "21", "22", "23", "24"]]


@pytest.mark.parametrize("size", [20, 384 << 20])
def test_without_executors_this_process_takes_what_it_holds_and_each_change_once(
    master: ConnectionInfo, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(window_slicer, "DRIVER_BYTES", size)
    taken = list(Changes(master, "x" * 25, stage_above=5, ready=False).taken())
    assert [key for keys in taken for key in keys or ["staged"]] == places("x" * 25)
    assert all(0 < len(keys or ()) <= MOST for keys in taken)


@pytest.mark.parametrize(("size", "asks"), [(384 << 20, False), (20, True)])
def test_executors_are_asked_for_where_changes_or_their_contents_are_many_and_nowhere_else(
    master: ConnectionInfo, monkeypatch: pytest.MonkeyPatch, size: int, asks: bool
) -> None:
    monkeypatch.setattr(window_slicer, "DRIVER_BYTES", size)
    window = Changes(master, "x" * MOST, ready=False)
    assert [key for keys in window.taken() for key in keys or ["staged"]] == places("x" * MOST)
    assert bool(window.asked) is asks
    many = Changes(master, "x" * (MOST + 1), ready=False)
    assert [key for keys in many.taken() for key in keys or ()] and many.asked


def test_a_torn_slice_is_taken_again_twice_as_large(master: ConnectionInfo) -> None:
    window = Changes(master, "x" * 25)
    window.slicer.grow()
    with window.reader:
        # Twice as many are for the executors.
        whole = Window(window.start, window.end)
        survey = window.slicer.next(whole, False, False).survey
        assert survey is not None and survey.changes == 2 * MOST
        window.slicer.committed()
        assert 0 < window.slicer.next(whole, False, False).items.num_rows <= MOST


@pytest.mark.parametrize("loading", [False, True], ids=["ready", "loading"])
def test_a_slice_that_was_too_small_is_taken_again_twice_as_large(
    master: ConnectionInfo, monkeypatch: pytest.MonkeyPatch, loading: bool
) -> None:
    monkeypatch.setattr(window_slicer, "LOADING_SLICE", MOST)
    changes = Changes(master, "x" * 5 * MOST, ready=False)
    window = Window(changes.start, changes.end, 0)
    with changes.reader:
        sizes = []
        for _ in range(3):
            sizes.append(changes.slicer.next(window, loading, False).items.num_rows)
            changes.slicer.grow()
        changes.slicer.committed()
        assert changes.slicer.next(window, loading, False).items.num_rows <= MOST
    assert sizes[0] <= MOST < sizes[1] <= 2 * MOST < sizes[2] <= 4 * MOST
