"""Detached jobs as real processes: their end is always known, and no process is left."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sluice.airflow import job_runner, jobs
from sluice.airflow.job import Job, JobState, Kind, Owner
from sluice.airflow.job_trigger import JobOutput
from sluice.airflow.process_identity import ProcessIdentity, session_members
from tests.waiting import awaited

OWNER = Owner("cdc_apply", "run1", "apply")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jobs, "MODULE", "tests.unit.fake_job")
    yield tmp_path / "home"
    for job in jobs.all_jobs():
        if job.runner.alive():
            os.kill(job.runner.pid, signal.SIGKILL)
        awaited(lambda job=job: not job.runner.alive())
        job.kill_leftovers()


def launch(slave: str = "dr1", **wish: Any) -> Job:
    return jobs.launch(Kind.APPLY, "DEMO_", slave, OWNER, wish)


def said(job: Job, word: str) -> str:
    """The rest of the line that starts with `word`, once the job has printed it."""

    def find() -> str | None:
        lines = job.log.read_text().splitlines() if job.log.exists() else []
        return next((line.removeprefix(word).strip() for line in lines if line.startswith(word)), None)

    return str(awaited(find))


def test_a_job_runs_detached_and_its_end_is_recorded() -> None:
    job = launch(sleep=0.5, exit=3, log=["2026-01-02T03:04:05.678Z INFO all is well"])
    assert job.state() is JobState.RUNNING
    assert os.getsid(job.runner.pid) == job.runner.pid != os.getsid(0)
    awaited(lambda: job.state() is JobState.ENDED)
    result = job.result()
    assert result is not None
    assert (result.rc, result.message, result.asked) == (3, "all is well", False)
    assert Job.read(job.id) == job


def test_last_words_are_the_last_error_even_when_noise_follows() -> None:
    job = launch(
        exit=78,
        log=[
            "2026-01-02T03:04:05.678Z ERROR Table a.b lacks column c. Add it.",
            "2026-01-02T03:04:06.678Z INFO ended",
            "26/01/02 03:04:07 noise of the JVM",
        ],
    )
    awaited(lambda: job.state() is JobState.ENDED)
    result = job.result()
    assert result is not None
    assert (result.rc, result.message) == (78, "Table a.b lacks column c. Add it.")


def test_nothing_secret_reaches_command_line_record_log_or_environment(home: Path) -> None:
    os.environ["AIRFLOW__CORE__FERNET_KEY"] = "hush"
    try:
        job = launch(sleep=30, connections={"m": {"password": "s3cr3t"}})
    finally:
        del os.environ["AIRFLOW__CORE__FERNET_KEY"]
    names = said(job, "environment")
    assert "AIRFLOW" not in names and "SLUICE_REDIS_URL" not in names
    lines = [" ".join(psutil.Process(pid).cmdline()) for pid in (job.runner.pid, *session_members(job.runner.pid))]
    assert not any("s3cr3t" in line for line in lines)
    for file in home.rglob("*"):
        if file.is_file():
            assert b"s3cr3t" not in file.read_bytes()
            assert file.stat().st_mode & 0o077 == 0, file


def test_a_killed_driver_ends_the_job_with_all_its_processes() -> None:
    job = launch(sleep=60, child=True)
    child = int(said(job, "child"))
    os.kill(int(said(job, "driver")), signal.SIGKILL)
    awaited(lambda: job.state() is JobState.ENDED)
    result = job.result()
    assert result is not None and result.rc == 137
    awaited(lambda: ProcessIdentity.of(child) is None)


def test_a_killed_runner_is_noticed_and_takes_the_driver_with_it() -> None:
    job = launch(sleep=60, child=True)
    child, driver = int(said(job, "child")), int(said(job, "driver"))
    os.kill(job.runner.pid, signal.SIGKILL)
    awaited(lambda: job.state() is JobState.LOST)
    awaited(lambda: ProcessIdentity.of(driver) is None)
    job.kill_leftovers()
    awaited(lambda: ProcessIdentity.of(child) is None)


def test_a_job_that_is_told_to_stop_ends_by_itself() -> None:
    job = launch(sleep=60)
    said(job, "driver")
    job.stop("anna", "maintenance")
    job.await_end(10)
    result, request = job.result(), job.stop_request()
    assert result is not None and result.asked and result.rc == 143
    assert request is not None and (request.by, request.reason) == ("anna", "maintenance")


def test_a_stop_request_alone_reaches_the_runner() -> None:
    job = launch(sleep=60)
    said(job, "driver")
    job.request_stop("anna", "from another host")
    awaited(lambda: job.state() is JobState.ENDED)


def test_a_driver_that_ignores_the_end_is_killed_after_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    job = launch(sleep=60, stubborn=True)
    driver = int(said(job, "driver"))
    job.stop("anna", "maintenance")
    job.await_end(0.5)  # then kills the runner, and with it the driver
    assert job.state() is JobState.LOST
    awaited(lambda: ProcessIdentity.of(driver) is None)


def test_the_live_job_of_a_pair_is_found_and_others_are_not() -> None:
    ended, other, job = launch(), launch("dr2", sleep=60), launch(sleep=60)
    awaited(lambda: ended.state() is JobState.ENDED)
    assert jobs.live(Kind.APPLY, "DEMO_", "dr1") == job
    assert jobs.live(Kind.APPLY, "DEMO_", "dr2") == other
    assert jobs.live(Kind.LOAD, "DEMO_", "dr1") is None
    assert jobs.last(Kind.APPLY, "DEMO_", "dr1") == job


def test_a_record_from_another_host_is_judged_by_its_heartbeat() -> None:
    job = launch(sleep=60)
    values = json.loads(job.file("json").read_text())
    values["runner"]["host"] = "elsewhere"
    job.file("json").write_text(json.dumps(values))
    remote = Job.read(job.id)
    assert remote is not None and remote.state() is JobState.RUNNING
    os.kill(job.runner.pid, signal.SIGKILL)
    awaited(lambda: not job.runner.alive())
    old = time.time() - 60
    os.utime(job.file("alive"), (old, old))
    assert remote.state() is JobState.LOST


def test_a_damaged_record_is_no_job(home: Path) -> None:
    job = launch(sleep=60)
    kept = job.file("json").read_text()
    job.file("json").write_text("{")
    assert Job.read(job.id) is None
    assert jobs.all_jobs() == []
    job.file("json").write_text(kept)


def test_a_launcher_that_dies_leaves_no_driver_without_a_record() -> None:
    import subprocess
    import sys

    runner = subprocess.run(
        [sys.executable, "-m", "sluice.airflow.job_runner", "apply-x", jobs.MODULE],
        input=b'{"half', env=jobs.environment(), check=False,
    )  # fmt: skip
    assert runner.returncode == 64


def test_output_is_read_once_across_readers_and_whole_lines_only() -> None:
    job = launch(sleep=60)
    said(job, "environment")
    first = JobOutput(job.id)
    assert [line.split()[0] for line in first.read()] == ["driver", "environment"]
    first.keep()
    with open(job.log, "a") as log:
        log.write("one\ntw")
    second = JobOutput(job.id)
    assert second.read() == ["one"]
    with open(job.log, "a") as log:
        log.write("o\nthree")
    assert second.read() == ["two"]
    assert second.read(rest=True) == ["three"]


def test_output_is_complete_across_rotations(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = launch(sleep=0)
    awaited(lambda: job.state() is JobState.ENDED)
    reader = JobOutput(job.id)
    while reader.read(rest=True):
        continue
    log = job_runner.JobLog(job.log, limit=1000)
    found: list[str] = []
    for number in range(100):
        log.write(f"line {number} {'x' * 40}\n".encode())
        if number % 7 == 0:
            found += reader.read()
            reader.keep()
            reader = JobOutput(job.id)
    while lines := reader.read():
        found += lines
    assert [int(line.split()[1]) for line in found] == list(range(100))
    assert len(list(home.glob("logs/jobs/*.log*"))) <= 1 + job_runner.LOGS_KEPT


def test_a_flood_of_output_is_kept_and_does_not_stop_the_job() -> None:
    job = launch(flood=50_000)
    awaited(lambda: job.state() is JobState.ENDED)
    result = job.result()
    assert result is not None and result.rc == 0
    assert job.log.read_text().count("\n") == 50_002


def test_forgetting_a_job_removes_all_its_files(home: Path) -> None:
    job = launch()
    awaited(lambda: job.state() is JobState.ENDED)
    job.forget()
    assert [file for file in home.rglob("*") if file.is_file() and job.id in file.name] == []
