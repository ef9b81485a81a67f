"""Differences with a known cause, and what happens to the cause when they are repaired."""

from collections.abc import Callable

import pytest

from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Kind, Outcome
from sluice.verify.page import page
from sluice.verify.report import as_dict
from sluice.verify.resync import Action, TableResult, resync
from tests.rig.rig import Rig

TABLES = """
CREATE TABLE public.t (id int PRIMARY KEY, a text, b int);
CREATE TABLE public.two (x int, "y y" text, a text, PRIMARY KEY ("y y", x));
CREATE TABLE public.k (a text, b int)"""


@pytest.fixture
def pair(rig: Callable[..., Rig]) -> Rig:
    made = rig(TABLES, policy="reject")
    made.master.execute("INSERT INTO public.t SELECT g, 'a', g FROM generate_series(1, 9) g")
    made.master.execute("INSERT INTO public.two SELECT g, 'k:' || g, 'a' FROM generate_series(1, 9) g")
    made.master.execute("INSERT INTO public.k SELECT 'a', g FROM generate_series(1, 9) g")
    return made


def run(pair: Rig, table: str, action: Action = Action.VERIFY) -> TableResult:
    name = TableName("public", table)
    return resync(pair.pair, redis_store.connect(pair.redis_url), name, CompareOptions(), action, 1_000)


def statuses(pair: Rig) -> list[tuple[str, RejectStatus]]:
    found = RejectStore(pair.slave, pair.pair.prefix, "public", "dr1").read(tuple(RejectStatus))
    return [(reject.table.name, reject.status) for reject in found]


@pytest.mark.long
def test_rows_of_changes_that_were_set_aside_are_shown_so_and_their_repair_settles_these(pair: Rig) -> None:
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.slave.execute("UPDATE public.t SET a = 'mine' WHERE id IN (1, 2, 7)")
        pair.slave.execute("UPDATE public.two SET a = 'mine' WHERE x = 3")
        pair.master.execute("UPDATE public.t SET b = 10 WHERE id = 1; DELETE FROM public.t WHERE id = 2")
        pair.master.execute("UPDATE public.two SET a = 'b' WHERE x = 3")
        pair.await_current()
        assert statuses(pair) == [("t", "set aside"), ("t", "set aside"), ("two", "set aside")]

        found = run(pair, "t")
        told = as_dict("DEMO_", "dr1", "verify", "2026-01-01T00:00:00", [found])["tables"][0]
        assert found.outcome is Outcome.DIFFERENT
        assert (told["different"], told["extra"], told["set_aside"]) == (2, 1, 2)
        causes = {example["key"]["id"]: example["cause"] for example in told["examples"]}
        assert causes["7"] == "" and "was set aside" in causes["1"] and "was set aside" in causes["2"]
        assert sum(told["causes"]["rejects"].values()) == 2
        assert all("found a = 'mine'" in reason for reason in told["causes"]["rejects"])
        masked = as_dict("DEMO_", "dr1", "verify", "2026-01-01T00:00:00", [found], ["public.t.a"])
        assert "mine" not in str(masked) and "masked" in str(masked["tables"][0]["causes"]["rejects"])
        assert "The cause in <b>2</b> of these rows" in page([as_dict("DEMO_", "dr1", "verify", "", [found])])

        fixed = run(pair, "t", Action.REPAIR)
        assert (fixed.repaired, fixed.finding.settled, fixed.outcome) == (3, 2, Outcome.IDENTICAL)
        assert statuses(pair) == [("t", "dropped"), ("t", "dropped"), ("two", "set aside")]
        (settled, _, _) = RejectStore(pair.slave, pair.pair.prefix, "public", "dr1").read(tuple(RejectStatus))
        assert settled.settled_by == "resync" and "its row was repaired" in str(settled.answer)

        assert run(pair, "two", Action.REPAIR).finding.settled == 1, "a key of two columns"
        pair.master.execute("UPDATE public.t SET b = 11 WHERE id = 1")
        pair.await_current()
        assert pair.differences() == {}


def test_without_a_key_the_rows_before_and_after_a_change_tell(pair: Rig) -> None:
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.slave.execute("DELETE FROM public.k WHERE b = 4; UPDATE public.k SET a = 'mine' WHERE b = 8")
        pair.master.execute("UPDATE public.k SET a = 'b' WHERE b = 4")
        pair.await_current()
        assert statuses(pair) == [("k", "set aside")]
        found = run(pair, "k")
        assert found.finding.rejected == 1 and found.finding.found[Kind.MISSING].count == 2
        fixed = run(pair, "k", Action.REPAIR)
        assert (fixed.finding.settled, fixed.outcome) == (1, Outcome.IDENTICAL)
        assert statuses(pair) == [("k", "dropped")]


@pytest.mark.long
def test_a_repair_that_is_refused_settles_nothing(pair: Rig) -> None:
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.slave.execute("DELETE FROM public.t WHERE id = 3")
        pair.slave.execute("ALTER TABLE public.t ADD CONSTRAINT c CHECK (id <> 3)")
        pair.master.execute("UPDATE public.t SET b = 10 WHERE id = 3")
        pair.await_current()
        fixed = run(pair, "t", Action.REPAIR)
        assert fixed.refused and fixed.finding.settled == 0
        assert statuses(pair) == [("t", "set aside")]
