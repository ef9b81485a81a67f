"""Tables get another key or name, or are dropped, during a load or after a canceled one: only they wait."""

import pytest

from sluice.control.blocks import BlockStore
from sluice.load import steps
from sluice.model.blocks import BlockState
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.target import load_ownership
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.test_parts_alone import HEAP, NAMES, ORDERS, await_ready, normal, one
from tests.waiting import until

WAITS_FOR_A_LOCK = (
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
)
ANOTHER_KEY = {
    "more columns": "ALTER TABLE public.plain DROP CONSTRAINT plain_pkey, ADD PRIMARY KEY (id, n)",
    "another column": "ALTER TABLE public.plain DROP CONSTRAINT plain_pkey, ADD PRIMARY KEY (n)",
    "no column": "ALTER TABLE public.plain DROP CONSTRAINT plain_pkey",
    "another type": "ALTER TABLE public.plain ALTER id TYPE text",
}
LONG_KEYS = [pytest.param(key, marks=pytest.mark.long) for key in list(ANOTHER_KEY)[1:]]


def with_plain(pair_of: MakePair, **options: object) -> Rig:
    """A table of 1,200 rows and two small ones, captured, not yet on the slave."""
    pair = pair_of(block_rows=100, seconds=0.05, **options)
    pair.master.execute("CREATE TABLE public.plain (id int PRIMARY KEY, n int NOT NULL, v text)")
    pair.master.execute("INSERT INTO public.plain SELECT g, 5000 - g, 'old' FROM generate_series(1, 1200) g")
    pair.master.execute("CREATE TABLE public.other (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.other SELECT g, 'old' FROM generate_series(1, 20) g")
    return pair


def loaded(pair: Rig) -> None:
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
    steps.finish(first)


def load_again(pair: Rig) -> None:
    """Loads the tables that are left out; they are equal then."""
    update = pair.update(tables=[str(table) for table in pair.checkpoint.tables])
    pair.prepare(update)
    pair.load_to_normal(update)
    await_ready(pair)
    pair.assert_equal()


@pytest.mark.long
@pytest.mark.parametrize("key", ["more columns", *LONG_KEYS])
@pytest.mark.parametrize("role", [False, pytest.param(True, marks=pytest.mark.long)], ids=["", "nothing tells of it"])
def test_a_table_that_gets_another_key_while_a_range_of_it_is_loaded_is_left_out_alone(
    pair_of: MakePair, key: str, role: bool
) -> None:
    pair = with_plain(pair_of, role=role)
    loaded(pair)
    pair.slave.execute("UPDATE public.plain SET v = 'wrong' WHERE id BETWEEN 100 AND 999")
    pair.prepare(update := pair.update(tables=["public.plain"], key_from="100", key_to="1000"))
    loading = Background(lambda: pair.load(update))
    # Nothing is applied: the blocks are stored, and none has caught up.
    until(lambda: not loading.is_alive() or all(block.state is BlockState.STORED for block in pair.blocks()))
    pair.master.execute("UPDATE public.plain SET v = 'before' WHERE id BETWEEN 50 AND 150")
    pair.master.execute(ANOTHER_KEY[key].encode())
    pair.master.execute("UPDATE public.plain SET v = 'after' WHERE n % 50 = 1")
    pair.master.execute("UPDATE public.other SET v = 'now'")
    with pair.apply():
        pair.await_current()
        assert one(pair, "SELECT count(*) FROM public.other WHERE v = 'now'") == 20
        assert pair.checkpoint.tables.explain(TableName("public", "plain")) == (
            "inconsistent: its key was changed on the master while it was loaded"
        )
        assert loading.end() is None and not pair.blocks()
        load_again(pair)


@pytest.mark.long
@pytest.mark.parametrize("key", ANOTHER_KEY)
def test_a_table_that_gets_another_key_while_all_is_loaded_is_left_out_alone(pair_of: MakePair, key: str) -> None:
    pair = with_plain(pair_of)
    pair.prepare(first := pair.update("first"))
    holder = pair.hold("public.plain")
    pair.slave.execute("DROP TRIGGER slow ON public.plain")
    pair.slave.execute(
        "CREATE TRIGGER slow BEFORE INSERT ON public.plain FOR EACH ROW WHEN (NEW.n < 4400)"
        " EXECUTE FUNCTION public.slow()"
    )
    pair.slave.execute("ALTER TABLE public.plain ENABLE ALWAYS TRIGGER slow")
    with pair.apply():
        loading = Background(lambda: pair.load(first))
        try:
            until(lambda: any(block.state is BlockState.STORED for block in pair.blocks("plain")))
            # It waits for a loader that has read a block, and whose rows are held on the slave.
            altering = Background(lambda: pair.master.execute(ANOTHER_KEY[key].encode()))
            with connect(pair.master_info, application="look", autocommit=True) as look:
                until(lambda: not altering.is_alive() or look.execute(WAITS_FOR_A_LOCK).fetchone() == (True,))
        finally:
            holder.close()
        assert altering.end() is None
        pair.master.execute("UPDATE public.plain SET v = 'after' WHERE n % 50 = 1")
        assert loading.end() is None
        pair.await_normal()
        pair.await_current()
        assert list(pair.checkpoint.tables) == [TableName("public", "plain")]
        pair.assert_equal([TableName("public", "other")])
        load_again(pair)


