"""Launching and finding jobs."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

from sluice.airflow import state_paths
from sluice.airflow.job import Job, JobState, Kind, Owner, file_name, new_id
from sluice.airflow.process_identity import ProcessIdentity
from sluice.errors import Transient
from sluice.paths import home, python_path

_PASSED_ON = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "LD_LIBRARY_PATH",
    "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS", "HADOOP_CONF_DIR",
    "SLUICE_REPLICATIONS", "SLUICE_SQL", "SLUICE_STACK",
    # Where certificate authorities, settings and credentials are, but no credentials: those travel in the job's input.
    "PGSSLROOTCERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
    "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
)  # fmt: skip
"""Environment that a job inherits. Airflow's own settings, its secrets among them, stay behind."""
MODULE = "spark_jobs.{kind}"
"""The module that a job runs."""
LAUNCH_SECONDS = 10.0
"""How long a launch waits for the first sign of life."""


def job_did_not_start(job_id: str, reason: str) -> Transient:
    """The runner of a job ended at once."""
    return Transient(f"Job {job_id} did not start: {reason}", code="job-did-not-start")


@contextlib.contextmanager
def exclusive(kind: Kind, prefix: str, slave: str) -> Iterator[None]:
    """A lock a pair: hold it to look for a live job and to launch one. The death of its holder frees it."""
    path = state_paths.jobs_folder() / f"{kind}-{file_name(prefix)}-{file_name(slave)}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def launch(kind: Kind, prefix: str, slave: str, owner: Owner, payload: Mapping[str, object], attempt: int = 0) -> Job:
    """Starts `python -m spark_jobs.<kind> --prefix … --slave …`, detached, `payload` as JSON on its standard input.

    Call it inside `exclusive`. Raises `job-did-not-start`.
    """
    job_id = new_id(kind, prefix, slave)
    arguments = ["--prefix", prefix, "--slave", slave]
    runner = subprocess.Popen(
        [sys.executable, "-m", "sluice.airflow.job_runner", job_id, MODULE.format(kind=kind), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=state_paths.jobs_folder(),
        env=environment(),
        umask=0o077,
    )
    identity = ProcessIdentity.of(runner.pid)
    if identity is None:
        raise job_did_not_start(job_id, f"its runner ended with status {runner.wait()}")
    job = Job(job_id, kind, prefix, slave, owner, identity, time.time(), attempt)
    assert runner.stdin is not None
    try:
        job.save()
    except OSError:
        # Without a record nobody would find it.
        runner.kill()
        runner.wait()
        raise
    try:
        with runner.stdin as stdin:
            stdin.write(json.dumps(payload).encode())
    except BrokenPipeError:
        raise job_did_not_start(job_id, f"its runner ended with status {runner.wait()}") from None
    deadline = time.monotonic() + LAUNCH_SECONDS
    while not job.file("alive").exists() and runner.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if runner.poll() is not None and job.result() is None:
        raise job_did_not_start(job_id, f"its runner ended with status {runner.returncode}")
    return job


def environment() -> dict[str, str]:
    """What a job sees: no secret, nothing of Airflow."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        **passed,
        "SLUICE_HOME": str(home()),
        "PYTHONPATH": os.pathsep.join(python_path()),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,  # Spark's workers would take any python3 of the PATH
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def all_jobs() -> list[Job]:
    """Every job on record, oldest first."""
    jobs = (Job.read(file.stem) for file in state_paths.jobs_folder().glob("*.json") if not file.name.startswith("."))
    return sorted((job for job in jobs if job), key=lambda job: job.launched)


def live(kind: Kind, prefix: str, slave: str) -> Job | None:
    """The running job of that kind of the pair; the newest if there are several."""
    matching = (job for job in all_jobs() if (job.kind, job.prefix, job.slave) == (kind, prefix, slave))
    return next((job for job in reversed(list(matching)) if job.state() is JobState.RUNNING), None)


def last(kind: Kind, prefix: str, slave: str) -> Job | None:
    """The newest job of that kind of the pair, in any state."""
    matching = [job for job in all_jobs() if (job.kind, job.prefix, job.slave) == (kind, prefix, slave)]
    return matching[-1] if matching else None
