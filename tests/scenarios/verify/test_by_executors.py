"""Spark's executors compare tables with more rows than `spark_above`, and find the same as one process."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.process import ProcessId
from devstack.spark import SparkServer
from sluice.coordination import redis_store
from sluice.executor import Executor, ExecutorsFailed, T, ThreadExecutor
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import connect
from sluice.verify import executor_reads
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import CouldNotCompare, Kind, Outcome, TableFinding
from sluice.verify.pinned_sessions import at_one_position
from spark_jobs.endpoint import Endpoint
from spark_jobs.session import SparkExecutor
from tests.rig.endpoints import CLUSTER
from tests.rig.loaders import Background
from tests.rig.rig import Rig
from tests.scenarios.verify.test_compare import CHURN, FILL
from tests.scenarios.verify.test_sessions import TABLES
from tests.scenarios.verify.verifying import Traffic, counts, look
from tests.waiting import until
from workload.faults.freezer import Freezer

ROOT = Path(__file__).resolve().parents[3]


def by(executor: Executor, rig: Rig, table: str) -> TableFinding:
    """Compares one table with these executors."""
    with at_one_position(rig.pair, redis_store.connect(rig.redis_url)) as view:
        return executor_reads.compare_where_it_pays(
            view, TableName("public", table), CompareOptions(executors=lambda: executor)
        )


def with_spark_above(rig: Rig, rows: int, parallel: int = 1) -> Rig:
    return rig.with_options(verify=replace(rig.replication.verify, spark_above=rows, parallel=parallel))


def found(finding: TableFinding) -> dict[str, object]:
    """The finding of a comparison of a table without traffic, without how it was read: blocks end where samples say."""
    aside = ("seconds", "paused", "position", "time", "examples", "found", "blocks", "blocks_different", "traveled")
    rows = {kind: (finding.found[kind].count, set(finding.found[kind].keys)) for kind in Kind}
    return {"rows": rows, **{name: value for name, value in vars(finding).items() if name not in aside}}


def jobs_of(spark: SparkServer, name: str) -> list[dict[str, Any]]:
    """Spark's REST API about the jobs of the pair whose tag ends with the pattern `name`."""
    api = f"{spark.ui_url}/api/v1/applications"
    with urllib.request.urlopen(api, timeout=60) as answer:
        application = json.loads(answer.read())[0]["id"]
    with urllib.request.urlopen(f"{api}/{application}/jobs", timeout=60) as answer:
        jobs: list[dict[str, Any]] = json.loads(answer.read())
    whole = re.compile(f".*sluice DEMO_ → dr1: {name}")
    return [job for job in jobs if any(whole.fullmatch(tag) for tag in job.get("jobTags", ()))]


