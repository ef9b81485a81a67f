"""Pure decisions: what happens after a job has ended, and what a new try does about a running job."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.airflow.job import Kind, Owner, Result
from sluice.airflow.job_operator import Takeover, decide_takeover
from sluice.airflow.restart_policy import (
    HEALTHY_SECONDS,
    SLOT_SECONDS,
    YOUNG_DEATHS,
    Next,
    Watched,
    asks_spark,
    judge,
    why_gone,
)
from sluice.exit_status import TERMINAL, TRANSIENT


def result(rc: int, message: str = "words") -> Result:
    return Result(rc, 0.0, message)


results = st.one_of(st.none(), st.builds(result, st.integers(0, 255)))


@given(st.sampled_from(Kind), st.text(), st.floats(0, 1e6), st.integers(0, 1000))
def test_a_job_that_asks_for_a_person_is_never_started_again(
    kind: Kind, message: str, lifetime: float, attempt: int
) -> None:
    verdict = judge(kind, result(TERMINAL, message), lifetime, attempt)
    assert verdict.next is Next.FAIL
    assert verdict.why == message or not message


@given(results, st.floats(0, 1e6), st.integers(0, 10_000))
def test_an_apply_is_started_again_for_ever_unless_it_asks_for_a_person(
    ended: Result | None, lifetime: float, attempt: int
) -> None:
    verdict = judge(Kind.APPLY, ended, lifetime, attempt)
    if ended is None or ended.rc != TERMINAL:
        assert verdict.next is Next.RESTART
        assert 0 <= verdict.delay <= 60


@given(results, st.integers(0, 10_000))
def test_after_a_healthy_life_the_next_one_begins_at_once(ended: Result | None, attempt: int) -> None:
    verdict = judge(Kind.APPLY, ended, HEALTHY_SECONDS, attempt)
    assert (verdict.delay, verdict.attempt) == (0, 0)


def test_waiting_doubles_while_jobs_die_young_and_kills_wait_less() -> None:
    def delays(rc: int) -> list[float]:
        return [judge(Kind.APPLY, result(rc), 1, attempt).delay for attempt in range(9)]

    assert delays(1) == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert delays(137) == [0, 1, 2, 4, 5, 5, 5, 5, 5]


def test_a_finished_load_ends_its_task_and_a_stopped_one_does_not() -> None:
    assert judge(Kind.LOAD, result(0), 5, 0).next is Next.FINISH
    assert judge(Kind.LOAD, result(143), 5, 0).next is Next.RESTART


@pytest.mark.parametrize("rc", [1, TRANSIENT])
def test_a_load_that_gives_up_again_and_again_ends_the_update(rc: int) -> None:
    assert judge(Kind.LOAD, result(rc), 5, YOUNG_DEATHS - 2).next is Next.RESTART
    assert judge(Kind.LOAD, result(rc), 5, YOUNG_DEATHS - 1).next is Next.FAIL
    assert judge(Kind.LOAD, result(137), 5, YOUNG_DEATHS * 2).next is Next.RESTART
    assert judge(Kind.LOAD, None, 5, YOUNG_DEATHS * 2).next is Next.RESTART


MINE = Owner("cdc_apply", "run1", "apply", try_number=2, max_tries=10)
OTHER = Owner("cdc_apply", "run2", "apply")


def test_without_a_live_job_one_is_launched() -> None:
    assert decide_takeover(MINE, None, stopping=False, watched=False, adopts=True) is Takeover.LAUNCH


def test_a_retry_continues_with_its_running_job() -> None:
    live = Owner("cdc_apply", "run1", "apply", try_number=1, max_tries=10)
    assert decide_takeover(MINE, live, stopping=False, watched=False, adopts=True) is Takeover.REATTACH


def test_a_cleared_task_replaces_its_job_before_the_triggerer_stopped_it() -> None:
    live = Owner("cdc_apply", "run1", "apply", try_number=1, max_tries=9)
    assert decide_takeover(MINE, live, stopping=False, watched=False, adopts=True) is Takeover.REPLACE


def test_a_job_of_a_live_run_is_left_alone() -> None:
    assert decide_takeover(MINE, OTHER, stopping=False, watched=True, adopts=True) is Takeover.LEAVE


def test_an_apply_that_outlived_its_run_is_adopted_and_a_load_is_replaced() -> None:
    assert decide_takeover(MINE, OTHER, stopping=False, watched=False, adopts=True) is Takeover.ADOPT
    assert decide_takeover(MINE, OTHER, stopping=False, watched=False, adopts=False) is Takeover.REPLACE


@given(st.sampled_from([MINE, OTHER]), st.booleans(), st.booleans())
def test_a_dying_job_is_never_joined(live: Owner, watched: bool, adopts: bool) -> None:
    assert decide_takeover(MINE, live, stopping=True, watched=watched, adopts=adopts) is Takeover.REPLACE


LEASE = 10.0


def seen(**values: object) -> Watched:
    return replace(Watched(age=1000.0, begun=True, unleased=0.0, spark=None), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("watched", "reason"),
    [
        (seen(), ""),
        (seen(spark="active"), ""),
        (seen(unleased=LEASE), ""),
        (seen(unleased=LEASE + 2), "frozen"),
        (seen(unleased=LEASE + 2, spark="active"), "frozen"),
        (seen(spark="ended"), "has ended"),
        (seen(spark="unknown"), "does not know"),
        (seen(begun=False, age=SLOT_SECONDS - 1, unleased=SLOT_SECONDS - 1), ""),
        (seen(begun=False, age=SLOT_SECONDS, spark="active"), "free slot"),
        (seen(begun=False, age=1.0, spark="unknown"), "does not know"),
    ],
)
def test_a_query_is_lost_when_spark_says_so_or_its_task_is_silent(watched: Watched, reason: str) -> None:
    assert reason in why_gone(watched, LEASE) if reason else why_gone(watched, LEASE) == ""


@given(st.floats(0, 1e6), st.floats(0, LEASE), st.booleans())
def test_a_query_that_holds_its_lease_is_never_lost_while_spark_does_not_say_so(
    age: float, unleased: float, silent: bool
) -> None:
    """However long Spark does not answer: its server is away, and the executor continues."""
    assert why_gone(Watched(age, True, unleased, None if silent else "active"), LEASE) == ""


def test_spark_is_asked_once_a_minute_and_at_once_when_the_task_is_silent() -> None:
    assert not asks_spark(since=59, quiet=0.5)
    assert asks_spark(since=60, quiet=0.5)
    assert asks_spark(since=3, quiet=3)
    assert not asks_spark(since=2, quiet=1000)
