"""A slave whose apply has stopped is compared exactly, at its position."""

from collections.abc import Callable

import pytest

from sluice.coordination import redis_store
from sluice.database.conflicts import Drift
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import CouldNotCompare, Kind, Outcome
from sluice.verify.resync import compare_table
from tests.rig.rig import Rig
from tests.scenarios.verify.verifying import counts, look

T = "CREATE TABLE public.t (id int PRIMARY KEY, v text, n numeric(10,2), at timestamptz DEFAULT now())"
FILL = "INSERT INTO public.t (id, v, n) SELECT i, 'v' || i, i FROM generate_series(1, 5000) i"
GO_ON = """
UPDATE public.t SET v = 'later' WHERE id BETWEEN 10 AND 30;
UPDATE public.t SET v = v || '!', n = n + 1 WHERE id BETWEEN 20 AND 40;
DELETE FROM public.t WHERE id BETWEEN 35 AND 50;
INSERT INTO public.t (id, v) VALUES (36, 'again'), (9001, 'new');
UPDATE public.t SET id = 9002 WHERE id = 60;
INSERT INTO public.t (id, v) VALUES (60, 'another');
DELETE FROM public.t WHERE id = 9001"""


def stopped(pair: Rig) -> None:
    """The apply stops at a row that somebody changed on the slave; the master continues."""
    with pytest.raises(Drift, match="row id = '15'"), pair.apply() as running:
        pair.await_normal_mode(running)
        pair.slave.execute("UPDATE public.t SET v = 'mine' WHERE id = 15")
        pair.master.execute("UPDATE public.t SET v = 'theirs' WHERE id = 15")
        running.thread.join(30)
        assert not running.thread.is_alive(), "the apply does not stop at drift"
    pair.master.execute(GO_ON)


