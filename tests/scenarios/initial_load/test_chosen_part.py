"""A part of a NORMAL slave is loaded again, or a table for the first time; the rest is not touched."""

import random
import signal
import threading
import traceback
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from sluice.configuration.options import READS
from sluice.control.rejects import RejectStore
from sluice.coordination.gate import Gate
from sluice.database.rows import NotEvaluated
from sluice.load import partial_load, steps
from sluice.load.partial_load import SelectionRefused
from sluice.model.blocks import BlockState
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from sluice.model.slave_state import SlaveState
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.killable import begun_or_ended, killable
from tests.scenarios.initial_load.shop import HEAP, NOTES, ORDERS, SCRATCH, make_shop
from tests.scenarios.initial_load.traffic import Traffic
from tests.waiting import until

TRAFFIC = [ORDERS, NOTES, SCRATCH, HEAP]


def changed_by_hand(pair: Rig, *statements: str) -> None:
    """Changes rows on the slave."""
    for statement in statements:
        pair.slave.execute(statement.encode())


def settled(pair_of: MakePair, **options: Any) -> Rig:
    """A shop whose slave is NORMAL, with rows that the traffic never changes."""
    pair = pair_of(block_rows=100, seconds=0.05, **options)
    make_shop(pair)
    pair.master.execute("INSERT INTO public.orders SELECT g, 'far' FROM generate_series(100001, 100100) g")
    update = pair.update("first")
    pair.prepare(update)
    with pair.apply():
        pair.load_to_normal(update)
    return pair


@pytest.mark.one_in(3)
@pytest.mark.parametrize("read", READS)
def test_a_range_of_keys_is_loaded_again_under_traffic_and_the_rest_is_not_touched(
    pair_of: MakePair, read: str
) -> None:
    pair = settled(pair_of)
    # Differences inside the range vanish, those outside are none of this update's business.
    changed_by_hand(
        pair,
        "UPDATE public.orders SET v = 'wrong' WHERE id BETWEEN 100001 AND 100020",
        "DELETE FROM public.orders WHERE id BETWEEN 100021 AND 100030",
        "INSERT INTO public.orders VALUES (100200, 'the master has no such row'), (100999, 'nor this')",
        "UPDATE public.orders SET v = 'mine' WHERE id = 100090",
        "INSERT INTO public.orders VALUES (200000, 'mine too')",
    )
    update = pair.update(tables=["public.orders"], key_from="2000", key_to="100090", read=read)
    with pair.apply(), Traffic(pair.master_info, TRAFFIC, writers=2):
        pair.prepare(update)
        assert pair.state() is SlaveState.NORMAL
        killed = killable(update)
        until(partial(begun_or_ended, pair, killed))
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        pair.load_to_normal(update)
        blocks = pair.blocks("orders")
        alone = [(block.lo, block.hi) for block in blocks if block.left_alone]
        assert alone == [(None, ("2000",)), (("100090",), None)]
        assert sum(not block.left_alone for block in blocks) > 5
        assert not pair.blocks("notes")
    with pair.apply():
        pair.await_current()
    assert pair.slave.execute("SELECT id, v FROM public.orders WHERE id >= 100090 ORDER BY id LIMIT 1").fetchall() == [
        (100090, "mine")
    ]
    extra = pair.slave.execute("DELETE FROM public.orders WHERE id > 100100 RETURNING id").fetchall()
    assert sorted(extra) == [(100200,), (100999,), (200000,)]
    changed_by_hand(pair, "UPDATE public.orders SET v = 'far' WHERE id = 100090")
    pair.assert_equal()
    assert Gate(pair.store, update.prefix, "dr1").closures() == []


