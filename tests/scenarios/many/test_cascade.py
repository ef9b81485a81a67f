"""A slave that is the master of the next one; two masters that replicate to each other."""

from contextlib import ExitStack

import pytest

from sluice.configuration.mistakes import ConfigError
from sluice.model.slave_state import SlaveState
from tests.rig.apply_process import ApplyProcess
from tests.rig.net import Net, until
from tests.scenarios.initial_load.traffic import Traffic, Writable

ORDERS = Writable("public.orders", ("id",), "floor(random() * 900)::int")
NOTES = Writable("public.notes", ("a", "b"), "floor(random() * 90)::int, chr(65 + floor(random() * 99)::int)")

AB = """
prefix: AB_
master: {schema: public, conn_id: a}
slaves: {b: {schema: public, conn_id: b}}
tables: {'public.*': {}}
initial: {block_rows: 200, block_target_seconds: 0.05}
"""
BC = """
prefix: BC_
master: {schema: public, conn_id: b, cascade: AB_}
slaves: {c: {schema: public, conn_id: c}}
tables: {'public.*': {}}
initial: {block_rows: 200, block_target_seconds: 0.05}
"""
BA_TOO = "conn_id: b, cascade: AB_}"
BA = """
prefix: BA_
master: {schema: public, conn_id: b}
slaves: {a: {schema: public, conn_id: a}}
tables: {'public.*': {}}
"""


def make_tables(net: Net) -> None:
    net.at("a", "CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    net.at("a", "INSERT INTO public.orders SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, 2000) g")
    net.at("a", "CREATE TABLE public.notes (b text, a int, v text, PRIMARY KEY (a, b))")
    net.at("a", "CREATE TABLE public.heap (v text)")
    net.at("a", "CREATE TABLE public.parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    net.at("a", "CREATE TABLE public.parts_1 PARTITION OF public.parts FOR VALUES FROM (0) TO (1000)")
    net.at("a", "INSERT INTO public.parts SELECT g, 'p' FROM generate_series(1, 50) g")


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.long)])
def test_applied_changes_are_passed_on_to_the_slaves_slaves_whenever_an_apply_is_killed(net: Net, rounds: int) -> None:
    net.configure(AB, BC)
    make_tables(net)
    ab, bc = net.update("AB_", "b"), net.update("BC_", "c")
    net.prepare(ab)
    first, second = net.rig("AB_", "b"), net.rig("BC_", "c")
    with ExitStack() as stack:
        applies = [stack.enter_context(ApplyProcess(first))]
        with Traffic(net.infos["a"], [ORDERS, NOTES], writers=2):
            net.load(ab)
            until(lambda: net.state("AB_", "b") is SlaveState.NORMAL, [first])
            # The next slave is made while changes come through.
            net.prepare(bc)
            applies.append(stack.enter_context(ApplyProcess(second)))
            net.load(bc)
            until(lambda: net.state("BC_", "c") is SlaveState.NORMAL, [first, second])
            for rig, apply in rounds * tuple(zip((first, second), applies, strict=True)):
                net.await_progress(str(rig.pair.prefix), rig.name, [first, second])
                apply.restart()
            net.at("a", "INSERT INTO public.heap SELECT 'x' FROM generate_series(1, 5)")
            net.at("a", "TRUNCATE public.heap")
            net.at("a", "INSERT INTO public.heap VALUES ('after'), ('after'), (NULL)")
            net.at("a", "UPDATE public.parts SET v = v || id")
            net.at("a", "DELETE FROM public.parts WHERE id < 10")
            net.at("a", "ALTER TABLE public.orders ADD COLUMN extra text DEFAULT 'e'")
            net.at("a", "INSERT INTO public.orders (id, v, extra) VALUES (100001, 'new', 'shape')")
            net.at("a", "ALTER TABLE public.notes ALTER COLUMN v TYPE varchar(2000)")
        net.await_current("AB_", "b", [first])
        # Rows of the slave's own travel as well.
        net.at("b", "INSERT INTO public.orders (id, v, extra) VALUES (200001, 'of b', 'x')")
        net.await_current("BC_", "c", [second])
    net.assert_equal("b", "c", "orders", "notes", "heap", "parts")
    net.at("b", "DELETE FROM public.orders WHERE id = 200001")
    net.assert_equal("a", "b", "orders", "notes", "heap", "parts")
    origins = dict(net.at("b", "SELECT dbid, count(*) FROM public.bc_items WHERE tablename = 'orders' GROUP BY 1"))
    assert set(origins) == {"AB_", net.infos["b"].database}
    assert net.at("b", "SELECT dbid FROM public.bc_items WHERE db_action = 'INSERT' AND content LIKE '%200001%'") == [
        (net.infos["b"].database,)
    ]


@pytest.mark.long
def test_a_new_initial_update_of_the_middle_passes_on_too(net: Net) -> None:
    net.configure(AB, BC)
    make_tables(net)
    for update in (net.update("AB_", "b"), net.update("BC_", "c")):
        net.prepare(update)
        with net.applying((str(update.prefix), update.slave.name)) as running:
            net.load(update)
            until(lambda update=update: net.state(str(update.prefix), update.slave.name) is SlaveState.NORMAL, running)
    net.at("a", "DELETE FROM public.orders WHERE id > 1500")
    again = net.update("AB_", "b")
    net.prepare(again)
    with net.applying(("AB_", "b"), ("BC_", "c")) as running:
        net.load(again)
        net.await_current("AB_", "b", running)
        net.await_current("BC_", "c", running)
    net.assert_equal("a", "b", "orders", "parts")
    net.assert_equal("b", "c", "orders", "parts")


