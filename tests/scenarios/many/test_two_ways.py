"""Two databases that are each other's master and slave, with applications that write to both at the same time."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Changes, Outcome
from sluice.verify.resync import Action, TableResult, resync
from tests.rig.apply_process import ApplyProcess
from tests.rig.net import Net, until

FORTH = """
prefix: AB_
master: {schema: public, conn_id: a}
slaves: {b: {schema: public, conn_id: b, conflict_rules: {public.*: RULE}}}
tables: {'public.*': {}}
"""
BACK = """
prefix: BA_
master: {schema: public, conn_id: b}
slaves: {a: {schema: public, conn_id: a, existing_tables: current, conflict_rules: {public.*: RULE}}}
tables: {'public.*': {}}
"""
MAPPED = (
    (FORTH, "{public.t: {target: {schema: far, name: T}, columns: {v: {rename: 'V v'}, mine: {exclude: true}}}}"),
    (
        BACK.replace("public.*: RULE", "far.*: RULE"),
        "{far.T: {target: {schema: public, name: t}, columns: {'V v': {rename: v}}}}",
    ),
)
NEWEST = "{newest: at}", "{newest: at}"
A_PREVAILS = "{wins: master}", "{wins: slave}"
ROWS = 40


def two_ways(net: Net, rules: tuple[str, str]) -> None:
    """Two databases with the same rows; from now on each follows the other."""
    net.configure(FORTH.replace("RULE", rules[0]), BACK.replace("RULE", rules[1]))
    for side in ("a", "b"):
        net.at(side, "CREATE TABLE public.t (id int PRIMARY KEY, at timestamptz, v text, w text)")
        net.at(side, f"INSERT INTO public.t SELECT g, '2026-01-01', 'v', 'w' FROM generate_series(1, {ROWS}) g")
    net.capture("AB_")
    net.capture("BA_")
    net.follow("AB_", "b")
    net.follow("BA_", "a")


@contextmanager
def writers(net: Net, seed: int) -> Iterator[list[int]]:
    """An application on each side: rows of both change and go, each side adds its own keys. Yields their counts."""
    ending, done, failures = threading.Event(), [0, 0], list[BaseException]()

    def write(side: int) -> None:
        chance = random.Random(f"{seed} {side}")
        try:
            with connect(net.infos["ab"[side]], application="application", autocommit=True) as session:
                while not ending.wait(0.005):
                    number = chance.randint(1, ROWS)
                    column = chance.choice("vw")
                    statement = chance.choices(
                        [
                            f"UPDATE public.t SET {column} = %(new)s, at = clock_timestamp() WHERE id = %(id)s",
                            "DELETE FROM public.t WHERE id = %(id)s",
                            "INSERT INTO public.t VALUES (%(fresh)s, clock_timestamp(), %(new)s, NULL)",
                        ],
                        [20, 1, 2],
                    )[0]
                    fresh = 1_000 + 2 * done[side] + side
                    values = {"id": number, "new": f"{side} {done[side]}", "fresh": fresh}
                    session.execute(statement.encode(), values)
                    done[side] += 1
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(side,)) for side in (0, 1)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    assert not failures


def test_writes_on_both_sides_before_an_apply_starts_are_decided_by_the_rule(net: Net) -> None:
    """It starts in safe mode, in which a change without a rule overwrites."""
    two_ways(net, NEWEST)
    for row, side, day in ((1, "a", 3), (1, "b", 2), (2, "a", 2), (2, "b", 3)):
        net.at(side, f"UPDATE public.t SET v = 'of {side}', at = '2026-02-0{day}' WHERE id = {row}")
    with net.applying(("AB_", "b"), ("BA_", "a")) as running:
        net.await_current("AB_", "b", running)
        net.await_current("BA_", "a", running)
    net.assert_equal("a", "b", "t")
    assert net.at("a", "SELECT v FROM public.t WHERE id <= 2 ORDER BY id") == [("of a",), ("of b",)]


@pytest.mark.long
@pytest.mark.parametrize(
    "rules", [NEWEST, pytest.param(A_PREVAILS, marks=pytest.mark.long)], ids=["newest", "one prevails"]
)
def test_applications_that_write_to_both_sides_end_with_the_same_rows(net: Net, rules: tuple[str, str]) -> None:
    two_ways(net, rules)
    rigs = net.rig("AB_", "b"), net.rig("BA_", "a")
    with writers(net, seed=7) as done, ApplyProcess(rigs[0]) as forth, ApplyProcess(rigs[1]) as back:
        for apply, prefix, slave in (forth, "AB_", "b"), (back, "BA_", "a"):  # in safe mode after each start
            net.await_progress(prefix, slave, rigs)
            apply.restart()
        assert sum(done) > 100
    with net.applying(("AB_", "b"), ("BA_", "a")) as running:
        net.await_current("AB_", "b", running)
        net.await_current("BA_", "a", running)
    net.assert_equal("a", "b", "t")
    decided = [
        net.at(side, f"SELECT status, settled_by, answer FROM public.{prefix}rejects")
        for side, prefix in (("b", "ab_"), ("a", "ba_"))
    ]
    assert all(decided), "the writers met no conflict"
    assert {row[1] for rows in decided for row in rows} == {"conflict_rules"}
    assert {row[0] for rows in decided for row in rows} <= {"applied", "dropped"}
    if rules == A_PREVAILS:
        assert [{row[0] for row in rows} for rows in decided] == [{"applied"}, {"dropped"}]


@pytest.mark.long
def test_the_second_direction_begins_without_a_load_while_the_first_master_is_written_to(net: Net) -> None:
    net.configure(FORTH.replace("RULE", NEWEST[0]), BACK.replace("RULE", NEWEST[1]))
    for side in ("a", "b"):
        net.at(side, "CREATE TABLE public.t (id int PRIMARY KEY, at timestamptz, v text, w text)")
    net.at("a", f"INSERT INTO public.t SELECT g, '2026-01-01', 'v', 'w' FROM generate_series(1, {ROWS}) g")
    forth = net.update("AB_", "b")
    net.prepare(forth)
    with net.applying(("AB_", "b")) as running:
        net.load(forth)
        until(lambda: net.state("AB_", "b") is SlaveState.NORMAL, running)
        net.at("a", "UPDATE public.t SET v = 'before', at = now() WHERE id = 1")
        back = net.update("BA_", "a")
        net.prepare(back)
        net.at("a", "UPDATE public.t SET v = 'during', at = now() WHERE id = 2")
        with net.applying(("BA_", "a")) as both:
            assert sum(report.rows for report in net.load(back)) == 0
            until(lambda: net.state("BA_", "a") is SlaveState.NORMAL, both)
            net.await_current("AB_", "b", running)
            net.at("b", "UPDATE public.t SET w = 'there', at = now() WHERE id = 2")
            net.await_current("BA_", "a", both)
    assert net.at("a", "SELECT v, w FROM public.t WHERE id IN (1, 2) ORDER BY id") == [
        ("before", "w"), ("during", "there")
    ]  # fmt: skip
    net.assert_equal("a", "b", "t")


@pytest.mark.long
def test_rows_that_differ_are_mended_by_the_rule_in_both_directions(net: Net) -> None:
    two_ways(net, NEWEST)
    # What no trigger saw: as after a restore of one side.
    for side, statement in (
        ("a", "UPDATE public.t SET v = 'newer here', at = '2026-02-01' WHERE id = 1"),
        ("b", "UPDATE public.t SET v = 'newer there', at = '2026-02-01' WHERE id = 2"),
        ("a", "DELETE FROM public.t WHERE id = 3"),
        ("b", "DELETE FROM public.t WHERE id = 4"),
    ):
        net.at(side, "SET session_replication_role = replica")
        net.at(side, statement)
        net.at(side, "RESET session_replication_role")

    def looked(prefix: str, slave: str, action: Action) -> TableResult:
        return resync(net.pair(prefix, slave), net.store, TableName("public", "t"), CompareOptions(), action, None)

    with net.applying(("AB_", "b"), ("BA_", "a")) as running:
        net.await_current("AB_", "b", running)
        net.await_current("BA_", "a", running)
        proposed = looked("AB_", "b", Action.VERIFY).finding
        first, second = looked("AB_", "b", Action.REPAIR), looked("BA_", "a", Action.REPAIR)
        again = looked("AB_", "b", Action.VERIFY)
    assert (proposed.rule, proposed.proposed) == ("newest: at", {Changes.SLAVE: 2, Changes.MASTER: 2})
    assert {example.key["id"]: example.changes for example in proposed.examples} == {
        "1": Changes.SLAVE, "2": Changes.MASTER, "3": Changes.MASTER, "4": Changes.SLAVE
    }  # fmt: skip
    assert (first.repaired, second.repaired) == (2, 2)
    assert again.outcome is Outcome.IDENTICAL
    net.assert_equal("a", "b", "t")
    assert net.at("a", "SELECT v FROM public.t WHERE id <= 4 ORDER BY id") == [
        ("newer here",), ("newer there",), ("v",), ("v",)
    ]  # fmt: skip


@pytest.mark.long
def test_both_sides_may_have_a_table_otherwise(net: Net) -> None:
    net.configure(*(text.replace("RULE", NEWEST[0]).replace("{'public.*': {}}", lines) for text, lines in MAPPED))
    net.at("a", "CREATE TABLE public.t (id int PRIMARY KEY, at timestamptz, v text, w text, mine text)")
    net.at("b", 'CREATE SCHEMA far; CREATE TABLE far."T" (id int PRIMARY KEY, at timestamptz, "V v" text, w text)')
    rows = f"SELECT g, '2026-01-01', 'v', 'w' FROM generate_series(1, {ROWS}) g"
    net.at("a", f"INSERT INTO public.t {rows}")
    net.at("b", f'INSERT INTO far."T" {rows}')
    net.at("a", "INSERT INTO public.t VALUES (500, '2026-01-01', 'v', 'w')")
    net.at("b", "INSERT INTO far.\"T\" VALUES (500, '2026-01-01', 'v', 'w')")
    net.at("a", "UPDATE public.t SET mine = 'hunter' || id")
    # The application of the other side knows the table by the first one's names.
    net.at("b", 'CREATE VIEW public.t AS SELECT id, at, "V v" AS v, w FROM far."T"')
    for prefix, slave in (("AB_", "b"), ("BA_", "a")):
        net.capture(prefix)
        net.follow(prefix, slave)
    with writers(net, seed=8) as done:
        for _ in range(2):
            start = sum(done)
            with net.applying(("AB_", "b"), ("BA_", "a")) as running:
                until(lambda: sum(done) > start + 1_000, running)  # noqa: B023
    net.at("b", "UPDATE far.\"T\" SET w = 'there', at = now() WHERE id = 500")
    with net.applying(("AB_", "b"), ("BA_", "a")) as running:
        net.await_current("AB_", "b", running)
        net.await_current("BA_", "a", running)
    theirs = net.at("b", 'SELECT id, at, "V v", w FROM far."T" ORDER BY 1')
    assert net.at("a", "SELECT id, at, v, w FROM public.t ORDER BY 1") == theirs
    images = net.at("b", "SELECT content, oldcontent, held FROM public.ab_rejects")
    assert images and net.at("a", "SELECT 1 FROM public.ba_rejects"), "the writers met no conflict"
    assert "hunter" not in str(images)
    assert net.at("a", "SELECT v, w, mine FROM public.t WHERE id = 500") == [("v", "there", "hunter500")]