@pytest.mark.long
def test_rows_that_meet_a_condition_are_loaded_again_and_no_others(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=100, seconds=0.05)
    pair.master.execute("CREATE TABLE public.t (a text, b int, v text, n int, PRIMARY KEY (a, b))")
    pair.master.execute(
        "INSERT INTO public.t SELECT chr(97 + g % 5), g, 'old', g / 100 FROM generate_series(1, 3000) g WHERE g % 3 > 0"
    )
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
    changed_by_hand(
        pair,
        "UPDATE public.t SET v = 'wrong'",
        # Meets the condition here alone; the master has no such row, or another value in it.
        "INSERT INTO public.t VALUES ('c', 9000, 'wrong', 7), ('b', 9001, 'wrong', 1)",
        "UPDATE public.t SET n = 7 WHERE (a, b) = ('b', 1)",
        "DELETE FROM public.t WHERE (a, b) = ('d', 703)",
    )
    update = pair.update(tables=["public.t"], where="n = 7 -- 100%")
    with pair.apply():
        pair.prepare(update)
        pair.load_to_normal(update)
    met = "SELECT a, b, v, n FROM public.t WHERE n = 7 ORDER BY a, b"
    assert pair.slave.execute(met).fetchall() == pair.master.execute(met).fetchall() != []
    assert pair.slave.execute("SELECT v, n FROM public.t WHERE (a, b) = ('b', 1)").fetchall() == [("old", 0)]
    assert pair.slave.execute("SELECT v FROM public.t WHERE b = 9001").fetchall() == [("wrong",)]
    wrong = pair.slave.execute("SELECT count(*) FROM public.t WHERE v = 'wrong'").fetchone()
    others = pair.master.execute("SELECT count(*) FROM public.t WHERE n <> 7").fetchone()
    assert wrong is not None and others is not None
    assert wrong[0] == others[0] - 1 + 1, "all but the one that met the condition here alone, and the one of its own"
    # Of every second row no range is worth while.
    pair.prepare(update := pair.update(tables=["public.t"], where="b % 2 = 0"))
    assert len([block for block in pair.blocks() if not block.left_alone]) == 1
    with pair.apply():
        pair.load_to_normal(update)
    met = "SELECT a, b, v, n FROM public.t WHERE b % 2 = 0 ORDER BY a, b"
    assert pair.slave.execute(met).fetchall() == pair.master.execute(met).fetchall() != []


@pytest.mark.long
def test_a_part_of_a_table_whose_keys_order_differs_and_whose_values_move(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=50, seconds=0.02)
    pair.master.execute("CREATE TABLE public.words (id text PRIMARY KEY, v text, u int UNIQUE)")
    pair.master.execute("INSERT INTO public.words SELECT 'w' || g, 'old', g FROM generate_series(1, 900) g")
    pair.master.execute("CREATE TABLE public.uses (id int PRIMARY KEY, word text REFERENCES public.words)")
    pair.master.execute("INSERT INTO public.uses SELECT g, 'w' || g FROM generate_series(1, 900) g")
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
    assert steps.finish(first).left_out == []
    extra = "INSERT INTO public.words VALUES ('w45x', 'extra', -1000)"
    changed_by_hand(pair, "UPDATE public.words SET v = 'wrong'", extra)
    update = pair.update(tables=["public.words"], key_from="w3", key_to="w6")
    stop, moved = threading.Event(), [0]

    def move() -> None:
        chance = random.Random(4)
        while not stop.wait(0.002):
            one, other = chance.randint(1, 900), chance.randint(1, 900)
            with pair.master.transaction():
                pair.master.execute(f"UPDATE public.words SET u = -u WHERE id IN ('w{one}', 'w{other}')".encode())
            moved[0] += 1

    with pair.apply():
        pair.prepare(update)
        mover = Background(move)
        until(lambda: moved[0] > 0 or not mover.is_alive())
        before = moved[0]
        pair.load_to_normal(update)
        stop.set()
        assert mover.end() is None
    assert moved[0] > before, "none moved while it was loaded"
    with pair.apply():
        pair.await_current()
    assert steps.finish(update).left_out == []
    inside = "SELECT id, v, u FROM public.words WHERE id >= 'w3' AND id < 'w6' ORDER BY id"
    assert pair.slave.execute(inside).fetchall() == pair.master.execute(inside).fetchall() != []
    assert pair.slave.execute("SELECT count(*) FROM public.words WHERE v = 'wrong'").fetchone() != (0,)
    whole = pair.update(tables=["public.words"])
    with pair.apply():
        pair.prepare(whole)
        pair.load_to_normal(whole)
    assert steps.finish(whole).left_out == []
    pair.assert_equal()