def test_a_cascade_that_begins_or_ends_makes_the_triggers_anew(net: Net) -> None:
    net.configure(AB, BC.replace(", cascade: AB_", ""))
    net.at("b", "CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    net.capture("BC_")
    applying = (
        "SET sluice.origin = 'AB_'; SET session_replication_role = replica; INSERT INTO public.orders VALUES (%s);"
    )
    ended = "RESET sluice.origin; RESET session_replication_role"

    def captured(number: int) -> bool:
        net.at("b", applying.replace("%s", str(number)) + ended)
        return bool(net.at("b", f"SELECT 1 FROM public.bc_items WHERE guid = '{number}'"))

    assert not captured(1)
    net.configure(AB, BC)
    ((trigger,),) = net.at("b", "SELECT trigger_name FROM public.bc_tables")
    assert [str(step) for step in net.capture("BC_").steps] == [
        "repair public.orders: "
        + ", ".join(f'trigger "{trigger}_{event}" does not fire for what is passed on' for event in "ditu")
        + ", the triggers are out of date"
    ]
    assert not net.capture("BC_").steps
    assert captured(2)
    net.at("b", "SET sluice.origin = 'XY_'; INSERT INTO public.orders VALUES (3); RESET sluice.origin")
    assert not net.at("b", "SELECT 1 FROM public.bc_items WHERE guid = '3'")
    net.configure(AB, BC.replace(", cascade: AB_", ""))
    assert len(net.capture("BC_").steps) == 1
    assert not captured(4)


@pytest.mark.long
def test_two_masters_of_one_another_do_not_loop(net: Net) -> None:
    """Not even an initial update of one of them, which empties its tables, reaches the other one."""
    net.configure(AB, BA)
    net.at("a", "CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    net.at("a", "INSERT INTO public.orders SELECT g, 'a' FROM generate_series(1, 100) g")
    net.at("b", "CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    forth = net.update("AB_", "b")
    net.prepare(forth)
    with net.applying(("AB_", "b")) as running:
        net.load(forth)
        until(lambda: net.state("AB_", "b") is SlaveState.NORMAL, running)
        # The rows are there already: nothing is loaded back, only what changes from here on.
        net.capture("BA_")
    net.follow("BA_", "a")
    again = net.update("AB_", "b")
    net.prepare(again)
    with net.applying(("AB_", "b"), ("BA_", "a")) as running:
        net.load(again)
        net.await_current("AB_", "b", running)
        for number in range(200, 260, 2):
            net.at("a", f"INSERT INTO public.orders VALUES ({number}, 'a')")
            net.at("b", f"INSERT INTO public.orders VALUES ({number + 1}, 'b')")
        net.at("a", "ALTER TABLE public.orders ADD COLUMN extra int DEFAULT 5")
        net.await_current("AB_", "b", running)
        net.at("b", "INSERT INTO public.orders VALUES (1001, 'b', 77)")
        net.at("b", "UPDATE public.orders SET v = 'b' WHERE id = 1")
        net.at("a", "DELETE FROM public.orders WHERE id = 2")
        net.await_current("AB_", "b", running)
        net.await_current("BA_", "a", running)
        ab, ba = net.items("AB_"), net.items("BA_")
        net.await_current("AB_", "b", running)
        net.await_current("BA_", "a", running)
        assert (net.items("AB_"), net.items("BA_")) == (ab, ba)
    net.assert_equal("a", "b", "orders")
    assert net.at("a", "SELECT extra FROM public.orders WHERE id = 1001") == [(77,)]
    assert net.at("a", "SELECT count(*) FROM public.orders")[0][0] == 100 + 60 + 1 - 1


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((AB, BA.replace("conn_id: b}", BA_TOO)),
         "would bring changes of AB_ back to a, where they were made, as slave a; take AB_ or that slave out"),
        ((AB.replace("conn_id: a}", "conn_id: a, cascade: BA_}"), BA.replace("conn_id: b}", BA_TOO)),
         "passes its own changes on in a circle"),
        ((BC,), "passes on AB_, which is not configured here; did you mean BC_? Known prefixes: BC_"),
        ((AB, BC.replace("cascade: AB_", "cascade: 'AB_, BC_'")), "names this replication itself"),
        ((AB, BC.replace("cascade: AB_", "cascade: 1a")), "'1a' is no prefix"),
        ((AB, BC, BC.replace("BC_", "CA_").replace("conn_id: c}", "conn_id: a}").replace("conn_id: b,", "conn_id: c,")
          .replace("AB_", "BC_").replace("{c:", "{a:")),
         "would bring changes of AB_ back to a"),
    ],
)  # fmt: skip
def test_loops_of_replications_are_refused(net: Net, texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        net.configure(*texts)
    assert said in " ".join(str(refused.value).split())
