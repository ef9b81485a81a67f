"""A comparison is a separate process, which ends with its task and reports why it has no result."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

from devstack.spark import SparkServer
from sluice.airflow import comparison_job
from sluice.coordination.lease import Lease
from sluice.model.connection import ConnectionInfo
from tests.errors import raises_code
from tests.rig.loaders import Background
from tests.rig.passage import MARK, SPARK, passage
from tests.rig.rig import Rig
from tests.scenarios.mariadb.rig import Rig as MariaRig
from tests.waiting import until


def given(pair: Rig, **other: Any) -> dict[str, Any]:
    infos = {"m": pair.master_info, "s": pair.slave_info}
    return {
        "prefix": "DEMO_", "slave": "dr1", "redis_url": pair.redis_url,
        "connections": {name: info.to_dict() for name, info in infos.items()}, "tables": [["public", "log", "IUD"]],
        "action": "verify", "limit": 1, "sample": 0, "started": "", "report": "/dev/null/none",
    } | other  # fmt: skip


def processes() -> list[psutil.Process]:
    """The processes of comparisons that this one has started."""

    def arguments(child: psutil.Process) -> list[str]:
        try:
            return child.cmdline()
        except psutil.Error:  # it has just ended
            return []

    children = psutil.Process().children(recursive=True)
    return [child for child in children if "spark_jobs.resync" in " ".join(arguments(child))]


@contextmanager
def interrupted(met: Callable[[], object]) -> Iterator[None]:
    """Interrupts the block as soon as `met` holds, as Airflow ends a task."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def send() -> None:
        until(met)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    sender = Background(send)
    try:
        yield
    finally:
        assert sender.end() is None
        signal.signal(signal.SIGUSR1, before)


def test_it_says_why_it_has_no_result_and_ends_with_its_task(
    rig: Callable[..., Rig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    pair = rig("CREATE TABLE public.log (line text)")
    report = tmp_path / "part.json"
    comparison_job.run(given(pair, report=str(report)))
    assert json.loads(report.read_text())["outcome"] == "identical" and report.stat().st_mode & 0o077 == 0
    with raises_code("comparison-failed", match="NOPE_"):
        comparison_job.run(given(pair, prefix="NOPE_"))
    with raises_code("comparison-process-ended", match=r"ended with status 75: .*/dev/null"):
        comparison_job.run(given(pair))  # the report cannot be written
    lease = Lease(pair.store, pair.pair.prefix, "dr1", 60.0)
    lease.acquire()
    seen: list[psutil.Process] = []

    def waits() -> bool:
        """Whether a comparison runs and waits for an apply, which never answers."""
        seen[:] = processes()
        return bool(seen) and any("request" in key for key in map(str, pair.store.keys("sluice:DEMO_:dr1:*")))

    try:
        with pytest.raises(KeyboardInterrupt), interrupted(waits):
            comparison_job.run(given(pair))
    finally:
        lease.release()
    assert not any(process.is_running() for process in seen)


def assert_rows_pass_through_spark_alone(
    pair: Rig | MariaRig, spark: SparkServer, report: Path, damage: Callable[[str], object]
) -> None:
    """Compares and repairs the table `t`, whose rows have the mark, while the apply runs. `damage` changes rows of the
    slave by a condition."""
    family = [process.pid for process in spark.family()]
    damage("id % 500 = 0")
    with passage(lambda: family) as passed:
        infos = {
            name: replace(info, port=passed.before(info.port)).to_dict()
            for name, info in (("m", pair.pair.master_info), ("s", pair.pair.slave_info))
        }
        asked = {
            "prefix": "DEMO_", "slave": "dr1", "redis_url": pair.redis_url, "connections": infos,
            "tables": [["public", "t", "IUD"]], "spark": {"remote": spark.server.url}, "limit": 100, "started": "",
            "report": str(report),
        }  # fmt: skip
        for action, sample, outcome in (
            ("verify", 0, "different"),
            ("verify", 3_000, "different"),
            ("repair", 0, "identical"),
            ("verify", 0, "identical"),
        ):
            comparison_job.run({**asked, "action": action, "sample": sample})
            assert json.loads(report.read_text())["outcome"] == outcome
        assert set(passed.sides) == {SPARK}, passed.sides
        assert passed.sides[SPARK].rows > 0
        damage("id = 7")
        comparison_job.run({**asked, "action": "verify", "sample": 0, "spark": {}})
        assert passed.sides["airflow"].rows > 0, "without an endpoint they do, and are seen"


TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, v text)"
FILL = f"INSERT INTO public.t SELECT i, '{MARK.decode()}' || i FROM generate_series(1, 3000) i"


@pytest.mark.long
def test_no_row_passes_through_the_process_that_starts_a_comparison(
    rig: Callable[..., Rig], spark: SparkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    pair = rig(TABLE)
    with pair.apply():
        pair.master.execute(FILL.encode())
        pair.await_current()
        assert_rows_pass_through_spark_alone(
            pair, spark, tmp_path / "part.json",
            lambda which: pair.slave.execute(f"UPDATE public.t SET v = v || ' spoilt' WHERE {which}".encode()),
        )  # fmt: skip


@pytest.mark.long
def test_no_row_of_a_mariadb_does(
    database: Callable[..., ConnectionInfo], mariadb: Callable[[], ConnectionInfo], redis_url: str, spark: SparkServer,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    pair = MariaRig.build(database, mariadb, redis_url, tmp_path, f"{TABLE}; {FILL}")
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        assert_rows_pass_through_spark_alone(
            pair, spark, tmp_path / "part.json",
            lambda which: pair.slave.run(f"UPDATE t SET v = concat(v, ' spoilt') WHERE {which}"),
        )  # fmt: skip
    pair.close()