@pytest.mark.long
def test_a_table_that_was_added_is_loaded_alone(pair_of: MakePair) -> None:
    pair = settled(pair_of)
    changed_by_hand(pair, "UPDATE public.orders SET v = 'mine' WHERE id = 100090")
    with Traffic(pair.master_info, TRAFFIC, writers=2):
        pair.master.execute("CREATE TABLE public.added (id int PRIMARY KEY, v text)")
        pair.master.execute("INSERT INTO public.added SELECT g, 'new' FROM generate_series(1, 2000) g")
        pair.capture()
        update = pair.update(tables=["public.added", "public.he*p"])
        pair.prepare(update)
        with pair.apply():
            pair.load_to_normal(update)
        pair.master.execute("UPDATE public.added SET v = 'changed' WHERE id < 50")
    with pair.apply():
        pair.await_current()
    assert {block.table.name for block in pair.blocks()} == {"added", "heap"}
    assert pair.slave.execute("SELECT v FROM public.orders WHERE id = 100090").fetchone() == ("mine",)
    pair.assert_equal([TableName("public", name) for name in ("added", "heap", "notes", "scratch")])


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("choice", "said"), [
    ({"tables": ["public.nowhere"]}, "'public.nowhere' is no replicated table; there are public.doomed"),
    ({"where": "id = 1"}, "choose rows of one table, and none is named under tables"),
    ({"tables": ["public.*"], "key_from": "1"}, "choose rows of one table, and 5 are named"),
    ({"tables": ["public.heap"], "where": "n = 1"}, "public.heap has no key"),
    ({"tables": ["public.orders"], "where": "nosuch = 1"}, 'column "nosuch" does not exist'),
    ({"tables": ["public.orders"], "where": "id = 1)); DROP TABLE public.notes; --"}, "is no condition on"),
    ({"tables": ["public.orders"], "where": "id"}, "argument of WHERE must be type boolean"),
    ({"tables": ["public.orders"], "where": "1 / (id - 7) > 0"}, "cannot be evaluated on public.orders: SQLSTATE 22"),
    ({"tables": ["public.orders"], "where": "id = -1"}, "no row of public.orders meets 'id = -1'"),
    ({"tables": ["public.orders"], "key_from": "one"}, "'one' is no key of public.orders"),
    ({"tables": ["public.notes"], "key_from": "one"}, "write a JSON list with one value for each of (a integer, b"),
    ({"tables": ["public.notes"], "key_from": '[2, "b"]', "key_to": '[2, "a"]'}, "is not below key_to"),
])  # fmt: skip
def test_a_choice_that_cannot_be_loaded_is_answered_before_anything_changes(
    pair_of: MakePair, choice: dict[str, Any], said: str
) -> None:
    pair = pair_of(block_rows=1000, seconds=0.5)
    make_shop(pair)
    pair.prepare(first := pair.update("first"))
    pair.load(first)
    pair.declare_normal()
    before = pair.checkpoints.read(), pair.blocks()
    with pytest.raises(SelectionRefused) as raised:
        steps.begin(pair.update(**choice), pair.store)
    assert said in str(raised.value) and "Nothing was changed" in str(raised.value)
    assert (pair.checkpoints.read(), pair.blocks()) == before
    pair.assert_equal()


LEAKS = {
    "by a cast": "(SELECT v::int FROM hr.secrets) = 1",
    "while it is planned": "public.leak('P0001') = 1",
    "as if it were a syntax error": "public.leak('42601') = id",
    "as if it would pass": "public.leak('57014') = id",
    "as if it were no condition": "public.leak('22023') = 1 AND nosuch",
}


