"""The task of capture_redo keeps one real job running; it reads redo logs and ends with all its processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from sluice.airflow import job_operator, jobs
from sluice.airflow.job import Job, JobState, Kind
from sluice.airflow.job_operator import CaptureRedoOperator
from tests.scenarios.stream.test_redo_supervisor import Capture, two_threads
from tests.waiting import until


@pytest.fixture
def made(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Capture]:
    capture = Capture(tmp_path, redis_url)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(capture.configure()))
    monkeypatch.setattr(job_operator, "is_active", lambda owner: owner.run_id == "run1")
    yield capture
    for job in jobs.all_jobs():
        job.stop("the test", "it is over")
        job.await_end(30)


def task(run: str, prefix: str = "ora_") -> Callable[[], None]:
    ti = SimpleNamespace(dag_id="capture_redo", run_id=run, task_id="capture", try_number=1, max_tries=10)
    store: Any = type("Store", (dict,), {"set": lambda self, key, value, retention=None: self.update({key: value})})()
    context: Any = {"ti": ti, "run_id": run, "params": {"prefix": prefix}, "task_state_store": store}
    return lambda: CaptureRedoOperator(task_id="capture", prefix=prefix).execute(context)


@pytest.mark.long
def test_one_job_reads_the_logs_and_ends_with_all_that_it_started(made: Capture) -> None:
    wanted = two_threads(made, 1, 100, 10)
    with pytest.raises(TaskDeferred) as deferred:
        task("run1")()
    job = Job.read(deferred.value.trigger.job_id)
    assert job is not None
    assert job.kind is Kind.CAPTURE
    until(lambda: made.keys() == wanted)
    with pytest.raises(AirflowSkipException, match=r"is being read by run run1 of capture_redo"):
        task("run2")()
    assert len(made.programs()) == 2
    job.stop("anna", "maintenance")
    job.await_end(40)
    assert job.state() is JobState.ENDED
    assert made.programs() == []