@pytest.mark.long
@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE public.orders", pytest.param("ALTER TABLE public.orders RENAME TO o", marks=pytest.mark.long)],
    ids=["dropped", "renamed"],
)
def test_a_block_claimed_while_its_table_is_dropped_leaves_no_block(pair_of: MakePair, statement: str) -> None:
    pair = normal(pair_of)
    pair.prepare(update := pair.update(tables=["public.orders", "public.parents"]))
    store = BlockStore(pair.slave, update.prefix, "public", update.slave.name)
    with connect(pair.slave_info, application="look", autocommit=True) as look, pair.apply():
        pair.await_current()
        with pair.slave.transaction():
            load_ownership.claiming(pair.slave, update.prefix, update.slave.name, "job")
            claim = store.claim([TableName("public", "parents")])
            assert claim is not None and claim.block.table == ORDERS
            pair.master.execute(statement.encode())
            until(lambda: look.execute(WAITS_FOR_A_LOCK).fetchone() == (True,))
            assert store.begin(claim.block, ("300",), "job/1")
        pair.await_current()
        assert {block.table.name for block in pair.blocks()} == {"parents"}
        pair.master.execute("UPDATE public.parents SET v = 'now'")
        pair.load_to_normal(update)
        pair.await_current()
        pair.assert_equal([TableName("public", "parents")])


@pytest.mark.long
def test_a_table_that_is_loading_takes_the_name_of_one_that_was_kept(pair_of: MakePair) -> None:
    pair = normal(pair_of, slave_options={"on_drop": "keep"})
    with pair.apply():
        pair.master.execute("DROP TABLE public.heap")
        pair.await_current()
        assert pair.checkpoint.tables.former == {HEAP}
        pair.prepare(pair.update(tables=["public.orders"]))
        pair.master.execute("ALTER TABLE public.orders RENAME TO heap")
        pair.master.execute("UPDATE public.parents SET v = 'now'")
        pair.await_current()
        assert one(pair, "SELECT min(v) FROM public.parents") == "now"
        assert list(pair.checkpoint.tables) == [HEAP]
        load_again(pair)
        assert not pair.checkpoint.tables.former


@pytest.mark.long
@pytest.mark.parametrize("table", ["orders", "heap"])
def test_two_tables_change_their_names_while_one_of_them_is_loaded(pair_of: MakePair, table: str) -> None:
    pair = normal(pair_of)
    with pair.apply():
        pair.prepare(pair.update(tables=[f"public.{table}"]))
        with pair.master.transaction():
            pair.master.execute("ALTER TABLE public.orders RENAME TO between")
            pair.master.execute("ALTER TABLE public.heap RENAME TO orders")
            pair.master.execute("ALTER TABLE public.between RENAME TO heap")
        pair.master.execute("UPDATE public.heap SET v = 'now' WHERE id < 10")
        pair.await_current()
        assert list(pair.checkpoint.tables) == [HEAP if table == "orders" else ORDERS]
        load_again(pair)
    assert {each.name for each in pair.tables(pair.slave)} == set(NAMES)


@pytest.mark.parametrize(
    "statement", ["DROP TABLE public.heap", "ALTER TABLE public.heap RENAME TO moved"], ids=["dropped", "renamed"]
)
@pytest.mark.parametrize("on_drop", ["keep", "drop"])
@pytest.mark.one_in(4)
def test_a_table_that_is_inconsistent_leaves_its_name_to_another_one(
    pair_of: MakePair, statement: str, on_drop: str
) -> None:
    pair = normal(pair_of, slave_options={"on_drop": on_drop})
    with pair.apply():
        pair.prepare(update := pair.update(tables=["public.heap"]))
        steps.cancel(update, pair.store)
        pair.master.execute(statement.encode())
        pair.await_current()
        assert (one(pair, "SELECT to_regclass('public.heap')") is None) == (on_drop == "drop")
        pair.master.execute("CREATE TABLE public.heap (id bigint PRIMARY KEY, t timestamptz)")
        pair.capture()
        pair.master.execute("INSERT INTO public.heap VALUES (1, now())")
        pair.await_current()
        states = pair.checkpoint.tables
        assert states.ready(HEAP) and not states.former, "all its rows are in the stream"
        pair.assert_equal([HEAP])
        if moved := list(states):
            assert states.state(moved[0]) is TableState.INCONSISTENT
            load_again(pair)
    assert pair.state() is SlaveState.NORMAL


@pytest.mark.long
@pytest.mark.parametrize("ranged", [False, pytest.param(True, marks=pytest.mark.long)], ids=["whole", "a range"])
def test_rejects_of_rows_that_are_loaded_again_are_settled(pair_of: MakePair, ranged: bool) -> None:
    pair = normal(pair_of, slave_options={"on_conflict": "reject"}, interval=0.1)
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.slave.execute("UPDATE public.orders SET v = 'by hand' WHERE id IN (7, 250)")
        pair.slave.execute("UPDATE public.parents SET v = 'by hand' WHERE id = 7")
        for table in ("orders", "parents"):
            pair.master.execute(f"UPDATE public.{table} SET v = 'new' WHERE id IN (7, 250)".encode())
        pair.await_current()
        assert set_aside(pair) == [("orders", "7"), ("orders", "250"), ("parents", "7")]
        keys = {"key_from": "200", "key_to": "300"} if ranged else {}
        pair.prepare(update := pair.update(tables=["public.orders"], **keys))
        pair.load_to_normal(update)
        await_ready(pair)
        assert set_aside(pair) == [("orders", "7"), ("parents", "7")][0 if ranged else 1 :]


def set_aside(pair: Rig) -> list[tuple[str, str]]:
    query = "SELECT tablename, keys[1] FROM public.demo_rejects WHERE status = %s ORDER BY repl_key"
    return pair.slave.execute(query.encode(), [str(RejectStatus.SET_ASIDE)]).fetchall()
