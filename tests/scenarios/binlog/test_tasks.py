"""The tasks of the DAGs for a slave of a MariaDB master, on real databases and jobs, with a stand-in for Airflow."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from airflow.sdk.exceptions import TaskDeferred

from sluice.airflow import job_operator, jobs
from sluice.airflow.job import Job, Kind
from sluice.airflow.selection_form import update_of
from sluice.airflow.steps_master import check, install_resources, reconcile
from sluice.airflow.steps_update import begin, create_tables, plan
from sluice.cli import status
from sluice.coordination.redo_state import CAPTURE
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.preflight.checks import NotReady
from sluice.verify.findings import Kind as Difference
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action
from tests.airflow_connections import connect_airflow
from tests.dags.test_capture_redo import task
from tests.dags.walk import Walk
from tests.rig.loaders import in_threads
from tests.scenarios.binlog.beside import Beside, writing
from tests.scenarios.binlog.master import ACCOUNT, Master
from tests.scenarios.binlog.test_beside import expect_alike, expect_equal, fill, transaction
from tests.waiting import until

pytestmark = pytest.mark.long


@pytest.fixture
def rig(
    master: Master,
    database: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Beside]:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(job_operator, "is_active", lambda owner: owner.run_id == "run1")
    fill(master)
    made = Beside(master, "postgres", slave := database(), redis_url, options=", allow_superuser: true")
    connect_airflow(monkeypatch, "m", master.info)
    connect_airflow(monkeypatch, "s", slave)
    yield made
    for job in jobs.all_jobs():
        job.stop("the test", "it is over")
        job.await_end(30)


def capture() -> Job:
    """Starts the task of capture_redo; its job."""
    with pytest.raises(TaskDeferred) as deferred:
        task("run1", "rec_")()
    job = Job.read(deferred.value.trigger.job_id)
    assert job is not None
    assert job.kind is Kind.CAPTURE
    return job


def test_a_slave_is_recorded_loaded_kept_compared_and_mended_by_its_tasks(
    rig: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    master, walk = rig.master, Walk(prefix="REC_", slave="dr1", transfer="online")
    master.run(
        f"REVOKE REFERENCES ON {master.database}.* FROM {ACCOUNT}@'%'",
        "SET GLOBAL sync_binlog = 0, GLOBAL binlog_expire_logs_seconds = 60",
    )
    try:
        with pytest.raises(NotReady, match=r"(?s)SET GLOBAL sync_binlog = 1.*GRANT REFERENCES") as told:
            walk.do(check, "check")
        assert "binlog_expire_logs_seconds of 86400" in caplog.text
        assert "2 things are lacking" in str(told.value)
    finally:
        master.run(
            "SET GLOBAL sync_binlog = 1, GLOBAL binlog_expire_logs_seconds = 0",
            f"GRANT REFERENCES ON {master.database}.* TO {ACCOUNT}@'%'",
        )
    job = capture()
    until(lambda: any(master.folder.glob("*.jsonl")))
    for each, name in ((check, "check"), (install_resources, "install_resources"), (reconcile, "reconcile"),
                       (begin, "begin"), (create_tables, "create_tables"), (plan, "plan")):  # fmt: skip
        walk.do(each, name)
    update = update_of(walk.work)
    with writing(master, transaction, 1), rig.apply():
        rig.load_a_part(update, 2)
        # The recorder is killed while the master is written and the slave loaded.
        os.kill(job.runner.pid, signal.SIGKILL)
        until(lambda: jobs.live(Kind.CAPTURE, "REC_", CAPTURE) is None)
        job = capture()
        with LoadJob(update) as load:
            in_threads(load, partial(load_worker, update), 2, load.tick)
        rig.await_that(lambda: (found := rig.checkpoint) and found.state == "NORMAL")
        assert steps.finish(update).left_out == []
        expect_alike(rig, "t", "pairs", "words")
    read = rig.status
    assert read is not None
    assert "the binary log is read by" in status.redo(Prefix("REC_"), read, read.written)[0]
    assert (read.epoch, read.threads[0].state) == (2, "running")
    # Without an apply the slave is compared as well.
    expect_alike(rig, "t", "pairs", "words")
    with rig.apply():
        rig.await_current()
        rig.slave.execute(b"DELETE FROM public.t WHERE id = (SELECT min(id) FROM public.t)")
        rig.slave.execute(b"UPDATE public.pairs SET v = 'another'")
        sampled = rig.resync("pairs", sample=100).finding
        assert sampled.found[Difference.DIFFERENT].count >= sampled.sampled > 0
        for table, wrong in (("t", 1), ("pairs", len(rig.rows("pairs", "x")))):
            result = rig.resync(table, Action.REPAIR)
            assert (result.finding.faults, result.repaired, result.refused) == (wrong, wrong, "")
            assert result.outcome is Outcome.IDENTICAL
        rig.await_current()
        expect_equal(rig)
    job.stop("anna", "maintenance")
    job.await_end(40)
