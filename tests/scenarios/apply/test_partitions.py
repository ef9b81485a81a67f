"""Partitions are created and dropped on the master; the slave has one plain table."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from sluice.control.rejects import RejectStore
from sluice.model.checkpoint import Checkpoint
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from tests.rig.rig import Rig

MASTER = (
    'CREATE TABLE public."Parted" (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)',
    'CREATE TABLE public.p0 PARTITION OF public."Parted" FOR VALUES FROM (0) TO (100)',
    'CREATE TABLE public.p1 PARTITION OF public."Parted" FOR VALUES FROM (100) TO (200)',
    "CREATE TABLE public.hashed (id int PRIMARY KEY, v text) PARTITION BY HASH (id)",
    "CREATE TABLE public.h0 PARTITION OF public.hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE public.h1 PARTITION OF public.hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
)
SLAVE = (
    'CREATE TABLE public."Parted" (id int PRIMARY KEY, v text)',
    "CREATE TABLE public.hashed (id int PRIMARY KEY, v text)",
)
CASES: dict[str, list[str]] = {
    "dropped": ["DROP TABLE public.p0", "DROP TABLE public.h1"],
    "dropped and made again": [
        "DROP TABLE public.p0",
        'CREATE TABLE public.p0 PARTITION OF public."Parted" FOR VALUES FROM (0) TO (100)',
        "INSERT INTO public.\"Parted\" SELECT g, 'again' FROM generate_series(1, 50, 2) g",
        "UPDATE public.\"Parted\" SET v = 'changed' WHERE id < 20",
        "DROP TABLE public.h0",
        "CREATE TABLE public.h0 PARTITION OF public.hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "INSERT INTO public.hashed SELECT g, 'again' FROM generate_series(1, 90) g ON CONFLICT DO NOTHING",
    ],
    "attached and changed": [
        'CREATE TABLE public.p2 (LIKE public."Parted" INCLUDING ALL)',
        "INSERT INTO public.p2 SELECT g, 'came' FROM generate_series(200, 290) g",
        'ALTER TABLE public."Parted" ATTACH PARTITION public.p2 FOR VALUES FROM (200) TO (300)',
        "UPDATE public.\"Parted\" SET v = 'changed' WHERE id BETWEEN 210 AND 220",
        'DELETE FROM public."Parted" WHERE id = 230',
    ],
    "detached, changed and attached": [
        'ALTER TABLE public."Parted" DETACH PARTITION public.p1',
        "UPDATE public.p1 SET v = 'apart'",
        'ALTER TABLE public."Parted" ATTACH PARTITION public.p1 FOR VALUES FROM (100) TO (200)',
        "UPDATE public.\"Parted\" SET v = 'back' WHERE id = 150",
    ],
}


# Between two comparisons a partition that went and came back is the one that was there.
UNSEEN = "detached, changed and attached"


@pytest.mark.one_in(18)
@pytest.mark.parametrize(
    ("case", "told"),
    [
        pytest.param(case, told, id=f"{case}, {'event triggers' if told else 'comparison'}")
        for case in CASES
        for told in (True, False)
        if told or case != UNSEEN
    ],
)
@pytest.mark.parametrize("when", ["while applying", "before applying"])
def test_rows_come_and_go_with_partitions(rig: Callable[..., Rig], case: str, when: str, told: bool) -> None:
    pair = rig("SELECT")
    make(pair)
    if not told:
        drop_event_triggers(pair)
    fill(pair)

    def change() -> None:
        for statement in CASES[case]:
            pair.master.execute(statement.encode())

    if when == "before applying":
        change()
    with pair.apply() as running:
        if when == "while applying":
            pair.await_current()
            pair.await_that(lambda: running.in_normal_mode)
            change()
        pair.await_that(lambda: same(pair))


AGAIN = [
    # What fits, for longer than a slice; then what takes the place of rows that the slave still has.
    "INSERT INTO public.\"Parted\" SELECT g, 'fits' FROM generate_series(200, 290) g",
    *CASES["dropped and made again"],
    "UPDATE public.\"Parted\" SET v = 'late' WHERE id > 150",
]


OPTIONS: dict[str, dict[str, Any]] = {"here": {}, "staged": {"stage": 5}, "rejecting": {"policy": "reject"}}
IN_SLICES = [
    f"{how}, {ends}, {compared} the window"
    for how in OPTIONS
    for ends in ("in one go", "by a second apply")
    for compared in ("within", "behind")
]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("case", IN_SLICES)
def test_a_partition_that_is_made_again_stops_no_window_in_slices(rig: Callable[..., Rig], case: str) -> None:
    how, ends, compared = case.split(", ")
    pair = rig("SELECT", batch=60, **OPTIONS[how])
    make(pair)
    pair.master.execute('CREATE TABLE public.p2 PARTITION OF public."Parted" FOR VALUES FROM (200) TO (300)')
    drop_event_triggers(pair)
    fill(pair)
    running = pair.apply()
    advance = running.loop.checkpoints.advance

    def stop_behind_a_slice(before: Checkpoint, after: Checkpoint, **options: Any) -> None:
        advance(before, after, **options)
        if after.catching_up:
            running.stop.set()

    with running:
        pair.await_normal_mode(running)
        if ends == "by a second apply":
            running.loop.checkpoints.advance = stop_behind_a_slice  # type: ignore[method-assign]
        with pair.slave.transaction():
            pair.slave.execute('LOCK TABLE public."Parted"')
            pair.master.execute("UPDATE public.\"Parted\" SET v = 'first' WHERE id = 199")
            pair.await_that(lambda: waits_for_a_lock(pair))
            # From here on only this test, or a change that does not fit, looks for what changed.
            running.loop.definitions._next_comparison = math.inf
            for statement in AGAIN:
                pair.master.execute(statement.encode())
            if compared == "within the window":
                pair.master.execute("SELECT public.demo_check_structure()")
                pair.master.execute("INSERT INTO public.\"Parted\" SELECT g, 'last' FROM generate_series(291, 299) g")
        if ends == "in one go":
            pair.await_that(lambda: same(pair))
        else:
            running.thread.join(60)
    if ends == "by a second apply":
        assert pair.checkpoint.catching_up
        with pair.apply():
            pair.await_that(lambda: same(pair))
    assert not pair.checkpoint.catching_up
    assert RejectStore(pair.slave, pair.pair.prefix, "public", "dr1").read(tuple(RejectStatus)) == []


def waits_for_a_lock(pair: Rig) -> bool:
    """Whether the apply waits for a lock. The sessions of the follower may wait as well; they have no name while they
    start."""
    waiting = pair.slave.execute(
        "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted "
        "AND l.relation = 'public.\"Parted\"'::regclass AND a.application_name = %s",
        [pair.pair.application],
    )
    return waiting.fetchone() == (1,)


def make(pair: Rig) -> None:
    """Creates the tables on both sides, captured, without rows."""
    for statement in MASTER:
        pair.master.execute(statement.encode())
    for statement in SLAVE:
        pair.slave.execute(statement.encode())
    for name in ("Parted", "hashed"):
        pair.capture_table(name)


def fill(pair: Rig) -> None:
    pair.master.execute("INSERT INTO public.\"Parted\" SELECT g, 'a' FROM generate_series(1, 199) g")
    pair.master.execute("INSERT INTO public.hashed SELECT g, 'a' FROM generate_series(1, 50) g")


def drop_event_triggers(pair: Rig) -> None:
    """Drops the event triggers: later changes are found by comparison."""
    names = pair.master.execute("SELECT string_agg(quote_ident(evtname), ', ') FROM pg_event_trigger").fetchone()
    assert names is not None
    pair.master.execute(f"DROP EVENT TRIGGER {names[0]}".encode())
    pair.master.execute("SELECT public.demo_check_structure()")


def same(pair: Rig) -> bool:
    tables = [TableName("public", name) for name in ("Parted", "hashed")]
    return all(pair.rows(pair.master, table) == pair.rows(pair.slave, table) for table in tables)