def test_the_row_at_which_the_apply_stopped_is_found_and_nothing_that_only_waits(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    pair.master.execute(FILL)
    with pair.apply():
        pair.await_current()
    pair.master.execute("ANALYZE public.t")
    stopped(pair)
    finding = look(pair, "t")
    assert counts(finding) == {"different": 1} and finding.outcome is Outcome.DIFFERENT
    assert [(e.key, e.master and e.master["v"], e.slave and e.slave["v"]) for e in finding.examples] == [
        ({"id": "15"}, "v15", "mine")
    ]
    assert finding.columns == {"v": 1}
    assert finding.waiting == 1 + 21 + 21 + 16 + 2 + 1 + 1 + 1
    assert finding.rows_master == finding.rows_slave == 5000
    assert finding.position == pair.checkpoint.position.text()  # type: ignore[union-attr]


@pytest.mark.long
def test_rows_changed_by_hand_are_found_whether_changes_of_them_wait_or_not(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    pair.master.execute(FILL)
    with pair.apply():
        pair.await_current()
    stopped(pair)
    pair.slave.execute("UPDATE public.t SET n = -1 WHERE id IN (22, 1000)")
    pair.slave.execute("DELETE FROM public.t WHERE id IN (36, 60, 2000)")
    pair.slave.execute("INSERT INTO public.t (id) VALUES (9001), (9002), (9003)")
    # As the master has it by now, and not as it was where the slave stands.
    pair.slave.execute("DELETE FROM public.t WHERE id = 44")
    finding = look(pair, "t", sessions=3)
    keys = {kind: {key for (key,) in finding.found[kind].keys} for kind in Kind}
    assert keys == {
        Kind.DIFFERENT: {"15", "22", "1000"}, Kind.MISSING: {"36", "60", "2000", "44"},
        Kind.EXTRA: {"9001", "9002", "9003"},
    }  # fmt: skip
    assert finding.rows_master == 5000 and finding.rows_slave == 4999


@pytest.mark.long
def test_texts_of_a_wider_type_of_the_slave_are_the_same_values(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.w (id numeric(6,1), k int, n numeric(10,2), c varchar(9), PRIMARY KEY (k, id))")
    pair.slave.execute("ALTER TABLE public.w ALTER id TYPE numeric(9,3), ALTER n TYPE numeric(14,4), ALTER c TYPE text")
    pair.master.execute("INSERT INTO public.w SELECT i, i % 3, i, i FROM generate_series(1, 50) i")
    with pair.apply():
        pair.await_current()
    pair.master.execute("UPDATE public.w SET n = n + 1; DELETE FROM public.w WHERE id < 9")
    pair.master.execute("INSERT INTO public.w VALUES (0.5, 0)")
    assert counts(look(pair, "w")) == {}
    pair.slave.execute("UPDATE public.w SET n = n + 0.0001 WHERE id = 3")
    assert counts(look(pair, "w")) == {"different": 1}


def test_a_table_without_a_key_is_compared_unless_changes_of_it_wait(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.k (v text)")
    pair.master.execute("INSERT INTO public.k SELECT 'v' FROM generate_series(1, 5)")
    with pair.apply():
        pair.await_current()
    pair.slave.execute("INSERT INTO public.k VALUES ('mine')")
    assert counts(look(pair, "k")) == {"extra": 1}
    pair.master.execute("INSERT INTO public.k VALUES ('later')")
    with pytest.raises(CouldNotCompare, match=r"has no key, wait for it\. Start the DAG cdc_apply"):
        look(pair, "k")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("TRUNCATE public.t", r"change of the table \(TRUNCATE\) waits for it\. Start the DAG"),
        (
            "ALTER TABLE public.t ALTER v SET DEFAULT 'x'",
            r"change of the table \(ALTER\) waits for it\. Start the DAG",
        ),
        ("ALTER TABLE public.t ADD extra int", "cannot hold on the slave what it holds on the master: .*extra"),
    ],
)
def test_changes_that_cannot_be_undone_are_named(rig: Callable[..., Rig], statement: str, reason: str) -> None:
    pair = rig(T)
    pair.master.execute(FILL)
    with pair.apply():
        pair.await_current()
    pair.master.execute(statement.encode())
    with pytest.raises(CouldNotCompare, match=reason):
        look(pair, "t")


def test_a_slave_at_no_position_is_not_compared_and_the_reason_is_given(rig: Callable[..., Rig]) -> None:
    from sluice.model.slave_state import SlaveState

    pair = rig(T)
    pair.checkpoints.move(SlaveState.INCONSISTENT, "the update was canceled")
    found = compare_table(pair.pair, redis_store.connect(pair.redis_url), TableName("public", "t"), CompareOptions())
    assert found.outcome is Outcome.COULD_NOT_COMPARE
    assert "the slave is INCONSISTENT: the update was canceled" in found.reason


def test_a_checkpoint_that_lags_behind_the_rows_is_not_believed(rig: Callable[..., Rig]) -> None:
    pair = rig(T, kept="redis")
    with pytest.raises(CouldNotCompare, match="does not run"):
        look(pair, "t")


@pytest.mark.long
def test_an_apply_that_was_stopped_goes_on_after_the_comparison(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    pair.master.execute(FILL)
    with pair.apply():
        pair.await_current()
    pair.master.execute(GO_ON)
    assert counts(look(pair, "t")) == {}
    with pair.apply():
        pair.await_current()
        assert look(pair, "t").waiting is None and pair.differences() == {}


@pytest.mark.long
def test_a_table_that_is_not_loaded_is_no_difference_whether_the_apply_runs_or_not(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    store = redis_store.connect(pair.redis_url)
    joining = TableName("public", "joins")
    pair.master.execute("CREATE TABLE public.joins AS SELECT 1 AS id")
    pair.slave.execute("CREATE TABLE public.joins (id int)")
    with pair.apply() as running:
        pair.capture_table("joins")
        pair.await_current()
        pair.await_normal_mode(running)
        seen = [compare_table(pair.pair, store, joining, CompareOptions())]
    seen.append(compare_table(pair.pair, store, joining, CompareOptions()))
    for finding in seen:
        assert finding.outcome is Outcome.COULD_NOT_COMPARE and "has not loaded public.joins" in finding.reason
        assert "initial_update with prefix DEMO_, slave dr1 and tables" in finding.reason