@pytest.fixture
def filled(rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Tables with a key, without one, and with partitions; in parts of twelve pages."""
    monkeypatch.setattr("sluice.vendors.postgres.digest.PAGES_A_PART", 12)
    monkeypatch.setattr("sluice.verify.table_reads.ROWS_AT_ONCE", 1_000)
    monkeypatch.setattr("sluice.verify.table_reads.CLASSED_ROWS_AT_ONCE", 1_000)
    pair = rig(f"{TABLES}; CREATE TABLE public.tiny (id int PRIMARY KEY)")
    pair.master.execute(FILL.format(rows=20_000))
    pair.master.execute("INSERT INTO public.k SELECT 'v' || i % 50, NULL FROM generate_series(1, 9000) i")
    pair.master.execute("INSERT INTO public.p SELECT i, 'v' FROM generate_series(1, 3000) i")
    return with_spark_above(pair, 1_000, parallel=2)


def spoil(pair: Rig) -> None:
    pair.slave.execute("UPDATE public.t SET v = 'spoilt' WHERE id % 4000 = 1 AND id < 20001")
    pair.slave.execute("DELETE FROM public.t WHERE id = 500; INSERT INTO public.t VALUES (0, 'mine', 1)")
    pair.slave.execute("DELETE FROM public.k WHERE ctid IN (SELECT ctid FROM public.k WHERE v = 'v7' LIMIT 3)")
    pair.slave.execute("DELETE FROM public.p WHERE id IN (5, 2000)")


def test_executors_find_what_one_process_finds_under_traffic_and_their_jobs_say_which_table(
    filled: Rig, spark: SparkServer
) -> None:
    executor = SparkExecutor(f"sluice {filled.pair}", Endpoint(spark.server.url))
    try:
        with filled.apply():
            filled.await_current()
            filled.master.execute("ANALYZE")
            with Traffic(filled, CHURN, rows=100):
                assert by(executor, filled, "t").outcome is Outcome.IDENTICAL
                spoil(filled)
                assert counts(by(executor, filled, "t")) == {"missing": 1, "extra": 1, "different": 5}
            filled.await_current()
            for table in "tkp":
                here, there = look(filled, table), by(executor, filled, table)
                assert there.faults and found(here) == found(there), table
            assert by(executor, filled, "tiny").outcome is Outcome.IDENTICAL
            ended(filled, executor, spark)
    finally:
        executor.stop()
    assert jobs_of(spark, r"verify public\.t 1/\d\d+") and jobs_of(spark, r"differences of public\.t 1/\d")
    assert not jobs_of(spark, ".*tiny.*")


@pytest.mark.long
def test_executors_of_a_cluster_find_the_same(filled: Rig) -> None:
    executor = SparkExecutor(f"sluice {filled.pair}", Endpoint(**CLUSTER))
    try:
        with filled.apply():
            filled.await_current()
            spoil(filled)
            filled.master.execute("ANALYZE")
            for table in "tkp":
                here, there = look(filled, table), by(executor, filled, table)
                assert there.faults and found(here) == found(there), table
    finally:
        executor.stop()


def ended(pair: Rig, executor: SparkExecutor, spark: SparkServer) -> None:
    """Ends the comparison because another session waits for it: its job is interrupted, and the executors continue."""
    freezer = Freezer()

    def truncated() -> None:
        """Runs a TRUNCATE that waits for the table once Spark runs the job; frozen workers keep it from
        ending first."""
        until(lambda: running(spark))
        pair.master.execute("TRUNCATE public.k")

    freezer.freeze("workers", workers(spark))
    waiting = Background(truncated)
    try:
        with pytest.raises(CouldNotCompare, match="TRUNCATE, that waited for it") as raised:
            by(executor, pair, "k")
    finally:
        freezer.thaw("workers")
    assert raised.value.again
    assert waiting.end() is None
    until(lambda: jobs_of(spark, r"verify public\.k .*")[0]["status"] == "FAILED")
    assert by(executor, pair, "p").faults == 2


def running(spark: SparkServer) -> bool:
    return any(job["status"] == "RUNNING" for job in jobs_of(spark, r"verify public\.k .*"))


class Failing(ThreadExecutor):
    """Executors that fail at the third job."""

    jobs = 0

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        self.jobs += 1
        if self.jobs >= 3:
            raise ExecutorsFailed("Spark is gone.")
        return super().map(task, parts, what)


@pytest.mark.long
def test_the_comparison_process_reads_the_rest_if_executors_fail(
    filled: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor_reads, "TURN_SECONDS", 0.0)
    with filled.apply():
        filled.await_current()
        filled.master.execute("ANALYZE")
        spoil(filled)
        here, there = look(filled, "t"), by(Failing(), filled, "t")
        assert found(here) == found(there) == found(by(ThreadExecutor(), filled, "t"))
    assert "Spark is gone. This process reads public.t itself." in caplog.text


@pytest.mark.long
def test_a_slave_whose_apply_has_stopped_is_compared_alike(filled: Rig) -> None:
    with filled.apply():
        filled.await_current()
        filled.master.execute("ANALYZE")
    spoil(filled)
    filled.master.execute("UPDATE public.t SET v = 'later' WHERE id BETWEEN 3990 AND 4010")
    here, there = look(filled, "t"), by(ThreadExecutor(), filled, "t")
    assert there.waiting == 21 and found(here) == found(there)


class Comparison:
    """A process that repairs `t` by Spark's executors."""

    def __init__(self, pair: Rig, spark: SparkServer, report: Path):
        source, self._report = pair.replication.source, report
        source.write_text(yaml.safe_dump({**yaml.safe_load(source.read_text()), "verify": {"spark_above": 1_000}}))
        infos = {"m": pair.master_info, "s": pair.slave_info}
        given = {
            "prefix": "DEMO_", "slave": "dr1", "redis_url": pair.redis_url, "spark": {"remote": spark.server.url},
            "connections": {name: info.to_dict() for name, info in infos.items()}, "tables": [["public", "t", "IUD"]],
            "action": "repair", "limit": 100, "sample": 0, "started": "2026-01-01T00:00:00",
            "report": str(report),
        }  # fmt: skip
        environment = {
            **os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "SLUICE_REPLICATIONS": str(source.parent)
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.resync"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=environment, cwd=ROOT,
        )  # fmt: skip
        assert self.process.stdin is not None and self.process.stdout is not None
        with self.process.stdin as stdin:
            json.dump(given, stdin)
        self._log = self.process.stdout

    def said_until(self, words: str) -> str:
        """Its log up to the line with this text, or to its end."""
        said = ""
        while words not in said and (line := self._log.readline()):
            said += line
        return said

    def table(self) -> tuple[Any, Any, Any]:
        """The table's outcome in the report, the number of repaired rows, and the number of rows."""
        (table,) = json.loads(self._report.read_text())["tables"]
        return table["outcome"], table["repaired"], table["to_repair"]


def holds_snapshots(pair: Rig) -> bool:
    """Whether a comparison has an open transaction on the master or on the slave."""
    held = "SELECT FROM pg_stat_activity WHERE application_name LIKE '% verify' AND xact_start IS NOT NULL"
    held += " AND datname = current_database()"
    for info in (pair.master_info, pair.slave_info):
        with connect(info, application="looks", autocommit=True) as session:
            if session.execute(held).fetchone() is not None:
                return True
    return False


def workers(spark: SparkServer) -> list[ProcessId]:
    """Spark's Python workers, and the processes that fork them."""
    return [
        process for process in spark.family() if b"worker_daemon" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    ]


@pytest.mark.long
def test_a_comparison_that_is_killed_while_spark_reads_leaves_nothing_and_the_next_one_mends_the_table(
    filled: Rig, spark: SparkServer, tmp_path: Path
) -> None:
    report = tmp_path / "part.json"
    passwords = [filled.master_info.password, filled.slave_info.password]
    freezer = Freezer()

    def killed_half_way() -> bool:
        """Kills a comparison whose Spark jobs read nothing, because the Python workers are frozen. Returns whether they
        were still running."""
        before = len(jobs_of(spark, r"verify public\.t .*"))
        killed = Comparison(filled, spark, report)
        until(lambda: len(jobs_of(spark, r"verify public\.t .*")) > before or killed.process.poll() is not None)
        freezer.freeze("workers", workers(spark))
        try:
            if jobs_of(spark, r"verify public\.t .*")[0]["status"] != "RUNNING":
                report.unlink(missing_ok=True)
                return False
            assert holds_snapshots(filled)
            for name in ("cmdline", "environ"):
                shown = Path(f"/proc/{killed.process.pid}/{name}").read_text()
                assert not any(password in shown for password in passwords)
            return True
        finally:
            killed.process.kill()
            killed.process.wait()
            freezer.thaw("workers")

    with filled.apply():
        filled.await_current()
        filled.master.execute("ANALYZE")
        until(killed_half_way)
        until(lambda: not holds_snapshots(filled))
        assert not report.exists()
        spoil(filled)
        whole = Comparison(filled, spark, report)
        said = whole.said_until("the end of its log")
        assert whole.process.wait() == 0, said
    assert whole.table() == ("identical", 7, 7)
    assert "parts done by Spark" in said
    for file in spark.directory.rglob("events_*"):
        said += file.read_text(errors="replace")
    assert "verify public.t" in said and not any(password in said for password in passwords)
