"""Spark's executors as a `Executor`, with a real session."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from devstack.process import ProcessId, await_true
from sluice.apply.executor import ExecutorLost, ExecutorStuck, run_with_heartbeat
from spark_jobs import session
from spark_jobs.session import SparkExecutor, one_machine, with_retries
from tests.waiting import until


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
def spread() -> Iterator[SparkExecutor]:
    spread = SparkExecutor("test", "local[2]")
    yield spread
    spread.stop()


@pytest.mark.long
def test_a_python_worker_that_is_killed_costs_its_share_and_not_the_window(
    spread: SparkExecutor, tmp_path: Path
) -> None:
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


def test_a_frozen_python_worker_is_ended_and_its_share_runs_again(spread: SparkExecutor, tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def task(number: int) -> int:
        if number == 1 and not pid.exists():
            pid.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return number

    def attend() -> None:
        """Nobody minds."""

    assert spread.map(lambda number: number, 2) == [0, 1]

    def stuck_when_frozen() -> bool:
        """On a busy machine the share may not even have begun after two seconds."""
        with pytest.raises(ExecutorStuck, match="within 2 s"):
            run_with_heartbeat(lambda: spread.map(task, 2), attend, 2.0)
        if not (begun := pid.exists() and bool(pid.read_text())):
            spread.cancel()
        return begun

    until(stuck_when_frozen)
    frozen = ProcessId.of(int(pid.read_text()))
    assert frozen
    spread.cancel()
    assert run_with_heartbeat(lambda: spread.map(task, 2), attend, 120.0) == [0, 1]
    assert await_true(lambda: not frozen.alive(), 120.0), "a frozen worker is left"
    spread.check()


def test_nobody_speaks_to_spark_without_its_secret(spread: SparkExecutor) -> None:
    conf = spread.session.sparkContext.getConf()
    address = f"spark://endpoint@{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
    home = Path(pyspark.__file__).parent
    stranger = ["spark-class", "org.apache.spark.executor.CoarseGrainedExecutorBackend", "--driver-url", address,
                "--executor-id", "1", "--hostname", "127.0.0.1", "--cores", "1", "--app-id", "x",
                "--bind-address", "127.0.0.1", "--resourceProfileId", "0"]  # fmt: skip
    said = subprocess.run(
        [str(home / "bin" / stranger[0]), *stranger[1:]],
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert said.returncode != 0
    assert "Cannot find endpoint" not in said.stderr, "a stranger was answered"
    assert "Expected SaslMessage" in said.stderr


SECRET = "of $tests=\\: ü🗝"
ON_A_CLUSTER = f"""
import sys, psutil
from spark_jobs.session import SparkSecretMissing, SparkExecutor

conf = {{"spark.executor.memory": "512m", "spark.executor.cores": "1"}}
if sys.argv[1:] == ["secret"]:
    conf["spark.authenticate.secret"] = {SECRET!r}
spread = SparkExecutor("test", "local-cluster[1,1,512]", conf)
try:
    print(spread.map(lambda number: number, 2))
    print(spread.session.sparkContext.getConf().get("spark.authenticate.secret") == {SECRET!r})
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    print([line for line in lines if "of $tests" in line and "spread.map" not in line])
except SparkSecretMissing as error:
    print(error)
finally:
    spread.stop()
"""


@pytest.mark.long
def test_the_secret_of_a_cluster_is_on_no_command_line() -> None:
    assert on_a_cluster("secret") == ["[0, 1]", "True", "[]"]


@pytest.mark.long
def test_a_cluster_without_its_secret_is_refused_with_the_remedy() -> None:
    (said,) = on_a_cluster()
    assert "Put the cluster's spark.authenticate.secret into the password of the connection spark_default" in said


def on_a_cluster(*arguments: str) -> list[str]:
    """What a driver of its own says; a JVM that runs already has its arguments."""
    command = [sys.executable, "-c", ON_A_CLUSTER, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


@pytest.fixture
def lost() -> Iterator[SparkExecutor]:
    """A session of which the JVM dies: pyspark, which knows one a process, is made to forget it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    spread = SparkExecutor("test", "local[2]")
    assert spread.session
    yield spread
    spread.stop()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


@contextmanager
def frozen_jvm(spread: SparkExecutor, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its JVM does not answer any more. What is done then ends, and the JVM is gone."""
    monkeypatch.setattr(session, "ANSWER_SECONDS", 1.0)
    jvm = ProcessId.of(spread.session.sparkContext._gateway.proc.pid)
    assert jvm
    jvm.send(signal.SIGSTOP)
    yield
    assert not jvm.alive()


def test_a_frozen_jvm_keeps_nobody_waiting(lost: SparkExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    with frozen_jvm(lost, monkeypatch):
        lost.cancel()
    with pytest.raises(ExecutorLost, match="has died"):
        lost.check()
    with pytest.raises(ExecutorLost, match="is gone"):
        assert lost.parallelism
    with pytest.raises(ExecutorLost, match="is gone"):
        lost.map(lambda number: number, 2)


def test_a_job_ends_although_its_jvm_is_frozen(lost: SparkExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    with frozen_jvm(lost, monkeypatch):
        lost.stop()
