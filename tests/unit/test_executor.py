"""Waits for Spark are interruptible and limited."""

import sys
import threading
from collections.abc import Callable

import pytest

from sluice.errors import Transient
from sluice.executor import ExecutorStuck, ThreadExecutor, run_with_heartbeat
from spark_jobs import apply_query
from spark_jobs.endpoint import Endpoint
from spark_jobs.executors import ExecutorReport, differ, executors_differ
from spark_jobs.job_name import JobName
from spark_jobs.session import SparkExecutor
from tests.errors import raises_code


class Enough(Transient):
    """Stands for a request to stop."""


def never() -> None:
    raise AssertionError("nothing to attend to")


def test_the_result_comes_back() -> None:
    assert run_with_heartbeat(lambda: ThreadExecutor(2).map(lambda number: number * 2, 3), never, 10) == [0, 2, 4]


def test_an_error_of_the_work_comes_back_also_one_that_looks_like_waiting() -> None:
    def fail() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        run_with_heartbeat(fail, lambda: None, 10)


def test_waiting_ends_when_there_is_a_reason() -> None:
    frozen = threading.Event()

    def attend() -> None:
        raise Enough("told to stop")

    with pytest.raises(Enough):
        run_with_heartbeat(frozen.wait, attend, 10)
    frozen.set()


def test_waiting_ends_at_its_limit() -> None:
    frozen, looks = threading.Event(), []
    with pytest.raises(ExecutorStuck, match=r"within 0 s.*Spark has workers"):
        run_with_heartbeat(frozen.wait, lambda: looks.append(1), 0.25)
    frozen.set()
    assert looks


def test_threads_hear_that_they_are_canceled_and_later_ones_are_not_meant() -> None:
    spread = ThreadExecutor(1)
    ended = threading.Event()

    def loader(stopped: Callable[[], bool]) -> None:
        while not stopped():
            ended.wait(0.01)
        ended.set()

    asked = spread.stopped
    thread = threading.Thread(target=lambda: spread.map(lambda _: loader(asked), 1), daemon=True)
    thread.start()
    spread.cancel()
    assert ended.wait(30)
    assert asked() and not spread.stopped()


def test_one_task_runs_in_the_thread_that_asks() -> None:
    assert ThreadExecutor(4).map(lambda _: threading.current_thread(), 1) == [threading.current_thread()]


def test_a_spark_server_that_is_only_outdated_is_to_be_started_anew_and_nothing_else() -> None:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    outdated = differ([ExecutorReport("worker1", python, "another fingerprint", "")])
    said = str(executors_differ("sc://x", outdated))
    assert "start Spark's server again" in said and "Python" not in said
    lacking = differ(
        [ExecutorReport("worker1", python, "another fingerprint", ""), ExecutorReport("worker2", python, "", "pyarrow")]
    )
    assert "./sluice pack" in str(executors_differ("sc://x", lacking))


def test_an_apply_waits_while_executors_have_another_version_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while a new release is brought to machines: one side after the other."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    reports = [ExecutorReport("worker1", python, "another fingerprint", "")]
    monkeypatch.setattr(apply_query, "executor_reports", lambda *_: reports)
    with pytest.raises(apply_query.SparkAway, match="worker1 has another version of Sluice loaded"):
        apply_query._check(None, Endpoint("sc://spark:15002"), JobName(), "test", 1.0)
    reports.append(ExecutorReport("worker2", python, "", "pyarrow"))
    with raises_code("executors-differ", match="pyarrow"):
        apply_query._check(None, Endpoint("sc://spark:15002"), JobName(), "test", 1.0)


def test_executors_have_the_module_of_what_is_sent_along_with_a_task() -> None:
    stopped = SparkExecutor("test", Endpoint("sc://127.0.0.1:1")).stopped
    assert not stopped() and stopped.__module__.startswith("sluice.")
