"""A table that the slave cannot create keeps no other one from being loaded, whatever the reason."""

import re
from collections.abc import Callable

import pytest

from sluice.control.blocks import BlockStore
from sluice.errors import Terminal
from sluice.load import steps
from sluice.model.compatibility import TablesDiffer
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from tests.errors import raises_code
from tests.rig.rig import MakePair, Rig

BAD, GOOD, OTHER = (TableName("public", name) for name in ("bad", "good", "other"))

KINDS: dict[str, tuple[str, str, str, str]] = {
    "a generated column names its own table": (
        "CREATE TABLE public.bad (id int PRIMARY KEY,"
        " b bool GENERATED ALWAYS AS (tableoid = 'public.bad'::regclass) STORED)",
        "",
        'relation "public.bad" does not exist',
        "",
    ),
    "an extension is in another schema": (
        "CREATE SCHEMA ext; CREATE EXTENSION cube SCHEMA ext;CREATE TABLE public.bad (id int PRIMARY KEY, at ext.cube)",
        "CREATE EXTENSION cube SCHEMA public",
        'in schema public on the slave; run there: CREATE SCHEMA IF NOT EXISTS "ext"; ALTER EXTENSION "cube" SET',
        'CREATE SCHEMA IF NOT EXISTS "ext"; ALTER EXTENSION "cube" SET SCHEMA "ext"',
    ),
    "its name is a view's": (
        "CREATE TABLE public.bad (id int PRIMARY KEY)",
        "CREATE VIEW public.bad AS SELECT 1 AS id",
        "public.bad is a view on the slave",
        "DROP VIEW public.bad",
    ),
    "a domain calls a function of the application": (
        "CREATE FUNCTION public.odd(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT $1 % 2 = 1';"
        "CREATE DOMAIN public.number AS int CHECK (public.odd(VALUE));"
        "CREATE TABLE public.bad (id int PRIMARY KEY, n public.number)",
        "",
        "function public.odd(integer) does not exist",
        "",
    ),
    "a type of that name is another one": (
        "CREATE TYPE public.place AS (x int, y int); CREATE TABLE public.bad (id int PRIMARY KEY, p public.place)",
        "CREATE TYPE public.place AS ENUM ('here')",
        'type "public"."place" is another kind of type on the slave',
        "DROP TYPE public.place",
    ),
}


def between(pair_of: MakePair, kind: str, **options: object) -> Rig:
    of_master, of_slave, _, _ = KINDS[kind]
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1, **options)
    pair.master.execute(of_master.encode())
    if of_slave:
        pair.slave.execute(of_slave.encode())
    pair.master.execute("INSERT INTO public.bad (id) SELECT g FROM generate_series(1, 120) g")
    return pair


def with_good(pair: Rig, *tables: TableName) -> None:
    for table in tables:
        pair.master.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)".encode())
        pair.master.execute(f"INSERT INTO {table} SELECT g, 'v' || g FROM generate_series(1, 120) g".encode())
        pair.master.execute(f"CREATE INDEX {table.name}_v ON {table} (v)".encode())


def expect_left_out(pair: Rig, kind: str) -> None:
    states = pair.checkpoint.tables
    assert pair.state() is SlaveState.NORMAL
    assert states.not_ready == {BAD: TableState.INCONSISTENT}
    assert re.search(re.escape(KINDS[kind][2]), states.explain(BAD)), states.explain(BAD)
    pair.assert_equal([GOOD, OTHER])
    assert indexed(pair) == {"good_v", "other_v"}


def indexed(pair: Rig) -> set[str]:
    rows = pair.slave.execute("SELECT indexname FROM pg_indexes WHERE indexname ~ '_v$'").fetchall()
    return {name for (name,) in rows}