@pytest.mark.long
def test_an_error_of_a_condition_shows_no_value_of_the_database(
    pair_of: MakePair, caplog: pytest.LogCaptureFixture
) -> None:
    pair = pair_of(block_rows=1000, seconds=0.5)
    make_shop(pair)
    pair.prepare(first := pair.update("first"))
    pair.load(first)
    pair.declare_normal()
    for connection in (pair.master, pair.slave):
        for statement in (
            "CREATE SCHEMA hr",
            "CREATE TABLE hr.secrets AS SELECT '1'::text AS v",
            # Declared so that a constant call is evaluated by the planner.
            "CREATE FUNCTION public.leak(state text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$"
            " DECLARE found text; BEGIN SELECT v INTO found FROM hr.secrets; IF found = '1' THEN RETURN 1; END IF;"
            " RAISE EXCEPTION USING ERRCODE = state, MESSAGE = found, DETAIL = found, HINT = found; END $$",
        ):
            connection.execute(statement.encode())
    for connection in (pair.master, pair.slave):
        connection.execute("UPDATE hr.secrets SET v = 'hunter2'")
        for name, where in LEAKS.items():
            with pytest.raises((SelectionRefused, NotEvaluated)) as raised:
                steps.begin(pair.update(tables=["public.orders"], where=where), pair.store)
            said = "".join(traceback.format_exception(raised.value)) + caplog.text
            assert "hunter2" not in said, name
            assert "SQLSTATE" in said or "nosuch" in said, name
        connection.execute("UPDATE hr.secrets SET v = '1'")


@pytest.mark.long
def test_a_condition_is_sql_that_the_configuration_must_allow(pair_of: MakePair) -> None:
    pair = settled(pair_of)
    strict = pair.with_options(initial=replace(pair.replication.initial, where=False))
    update = strict.update(tables=["public.orders"], where="id = 1")
    with pytest.raises(SelectionRefused, match=r"DEMO\.yaml allows none.*initial: \{where: true\}"):
        steps.begin(update, pair.store)
    with pytest.raises(SelectionRefused, match=r"allows none"):
        partial_load.check(update, pair.master, pair.slave)


def test_a_part_can_be_loaded_only_where_the_rest_is_right(pair_of: MakePair) -> None:
    pair = pair_of()
    make_shop(pair)
    pair.capture()
    with pytest.raises(SelectionRefused, match=r"the slave is UNCONFIGURED, .* Start an initial update without tables"):
        steps.begin(pair.update(tables=["public.orders"]), pair.store)
    pair.prepare(first := pair.update("first"))
    assert steps.cancel(first, pair.store)
    with pytest.raises(SelectionRefused, match="the slave is INCONSISTENT"):
        steps.begin(pair.update(tables=["public.orders"]), pair.store)


@pytest.mark.long
def test_a_part_of_a_table_that_is_canceled_leaves_only_that_table_inconsistent(pair_of: MakePair) -> None:
    pair = settled(pair_of)
    update = pair.update(tables=["public.orders"], key_to="4000")
    with pair.apply(), Traffic(pair.master_info, TRAFFIC, writers=1):
        pair.prepare(update)
        assert any(block.state is BlockState.PLANNED for block in pair.blocks())
        assert steps.cancel(update, pair.store, "a person wanted it")
        orders = TableName("public", "orders")
        pair.await_current()
        assert pair.checkpoint.state is SlaveState.NORMAL and list(pair.checkpoint.tables) == [orders]
        assert pair.checkpoint.tables.explain(orders) == "inconsistent: a person wanted it"
        last = pair.update("last", tables=["public.orders"])
        pair.prepare(last)
        pair.load_to_normal(last)
    with pair.apply():
        pair.await_current()
    assert not pair.checkpoint.tables.not_ready
    pair.assert_equal()


@pytest.mark.long
def test_that_a_table_differs_is_settled_by_a_load_of_all_of_it_and_not_of_a_part(pair_of: MakePair) -> None:
    pair = settled(pair_of)
    part = pair.update("part", tables=["public.orders"], key_from="2000")
    rejects = RejectStore(pair.slave, part.prefix, "public", "dr1")
    pair.master.execute(
        f"SELECT public.{part.prefix.lower}ddl_item('DIFFER', 'public', 'orders', 'a partition is gone', NULL)".encode()
    )
    changed_by_hand(pair, "UPDATE public.orders SET v = 'wrong' WHERE id = 100001")
    with pair.apply():
        pair.await_current()
    assert [reject.table.name for reject in rejects.differing()] == ["orders"]
    for update, left in ((part, 1), (pair.update("whole", tables=["public.orders"]), 0)):
        pair.prepare(update)
        with pair.apply():
            pair.load_to_normal(update)
        assert len(rejects.differing()) == left
    assert [reject.settled_by for reject in rejects.read([RejectStatus.DROPPED])] == ["initial update whole"]
    pair.assert_equal()
