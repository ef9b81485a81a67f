"""A job: one detached Spark driver, and its record in the registry.

The record is written when the job is launched, and again only when another run takes the job over. Later events are in
files beside it (see `state_paths`), each with one writer, so that any process on any host that shares the folder can
read the state of the job.
"""

import json
import os
import secrets
import signal
import time
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from sluice import whole_files
from sluice.airflow import state_paths
from sluice.airflow.process_identity import ProcessIdentity
from sluice.errors import Transient
from sluice.model.apply_status import StopRequest

SILENT_SECONDS = 60.0
"""A job of another host counts as lost if its `.alive` file was not touched for this time."""


class Kind(StrEnum):
    """What a job does; also the name of its module in `spark_jobs`."""

    APPLY = "apply"
    LOAD = "load"
    CAPTURE = "capture_redo"


class JobState(StrEnum):
    """What is known of a job's process."""

    RUNNING = "RUNNING"
    ENDED = "ENDED"
    """Its runner wrote how it ended."""
    LOST = "LOST"
    """It is gone without a result: its runner was killed, or the host went down."""


@dataclass(frozen=True)
class Owner:
    """The task that watches a job."""

    dag_id: str
    run_id: str
    task_id: str
    try_number: int = 1
    max_tries: int = 0
    """Airflow raises it only when a person clears the task."""

    def same_task(self, other: "Owner") -> bool:
        return (self.dag_id, self.run_id, self.task_id) == (other.dag_id, other.run_id, other.task_id)

    def __str__(self) -> str:
        return f"run {self.run_id} of {self.dag_id}"


@dataclass(frozen=True)
class Result:
    """How a job ended, written by its runner."""

    rc: int
    """Exit status; 128 + n for signal n."""
    ended: float
    """Seconds since the epoch."""
    message: str
    """The last error in its log, else the last line."""
    asked: bool = False
    """Whether the runner was told to end the job."""


@dataclass(frozen=True)
class Job:
    """A job as its record describes it."""

    id: str
    kind: Kind
    prefix: str
    slave: str
    owner: Owner
    runner: ProcessIdentity
    """Leader of the session in which driver, JVM and Python workers live."""
    launched: float
    """Seconds since the epoch."""
    attempt: int = 0
    """Number of jobs in a row that died young before this one."""

    @property
    def pair(self) -> str:
        return f"{self.prefix}/{self.slave}"

    @property
    def log(self) -> Path:
        return log_of(self.id)

    def file(self, suffix: str) -> Path:
        return file_of(self.id, suffix)

    # -- state

    def state(self) -> JobState:
        """Reads the files, with a handful of system calls."""
        if self.file("result").exists():
            return JobState.ENDED
        if self.runner.alive() if self.runner.local else self._recently_touched():
            return JobState.RUNNING
        # The job may have ended between the two checks.
        return JobState.ENDED if self.file("result").exists() else JobState.LOST

    def result(self) -> Result | None:
        """How the job ended; None while it runs or if it is lost."""
        values = read_values(self.file("result"))
        return Result(**values) if values else None

    def stop_request(self) -> StopRequest | None:
        values = read_values(self.file("stop"))
        return StopRequest(**values) if values else None

    def gone_since(self) -> float:
        """When an ended job was last known to run, in seconds since the epoch."""
        result = self.result()
        if result:
            return result.ended
        try:
            return self.file("alive").stat().st_mtime
        except OSError:
            return self.launched

    def _recently_touched(self) -> bool:
        try:
            return time.time() - self.file("alive").stat().st_mtime < SILENT_SECONDS
        except OSError:
            return time.time() - self.launched < SILENT_SECONDS

    # -- the record

    def save(self) -> None:
        # Plain pid and start time are for programs that end all jobs without this module.
        plain = {"pid": self.runner.pid, "started": self.runner.created()}
        write_values(self.file("json"), {**asdict(self), **plain})

    def owned_by(self, owner: Owner) -> "Job":
        """The job with another task watching it; saved."""
        job = replace(self, owner=owner)
        job.save()
        return job

    # -- its end

    def request_stop(self, by: str, reason: str) -> None:
        """Writes the request; the runner sees it within a second, on any host."""
        if not self.file("stop").exists():
            write_values(self.file("stop"), asdict(StopRequest(by, reason, time.time())))

    def stop(self, by: str, reason: str) -> None:
        """Asks it to end and returns at once. Its runner sends SIGTERM, and SIGKILL after a grace period."""
        self.request_stop(by, reason)
        self.runner.send(signal.SIGTERM)

    def await_end(self, seconds: float) -> None:
        """Waits until all its processes have ended, after `stop`. Raises `job-does-not-end`."""
        deadline = time.monotonic() + seconds
        while self.state() is JobState.RUNNING or self.runner.alive():
            if time.monotonic() > deadline:
                if not self.runner.send(signal.SIGKILL):
                    raise Transient(
                        f"Job {self.id} (process {self.runner.pid}) was told to end and still runs after {seconds:.0f} "
                        "s. The next try looks again; end the process by hand if this repeats.",
                        code="job-does-not-end",
                    )
                deadline = time.monotonic() + 5
            time.sleep(0.1)
        self.kill_leftovers()

    def kill_leftovers(self) -> int:
        """Kills the processes that a dead runner left behind; returns their number."""
        return self.runner.kill_session() if self.state() is not JobState.RUNNING else 0

    def last_lines(self, count: int) -> list[str]:
        """The end of its log."""
        return last_lines(self.id, count)

    def forget(self) -> None:
        """Removes the record, the files and the logs, after its end."""
        logs = state_paths.job_logs_folder().glob(f"{self.id}.log*")
        for path in (*state_paths.jobs_folder().glob(f"{self.id}.*"), *logs):
            path.unlink(missing_ok=True)

    @classmethod
    def read(cls, job_id: str) -> "Job | None":
        """The record; None if it is missing or damaged."""
        values = read_values(file_of(job_id, "json"))
        if values is None:
            return None
        try:
            values["kind"] = Kind(values["kind"])
            values["owner"] = Owner(**values["owner"])
            values["runner"] = ProcessIdentity(**values["runner"])
            return cls(**{field.name: values[field.name] for field in fields(cls)})
        except (KeyError, TypeError, ValueError):
            return None


def new_id(kind: Kind, prefix: str, slave: str) -> str:
    """`apply-DEMO_-dr1-20260102T030405-1a2b`; sorts by time within a pair."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return f"{kind}-{file_name(prefix)}-{file_name(slave)}-{now}-{secrets.token_hex(2)}"


def file_name(text: str) -> str:
    """Escapes a text as a part of a file name."""
    return "".join(letter if letter.isalnum() or letter in "_." else f"%{ord(letter):x}" for letter in text)


def file_of(job_id: str, suffix: str) -> Path:
    return state_paths.jobs_folder() / f"{job_id}.{suffix}"


def log_of(job_id: str) -> Path:
    return state_paths.job_logs_folder() / f"{job_id}.log"


def last_lines(job_id: str, count: int) -> list[str]:
    """The last lines of a job's log; empty if it is on another host."""
    try:
        with open(log_of(job_id), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 400 * count))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip()][-count:]


def write_values(path: Path, values: dict[str, object]) -> None:
    """Writes a JSON file that only its owner can read."""
    whole_files.write(path, json.dumps(values), mode=0o600)


def read_values(path: Path) -> dict[str, Any] | None:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) else None