def fix(pair: Rig, kind: str) -> None:
    """Removes the reason, and loads the table alone."""
    if not (by_hand := KINDS[kind][3]):
        return
    pair.slave.execute(by_hand.encode())
    update = pair.update(tables=[str(BAD)])
    pair.prepare(update)
    pair.load_to_normal(update)
    steps.finish(update)
    pair.await_current()
    assert not pair.checkpoint.tables.not_ready
    pair.assert_equal()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_load_goes_on_without_it(pair_of: MakePair, kind: str) -> None:
    pair = between(pair_of, kind)
    with_good(pair, GOOD, OTHER)
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
        assert [what for what, _ in steps.finish(first).left_out] == ["table public.bad"]
        pair.master.execute("INSERT INTO public.bad (id) VALUES (1001)")
        pair.master.execute("UPDATE public.good SET v = 'new' WHERE id < 10")
        pair.await_current()
        expect_left_out(pair, kind)
        fix(pair, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", list(KINDS)[:3])
def test_a_load_of_new_tables_goes_on_without_it(pair_of: MakePair, kind: str) -> None:
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1)
    with_good(pair, GOOD)
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
        steps.finish(first)
        of_master, of_slave, _, _ = KINDS[kind]
        pair.master.execute(of_master.encode())
        if of_slave:
            pair.slave.execute(of_slave.encode())
        pair.master.execute("INSERT INTO public.bad (id) SELECT g FROM generate_series(1, 120) g")
        with_good(pair, OTHER)
        pair.capture()
        pair.await_that(lambda: len(pair.checkpoint.tables) == 2)
        update = pair.update(tables=[str(BAD), str(OTHER)])
        pair.prepare(update)
        pair.load_to_normal(update)
        with raises_code("tables-not-ready", match=r"public\.bad is inconsistent"):
            steps.finish(update)
        pair.await_current()
        expect_left_out(pair, kind)
        fix(pair, kind)


@pytest.mark.long
def test_alone_it_is_told_in_the_states_too(pair_of: MakePair) -> None:
    kind = "an extension is in another schema"
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1)
    with_good(pair, GOOD, OTHER)
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
        steps.finish(first)
        of_master, of_slave, _, _ = KINDS[kind]
        pair.master.execute(of_master.encode())
        pair.slave.execute(of_slave.encode())
        pair.master.execute("INSERT INTO public.bad (id) VALUES (1)")
        pair.capture()
        pair.await_that(lambda: len(pair.checkpoint.tables) == 1)
        with pytest.raises(TablesDiffer, match='SET SCHEMA "ext"'):
            pair.prepare(pair.update(tables=[str(BAD)]))
        expect_left_out(pair, kind)
        fix(pair, kind)


def _stopping(pair_of: MakePair, kind: str) -> Rig:
    return between(pair_of, kind, slave_options={"on_error": "stop"})


def _alone(pair_of: MakePair, kind: str) -> Rig:
    return between(pair_of, kind)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", list(KINDS)[:2])
@pytest.mark.parametrize("made", [_stopping, _alone], ids=["on_error: stop", "the only table"])
def test_the_load_fails_where_nothing_could_go_on(
    pair_of: MakePair, made: Callable[[MakePair, str], Rig], kind: str
) -> None:
    pair = made(pair_of, kind)
    if made is _stopping:
        with_good(pair, GOOD, OTHER)
    with pytest.raises(Terminal, match=re.escape(KINDS[kind][2])):
        pair.prepare(pair.update("first"))


@pytest.mark.long
def test_steps_that_are_run_again_leave_out_the_same(pair_of: MakePair) -> None:
    kind = "a generated column names its own table"
    pair = between(pair_of, kind)
    with_good(pair, GOOD, OTHER)
    update = pair.update("first")
    pair.capture()
    steps.begin(update, pair.store)
    steps.create_tables(update)
    steps.begin(update, pair.store)
    assert steps.create_tables(update) == []
    steps.plan(update, pair.store)
    steps.plan(update, pair.store)
    assert set(BlockStore.of(update, pair.slave).map().tables) == {GOOD, OTHER}
    with pair.apply():
        pair.load_to_normal(update)
        steps.finish(update)
        pair.await_current()
        expect_left_out(pair, kind)
