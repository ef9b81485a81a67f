"""Changes of definitions in the stream: changes before them are read by the old definition, those after by the new one.

Each case is one transaction of the master. It is applied by an apply that knows the table already, by one that starts
when everything waits, and at the end of a window that executors stage.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.control.definitions import DefinitionStore
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.rig.rig import Rig
from tests.scenarios.apply.test_types_follow import comparing

KEYED = "CREATE TABLE public.t (id int PRIMARY KEY, n int NOT NULL, v text)"
KEYLESS = "CREATE TABLE public.t (id int NOT NULL, n int NOT NULL, v text)"

CASES: dict[str, tuple[str, list[str]]] = {
    "a column is added and used": (
        KEYED,
        [
            "UPDATE public.t SET v = '0' WHERE id = 1",
            "ALTER TABLE public.t ADD COLUMN w int DEFAULT 5",
            "UPDATE public.t SET w = 9 WHERE id = 2",
            "ALTER TABLE public.t DROP COLUMN v",
            "INSERT INTO public.t VALUES (-100, 1, 1)",
        ],
    ),
    "a column is renamed": (
        KEYED,
        ["ALTER TABLE public.t RENAME COLUMN v TO x", "UPDATE public.t SET x = 'b' WHERE id = 7"],
    ),
    "another column becomes the key": (
        KEYED,
        [
            "UPDATE public.t SET id = -id WHERE id <= 3",
            "ALTER TABLE public.t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (n)",
            "DELETE FROM public.t WHERE n = 3",
            "UPDATE public.t SET n = -n WHERE n = 4",
            "UPDATE public.t SET v = 'new' WHERE n = 5",
        ],
    ),
    "a table without a key gets one": (
        KEYLESS,
        [
            "INSERT INTO public.t VALUES (-21, 1, 'x')",
            "UPDATE public.t SET v = 'y' WHERE id = -21",
            "ALTER TABLE public.t ADD PRIMARY KEY (id)",
            "UPDATE public.t SET v = 'z' WHERE id = -21",
            "DELETE FROM public.t WHERE id = 3",
        ],
    ),
    "a table is dropped": (KEYED, ["INSERT INTO public.t VALUES (-2, 1, 'a')", "DROP TABLE public.t"]),
    "a table is dropped and made again": (
        KEYED,
        [
            "INSERT INTO public.t VALUES (-2, 1, 'a')",
            "DROP TABLE public.t",
            "CREATE TABLE public.t (k text PRIMARY KEY)",
            "INSERT INTO public.t VALUES ('x')",
        ],
    ),
    "a table is renamed": (
        KEYED,
        [
            "INSERT INTO public.t VALUES (-2, 1, 'a')",
            "ALTER TABLE public.t RENAME TO t2",
            "INSERT INTO public.t2 VALUES (-3, 1, 'a')",
        ],
    ),
    "a column goes along with its type": (
        f"{KEYED}; CREATE DOMAIN public.word AS text; ALTER TABLE public.t ADD w public.word",
        [
            "UPDATE public.t SET w = 'x' WHERE id = 3",
            "DROP DOMAIN public.word CASCADE",
            "INSERT INTO public.t VALUES (-2, 99, 'a')",
        ],
    ),
    "values of a column that is NOT NULL are rewritten twice": (
        KEYED,
        [
            "ALTER TABLE public.t ALTER n TYPE text[] USING ARRAY[n::text]",
            "ALTER TABLE public.t ALTER n TYPE jsonb USING to_jsonb(n)",
            "UPDATE public.t SET n = n || '[1]' WHERE id = 3",
        ],
    ),
    "a table is truncated": (
        KEYED,
        ["UPDATE public.t SET v = 'b'", "TRUNCATE public.t", "INSERT INTO public.t VALUES (1, 1, 'c')"],
    ),
}


@pytest.mark.one_in(30)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("when", ["while applying", "before applying", "in a large window"])
def test_a_change_of_definition_cuts_the_stream(rig: Callable[..., Rig], case: str, when: str) -> None:
    tables, statements = CASES[case]
    pair = rig(tables)
    rows = 21_000 if when == "in a large window" else 20
    fill = f"INSERT INTO public.t SELECT g, {rows + 1} - g, 'a' FROM generate_series(1, {rows}) g"

    def change() -> None:
        with pair.master.transaction():
            for statement in statements:
                pair.master.execute(statement.encode())

    if when != "while applying":
        pair.master.execute(fill.encode())
        change()
    with pair.apply() as running:
        if when == "while applying":
            pair.master.execute(fill.encode())
            pair.await_current()
            pair.await_that(lambda: running.in_normal_mode)
            change()
        pair.await_current()
        assert pair.differences() == {}
        assert pair.tables(pair.master) == pair.tables(pair.slave)


@pytest.mark.long
def test_a_table_registered_within_a_large_window_is_made(rig: Callable[..., Rig]) -> None:
    pair = rig(KEYED)
    pair.master.execute("INSERT INTO public.t SELECT g, g, 'a' FROM generate_series(1, 21000) g")
    pair.master.execute("CREATE TABLE public.later (id int PRIMARY KEY)")
    pair.capture_table("later")
    pair.master.execute("INSERT INTO public.later VALUES (1)")
    with pair.apply():
        pair.await_current()
        assert pair.differences() == {}


def test_a_restored_master_matters_only_to_a_slave_that_is_applied_to(rig: Callable[..., Rig]) -> None:
    pair = rig(KEYED)
    now = PostgresQueue(pair.master, pair.pair.prefix, "public").take()
    ahead = replace(now, xmin=now.xmin + 10**6, xmax=now.xmax + 10**6, xip=frozenset(), high=now.high + 100)
    with pair.slave.transaction():
        pair.checkpoints.start_at(ahead)
        pair.checkpoints.move(SlaveState.INITIAL, "being prepared")
    with pair.apply() as running:
        pair.await_that(lambda: "being prepared" in str(running.loop.report.status.read().get("activity")))


@pytest.mark.long
def test_without_event_triggers_changes_of_definitions_are_found_by_comparison(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    pair = rig(KEYED)
    triggers = pair.master.execute("SELECT evtname FROM pg_event_trigger").fetchall()
    for (name,) in triggers:
        pair.master.execute(f'DROP EVENT TRIGGER "{name}"'.encode())
    pair.master.execute("INSERT INTO public.t SELECT g, g, 'a' FROM generate_series(1, 20) g")
    with caplog.at_level(logging.INFO, "sluice.apply"), pair.apply():
        pair.await_current()
        for statement in (
            "ALTER TABLE public.t ADD COLUMN w int",
            "UPDATE public.t SET w = id WHERE id <= 3",
            "INSERT INTO public.t VALUES (21, 21, 'b', 7)",
            "ALTER TABLE public.t RENAME COLUMN v TO x",
            "UPDATE public.t SET x = 'c' WHERE id = 5",
            "ALTER TABLE public.t DROP COLUMN n",
            "DELETE FROM public.t WHERE id = 4",
            "UPDATE public.t SET w = 9 WHERE id = 6",
        ):
            pair.master.execute(statement.encode())
        pair.await_that(lambda: _columns(pair, pair.slave) == _columns(pair, pair.master))
        # A row that is written tells of the change itself; here none is.
        pair.master.execute("ALTER TABLE public.t ADD COLUMN last int")
        pair.await_that(lambda: _columns(pair, pair.slave) == _columns(pair, pair.master))
        pair.await_current()
        assert pair.differences() == {}
    assert "found on the master by comparison: 1 changed definition: public.t" in caplog.text


def _columns(pair: Rig, connection: object) -> list[str]:
    assert connection in (pair.master, pair.slave)
    # Not prepared: what it returns changes while it is asked again and again.
    described = connection.execute("SELECT * FROM public.t LIMIT 0", prepare=False).description  # type: ignore[attr-defined]
    return [column.name for column in described or []]


@pytest.mark.parametrize("safe", [False, pytest.param(True, marks=pytest.mark.long)], ids=["strict", "safe"])
def test_a_table_that_is_dropped_behind_its_changes_holds_up_no_other(rig: Callable[..., Rig], safe: bool) -> None:
    pair = rig(f"{KEYED}; CREATE TABLE public.good (id int PRIMARY KEY, v text)", safe=safe)
    comparing(pair)
    with pair.apply():
        pair.await_current()
        with pair.master.transaction():
            pair.master.execute("INSERT INTO public.t VALUES (1, 1, 'a'); INSERT INTO public.good VALUES (1, 'a')")
            pair.master.execute("DROP TABLE public.t")
        pair.await_current()
        assert pair.differences() == {}
        assert TableName("public", "good") in pair.tables(pair.slave) and not pair.checkpoint.tables.not_ready


@pytest.mark.long
def test_a_window_taken_again_after_its_definitions_were_rolled_back(rig: Callable[..., Rig]) -> None:
    """The first attempt alters a table and then fails; the second one must not use the definition that the first one
    saw."""
    pair = rig(KEYED + "; CREATE TABLE public.unlike (id int PRIMARY KEY, code int UNIQUE)", safe=False)
    pair.slave.execute("ALTER TABLE public.unlike ADD COLUMN own int")  # its rows cannot go and come again
    pair.master.execute("INSERT INTO public.t SELECT g, g, 'v' FROM generate_series(1, 5) g")
    pair.master.execute("INSERT INTO public.unlike VALUES (1, 1), (2, 2)")
    with pair.apply():
        pair.await_current()
    with pair.master.transaction():
        pair.master.execute("UPDATE public.t SET v = 'w' WHERE id = 1")
        pair.master.execute("ALTER TABLE public.t DROP COLUMN v")
        pair.master.execute("UPDATE public.t SET n = -n WHERE id = 2")
        for number, code in ((1, 3), (2, 1), (1, 2)):  # the codes of two rows change places
            pair.master.execute("UPDATE public.unlike SET code = %s WHERE id = %s", [code, number])
    with pair.apply():
        pair.await_current()
    assert pair.slave.execute("SELECT id, code FROM public.unlike ORDER BY 1").fetchall() == [(1, 2), (2, 1)]
    assert pair.rows(pair.master, pair.tables(pair.master)[0]) == pair.rows(pair.slave, pair.tables(pair.slave)[0])


@pytest.mark.long
def test_an_index_that_the_master_dropped_is_not_in_the_way_of_a_type(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    pair = rig(
        "CREATE TYPE public.mood AS ENUM ('sad', 'glad'); "
        "CREATE TABLE public.t (id int PRIMARY KEY, m public.mood NOT NULL); "
        "CREATE INDEX sad ON public.t (id) WHERE m = 'sad'"
    )
    pair.master.execute("INSERT INTO public.t VALUES (1, 'sad')")
    with caplog.at_level(logging.INFO, "sluice.apply"), pair.apply():
        pair.await_that(
            lambda: "index sad" in str(list(map(str, DefinitionStore.of(pair.pair, pair.slave).read() or ())))
        )
        pair.master.execute("BEGIN; DROP INDEX public.sad; ALTER TABLE public.t ALTER m TYPE text; COMMIT")
        pair.master.execute("INSERT INTO public.t VALUES (2, 'neither')")
        pair.await_current()
        assert pair.differences() == {}
    assert "changes need that: index sad of public.t" in caplog.text


@pytest.mark.long
def test_a_table_without_columns_is_left_out_alone(rig: Callable[..., Rig]) -> None:
    pair = rig(KEYED)
    with pair.apply():
        pair.await_current()
        pair.master.execute("CREATE TABLE public.bare ()")
        pair.capture_table("bare")
        pair.master.execute("INSERT INTO public.bare DEFAULT VALUES")
        pair.master.execute("INSERT INTO public.t VALUES (-5, 1, 'a')")
        pair.await_that(lambda: pair.slave.execute("SELECT FROM public.t WHERE id = -5").fetchone() is not None)
        pair.await_current()
        assert "no column that is replicated" in str(pair.checkpoint.tables)
