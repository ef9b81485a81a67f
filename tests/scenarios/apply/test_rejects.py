"""Changes that do not match become rejects, and can be applied later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from sluice.control.rejects import RejectStore
from sluice.database.conflicts import ChangeRefused, Drift
from sluice.model.names import TableName
from sluice.model.reject import Reject, RejectStatus
from tests.rig.rig import Rig

TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, a text, b int)"
EVERY = tuple(RejectStatus)


def store(pair: Rig) -> RejectStore:
    return RejectStore(pair.slave, pair.pair.prefix, "public", "dr1")


def rejects(pair: Rig) -> list[Reject]:
    return store(pair).read(EVERY)


def ask(pair: Rig, number: int, *, force: bool = False) -> Reject:
    """Requests it, and returns the result."""
    assert store(pair).move([number], RejectStatus.ASKED, "anna", force=force) == [number]
    found: list[Reject] = []

    def answered() -> bool:
        found[:] = store(pair).read(EVERY, [number])
        return found[0].status is not RejectStatus.ASKED

    pair.await_that(answered)
    return found[0]


def set_aside(pair: Rig, on_slave: str, on_master: str) -> Reject:
    """A change of the master that does not match, since the slave was changed by hand before it."""
    pair.slave.execute(on_slave)
    pair.master.execute(on_master)
    pair.await_current()
    return rejects(pair)[-1]


@contextmanager
def applying(pair: Rig) -> Iterator[None]:
    """A running apply that is past its safe mode."""
    with pair.apply() as running:
        pair.await_normal_mode(running)
        yield


def rows(pair: Rig) -> list[str]:
    return pair.rows(pair.slave, TableName("public", "t"))


def filled(rig: Callable[..., Rig], **options: Any) -> Rig:
    pair = rig(TABLE, policy="reject", **options)
    pair.master.execute("INSERT INTO public.t SELECT g, 'a', g FROM generate_series(1, 5) g")
    return pair


@pytest.mark.one_in(2)
@pytest.mark.parametrize("staged", [False, True])
def test_a_reject_has_the_expected_row_and_the_slaves(rig: Callable[..., Rig], staged: bool) -> None:
    pair = filled(rig, stage=1 if staged else 20_000)
    with applying(pair):
        pair.slave.execute("UPDATE public.t SET a = 'mine' WHERE id = 1; DELETE FROM public.t WHERE id = 2")
        pair.slave.execute("INSERT INTO public.t VALUES (9, 'mine', NULL)")
        with pair.master.transaction():
            pair.master.execute("UPDATE public.t SET b = b + 10")
            pair.master.execute("DELETE FROM public.t WHERE id = 1")
            pair.master.execute("INSERT INTO public.t VALUES (9, 'new', 1)")
        pair.await_current()
    assert rows(pair) == ["(1,mine,1)", "(3,a,13)", "(4,a,14)", "(5,a,15)", "(9,mine,)"]
    changed, gone, deleted, there = rejects(pair)
    assert (changed.action, changed.keys, changed.status) == ("UPDATE", ("1",), RejectStatus.SET_ASIDE)
    assert "expected a = 'a' on the slave and found a = 'mine'" in changed.reason
    assert "on_conflict" not in changed.reason, "it is set already"
    assert '<col name="b">11</col>' in (changed.content or "")
    assert '<col name="b">1</col>' in (changed.oldcontent or "")
    assert changed.held == '<col name="id">1</col><col name="a">mine</col><col name="b">1</col>'
    assert (gone.held, "found none" in gone.reason) == (None, True)
    assert (deleted.action, there.action) == ("DELETE", "INSERT")
    assert there.held == '<col name="id">9</col><col name="a">mine</col><col name="b" type="null"></col>'


@pytest.mark.long
def test_rejects_apply_to_a_mended_row(rig: Callable[..., Rig]) -> None:
    pair = filled(rig)
    with applying(pair):
        by_hand = "UPDATE public.t SET a = 'mine' WHERE id = 1"
        first = set_aside(pair, by_hand, "UPDATE public.t SET b = 11 WHERE id = 1")
        second = set_aside(pair, by_hand, "UPDATE public.t SET b = 12 WHERE id = 1")
        refused = ask(pair, first.id)
        assert (refused.status, refused.settled_by) == (RejectStatus.SET_ASIDE, None)
        assert "expected a = 'a' on the slave and found a = 'mine'" in (refused.answer or "")
        pair.slave.execute("UPDATE public.t SET a = 'a' WHERE id = 1")
        assert "expected b = '11'" in (ask(pair, second.id).answer or ""), "the other one comes before it"
        for each in (first, second):
            applied = ask(pair, each.id)
            assert (applied.status, applied.settled_by, applied.answer) == (RejectStatus.APPLIED, "anna", None)
            assert applied.settled_at and abs(datetime.now(UTC) - applied.settled_at) < timedelta(minutes=1)
        assert pair.differences() == {}
        assert store(pair).move([first.id], RejectStatus.ASKED, "bob") == [], "it is applied once"
        pair.master.execute("UPDATE public.t SET b = 0")
        pair.await_current()
        assert pair.differences() == {}
    assert len(rejects(pair)) == 2


@pytest.mark.one_in(6)
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("later", ["window", "same window", "truncate"])
def test_an_outdated_reject_needs_force(rig: Callable[..., Rig], later: str, staged: bool) -> None:
    pair = filled(rig, stage=1 if staged else 20_000)
    with applying(pair):
        pair.slave.execute("INSERT INTO public.t VALUES (7, 'x', 7)")
        with pair.master.transaction():
            pair.master.execute("INSERT INTO public.t VALUES (7, 'x', 7)")  # refused: it is there
            if later == "same window":
                pair.master.execute("DELETE FROM public.t WHERE id = 7")
                pair.slave.execute("UPDATE public.t SET a = 'mine' WHERE id = 1")
                pair.master.execute("UPDATE public.t SET b = 0 WHERE id = 1")
        pair.await_current()
        if later == "window":
            pair.master.execute("DELETE FROM public.t WHERE id = 7")
        elif later == "truncate":
            pair.master.execute("TRUNCATE public.t")
        pair.await_current()
        assert "(7,x,7)" not in rows(pair)
        (reject,) = [each for each in rejects(pair) if each.action == "INSERT"]
        refused = ask(pair, reject.id)
        assert refused.status is RejectStatus.SET_ASIDE
        assert "was applied since" in (refused.answer or "")
        assert "(7,x,7)" not in rows(pair)
        assert ask(pair, reject.id, force=True).status is RejectStatus.APPLIED
        assert "(7,x,7)" in rows(pair)


def test_a_dropped_reject_is_settled(rig: Callable[..., Rig]) -> None:
    pair = filled(rig)
    with applying(pair):
        reject = set_aside(pair, "DELETE FROM public.t WHERE id = 1", "UPDATE public.t SET b = 11 WHERE id = 1")
        assert store(pair).move([reject.id], RejectStatus.DROPPED, "anna") == [reject.id]
        assert store(pair).move([reject.id], RejectStatus.ASKED, "anna") == []
    (dropped,) = rejects(pair)
    assert (dropped.status, dropped.settled_by) == (RejectStatus.DROPPED, "anna")


def test_killed_half_way_it_is_applied_once(rig: Callable[..., Rig]) -> None:
    """The session dies after the change was made and before its commit; the request is kept."""
    pair = filled(rig)
    pair.slave.execute(
        """
        CREATE TABLE public.deaths (n int);
        CREATE FUNCTION public.die() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.status = 'applied' AND NOT EXISTS (SELECT FROM public.deaths) THEN
                PERFORM pg_terminate_backend(pg_backend_pid());
            END IF;
            RETURN NEW;
        END $$
        """
    )
    pair.slave.execute(
        "CREATE TRIGGER die BEFORE UPDATE ON public.demo_rejects FOR EACH ROW EXECUTE FUNCTION public.die();"
        "ALTER TABLE public.demo_rejects ENABLE ALWAYS TRIGGER die"
    )
    with applying(pair):
        reject = set_aside(pair, "UPDATE public.t SET b = 0 WHERE id = 1", "UPDATE public.t SET b = 11 WHERE id = 1")
        pair.slave.execute("UPDATE public.t SET b = 1 WHERE id = 1")
        epoch = pair.checkpoint.epoch
        store(pair).move([reject.id], RejectStatus.ASKED, "anna")
        pair.await_that(lambda: pair.checkpoint.epoch > epoch)
        assert "(1,a,1)" in rows(pair), "the change went with the session"
        pair.slave.execute("INSERT INTO public.deaths VALUES (1)")
        pair.await_that(lambda: rejects(pair)[0].status is RejectStatus.APPLIED)
        assert pair.differences() == {}


@pytest.mark.long
def test_a_request_made_before_the_apply_starts_is_carried_out(rig: Callable[..., Rig]) -> None:
    pair = filled(rig)
    with applying(pair):
        reject = set_aside(pair, "DELETE FROM public.t WHERE id = 1", "UPDATE public.t SET b = 11 WHERE id = 1")
    store(pair).move([reject.id], RejectStatus.ASKED, "anna", force=True)
    with pair.apply():
        pair.await_that(lambda: rejects(pair)[0].status is RejectStatus.APPLIED)
    assert pair.differences() == {}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("force", [True, False])
def test_rejects_of_another_policy_can_still_be_settled(rig: Callable[..., Rig], force: bool) -> None:
    pair = filled(rig)
    with applying(pair):
        by_hand = "UPDATE public.t SET a = 'mine' WHERE id = 1"
        reject = set_aside(pair, by_hand, "UPDATE public.t SET b = 11 WHERE id = 1")
    pair.pair = replace(pair.pair, slave=replace(pair.pair.slave, on_conflict="overwrite"))
    with pair.apply() as running:
        pair.await_current()
        assert running.loop.mode.reason == "configured"
        answered = ask(pair, reject.id, force=force)
    assert answered.status is (RejectStatus.APPLIED if force else RejectStatus.SET_ASIDE)
    assert ("(1,a,11)" if force else "(1,mine,1)") in rows(pair)


@pytest.mark.long
def test_an_outage_makes_no_reject(rig: Callable[..., Rig]) -> None:
    pair = filled(rig)
    with applying(pair):
        for number in range(5):
            with pair.slave.transaction():
                pair.slave.execute("LOCK TABLE public.t")  # a window is under way when its session ends
                pair.master.execute("UPDATE public.t SET b = b + 1")
                pair.await_that(lambda: _waiting(pair) > 0)
                pair.slave.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice DEMO_ dr1'"
                    " AND pid <> pg_backend_pid() AND datname = current_database()"
                )
            pair.await_current()
            assert pair.differences() == {}, number
    assert rejects(pair) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("policy", ["stop", "reject"])
def test_drift_that_only_the_commit_finds_is_named(rig: Callable[..., Rig], policy: str) -> None:
    pair = rig(
        "CREATE TABLE public.t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)",
        policy=policy,
        slave_role=True,  # with the other accounts PostgreSQL does not check it at all
    )
    with applying(pair):
        pair.slave.execute("INSERT INTO public.t VALUES (1, 'mine')")
        with pair.master.transaction():
            pair.master.execute("INSERT INTO public.t VALUES (1, 'new'), (2, 'new')")
        if policy == "stop":
            with pytest.raises(Drift, match=r"public\.t.*t_pkey.*the value free.*\(id\)=\(1\) already exists"):
                pair.await_current()
        else:
            pair.await_current()
            (reject,) = rejects(pair)
            assert "(1)" in reject.reason
            assert rows(pair) == ["(1,mine)", "(2,new)"]


REFUSALS = {
    "an index's limit": ("CREATE INDEX ON public.t (a)", "index row"),
    "a trigger": (
        """
        CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF NEW.id = 7 THEN RAISE 'no seventh'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER no BEFORE INSERT OR UPDATE ON public.t FOR EACH ROW EXECUTE FUNCTION public.no();
        ALTER TABLE public.t ENABLE ALWAYS TRIGGER no
        """,
        "no seventh",
    ),
}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("stage", [20_000, 1], ids=["by the driver", "staged"])
@pytest.mark.parametrize("policy", ["stop", "reject"])
@pytest.mark.parametrize("by", REFUSALS)
def test_other_refusals_of_the_slave_are_named_with_the_row(
    rig: Callable[..., Rig], by: str, policy: str, stage: int
) -> None:
    on_slave, said = REFUSALS[by]
    pair = rig(TABLE, policy=policy, stage=stage)
    pair.slave.execute(on_slave.encode())
    too_long = "SELECT 7, string_agg(md5(g::text), ''), 0 FROM generate_series(1, 900) g"
    with applying(pair):
        with pair.master.transaction():
            pair.master.execute("INSERT INTO public.t VALUES (6, 'a', 0)")
            pair.master.execute(f"INSERT INTO public.t {too_long}".encode())
            pair.master.execute("INSERT INTO public.t VALUES (8, 'a', 0)")
        if policy == "stop":
            message = rf"public\.t, row id = '7': the slave refuses the INSERT: .*{said}.*\. Change the trigger"
            with pytest.raises(ChangeRefused, match=message):
                pair.await_current()
            assert rows(pair) == []
        else:
            pair.await_current()
            assert rows(pair) == ["(6,a,0)", "(8,a,0)"]
            (reject,) = rejects(pair)
            assert (reject.keys, said in reject.reason) == (("7",), True)
            pair.slave.execute("ALTER TABLE public.t DISABLE TRIGGER USER; DROP INDEX IF EXISTS public.t_a_idx")
            assert ask(pair, reject.id).status is RejectStatus.APPLIED
            assert pair.differences() == {}


def test_rejects_of_an_earlier_release_are_completed(rig: Callable[..., Rig]) -> None:
    pair = filled(rig)
    pair.slave.execute(
        "ALTER TABLE public.demo_rejects DROP held, DROP key_columns, DROP keys, DROP newer, DROP status, DROP force,"
        " DROP asked_by, DROP asked_at, DROP settled_by, DROP settled_at, DROP answer"
    )
    pair.slave.execute(
        "INSERT INTO public.demo_rejects (slave, repl_key, schema, tablename, action, reason)"
        " VALUES ('dr1', 1, 'public', 't', 'DELETE', 'old')"
    )
    with pair.apply():
        pair.await_current()
    (old,) = rejects(pair)
    assert (old.reason, old.status, old.keys) == ("old", RejectStatus.SET_ASIDE, ())


def _waiting(pair: Rig) -> int:
    with psycopg.connect(pair.slave.info.dsn, password=pair.slave.info.password, autocommit=True) as other:
        row = other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sluice DEMO_ dr1'"
            " AND wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
    return int(row[0]) if row else 0
