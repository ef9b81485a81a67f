"""Spark's executors as a `Spread`, with a real session."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedded.process import ProcessId, await_true
from sluice.apply.spread import SpreadLost, Stuck, attended
from spark_jobs import session
from spark_jobs.session import SparkSpread, one_machine, with_retries


@pytest.mark.parametrize(
    ("master", "meant"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://a:7077,b:7077", "spark://a:7077,b:7077"),
    ],
)
def test_a_task_that_died_runs_again_also_on_one_machine(master: str, meant: str) -> None:
    assert with_retries(master, "4") == meant


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[*,4]"])
def test_a_local_session_is_one_machine(master: str) -> None:
    assert one_machine(master)


@pytest.mark.parametrize("master", ["local-cluster[2,1,512]", "spark://local:7077", "yarn", "k8s://local"])
def test_a_cluster_is_not(master: str) -> None:
    assert not one_machine(master)


@pytest.fixture
def spread() -> Iterator[SparkSpread]:
    spread = SparkSpread("test", "local[2]")
    yield spread
    spread.stop()


def test_a_python_worker_that_is_killed_costs_its_share_and_not_the_window(spread: SparkSpread, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def task(number: int) -> int:
        if number == 1:
            try:
                begun.touch(exist_ok=False)
            except FileExistsError:
                return number
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert spread.map(task, 4) == [0, 1, 2, 3]
    assert begun.exists()


def test_a_frozen_python_worker_is_ended_and_its_share_runs_again(spread: SparkSpread, tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def task(number: int) -> int:
        if number == 1 and not pid.exists():
            pid.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return number

    def attend() -> None:
        """Nobody minds."""

    assert spread.map(lambda number: number, 2) == [0, 1]
    with pytest.raises(Stuck, match="within 2 s"):
        attended(lambda: spread.map(task, 2), attend, 2.0)
    frozen = ProcessId.of(int(pid.read_text()))
    assert frozen
    spread.cancel()
    assert attended(lambda: spread.map(task, 2), attend, 20.0) == [0, 1]
    assert await_true(lambda: not frozen.alive(), 10.0), "a frozen worker is left"
    spread.check()


@pytest.fixture
def lost() -> Iterator[SparkSpread]:
    """A session of which the JVM dies: pyspark, which knows one a process, is made to forget it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    spread = SparkSpread("test", "local[2]")
    assert spread.session
    yield spread
    spread.stop()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


@contextmanager
def frozen_jvm(spread: SparkSpread, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its JVM does not answer any more. What is done then is over soon, and the JVM is gone."""
    monkeypatch.setattr(session, "ANSWER_SECONDS", 1.0)
    jvm = ProcessId.of(spread.session.sparkContext._gateway.proc.pid)
    assert jvm
    jvm.send(signal.SIGSTOP)
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 10.0
    assert not jvm.alive()


def test_a_frozen_jvm_keeps_nobody_waiting(lost: SparkSpread, monkeypatch: pytest.MonkeyPatch) -> None:
    with frozen_jvm(lost, monkeypatch):
        lost.cancel()
    with pytest.raises(SpreadLost, match="has died"):
        lost.check()
    with pytest.raises(SpreadLost, match="is gone"):
        assert lost.parallelism
    with pytest.raises(SpreadLost, match="is gone"):
        lost.map(lambda number: number, 2)


def test_a_job_ends_although_its_jvm_is_frozen(lost: SparkSpread, monkeypatch: pytest.MonkeyPatch) -> None:
    with frozen_jvm(lost, monkeypatch):
        lost.stop()
