"""A master's redo on a whole Airflow, as a person starts, loses and ends it: capture_redo, and the apply of a slave."""

import os
import signal
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from devstack.stack import Stack
from sluice.airflow import applies, jobs
from sluice.airflow.job import JobState, Kind
from sluice.cli.airflow_api import ApiRefused
from sluice.coordination.redo_state import CAPTURE, RedoStatus
from sluice.vendors.postgres.connection import connect
from tests.scenarios.stream.test_redo_supervisor import Capture, two_threads
from tests.scenarios.with_airflow.test_detached_apply import await_value
from tests.stacks import until
from tests.unit.redo_output import ONE, TWO

CAPTURING, APPLYING = "capture_redo", "cdc_apply"
MASTER = {"prefix": "ORA_"}
PAIR = {**MASTER, "slave": "dr1"}
TABLES = "CREATE SCHEMA app; CREATE TABLE app.t (id numeric PRIMARY KEY, name character varying(100), note text)"


@pytest.fixture
def made(stack: Stack, tmp_path: Path) -> Iterator[Capture]:
    """A master's logs, its replication in the stack, and the table on the slave."""
    capture = Capture(tmp_path, stack.redis_url)
    configured = stack.home.replications / "ORA.yaml"
    configured.write_text((capture.configure() / "ORA.yaml").read_text().replace("ora_dr1", "demo_dr1"))
    try:
        with connect(stack.connection("dr1"), application="test") as slave:
            slave.execute(TABLES)
        yield capture
    finally:
        for process in capture.running:
            process.kill()
            process.wait()
        configured.unlink()


def await_rows(stack: Stack, wanted: Sequence[str]) -> None:
    """Returns when the slave has these keys."""
    with connect(stack.connection("dr1"), application="test", autocommit=True) as slave:
        query = "SELECT id::text FROM app.t ORDER BY id"
        until(lambda: [key for (key,) in slave.execute(query).fetchall()] == wanted, 300)


def reading(made: Capture) -> RedoStatus:
    status = made.status()
    assert status is not None
    return status


def started(stack: Stack, dag: str, params: Mapping[str, object]) -> str:
    """Starts a run, once the form knows the new replication."""
    api, runs = stack.airflow.api(), []

    def triggered() -> bool:
        try:
            runs.append(api.trigger(dag, params))
        except ApiRefused as refused:
            if "for param prefix" not in str(refused):
                raise
        return bool(runs)

    until(triggered, 300)
    return runs[0]


def end(stack: Stack, dag: str, run: str) -> None:
    """Marks the run as failed, as a person does."""
    stack.airflow.api().call("PATCH", f"dags/{dag}/dagRuns/{urllib.parse.quote(run)}", {"state": "failed"})


@pytest.mark.long
def test_redo_reaches_a_slave_whoever_reads_it_until_the_runs_are_marked_failed(stack: Stack, made: Capture) -> None:
    api = stack.airflow.api()
    api.await_dags([CAPTURING, APPLYING])
    wanted = two_threads(made, 1, 100, 10)
    capturing, applying = started(stack, CAPTURING, MASTER), started(stack, APPLYING, PAIR)
    await_rows(stack, wanted)
    job = await_value(lambda: jobs.live(Kind.CAPTURE, "ORA_", CAPTURE), 60)

    second = api.trigger(CAPTURING, MASTER)
    await_value(lambda: api.run_state(CAPTURING, second) == "success", 300)
    assert f"is being read by run {capturing} of {CAPTURING}" in api.task_log(CAPTURING, second, "capture", 1)

    # The supervisor is killed: the standby, of another machine, reads on, and the run's next job stands by.
    epoch = reading(made).epoch
    standby = made.start("other")
    until(lambda: b"stands by" in (made.root / "supervisor_other.log").read_bytes())
    until(lambda: made.state.stored(str(ONE)) and made.state.stored(str(TWO)))
    os.kill(job.runner.pid, signal.SIGKILL)
    wanted += two_threads(made, 2, 200, 10)
    await_rows(stack, wanted)
    assert f"process {standby.pid} " in reading(made).holder
    assert reading(made).epoch == epoch + 1
    other = await_value(lambda: jobs.live(Kind.CAPTURE, "ORA_", CAPTURE), 300)
    assert other.id != job.id
    assert other.owner.run_id == capturing
    assert len(made.programs()) == 2

    # The standby ends, and the run's job reads on.
    standby.terminate()
    assert standby.wait(60) == 0
    wanted += two_threads(made, 3, 300, 10)
    await_rows(stack, wanted)
    assert reading(made).epoch == epoch + 2

    end(stack, CAPTURING, capturing)
    end(stack, APPLYING, applying)
    await_value(lambda: other.state() is JobState.ENDED, 300)
    await_value(lambda: applies.live("ORA_", "dr1") is None, 300)
    until(lambda: made.programs() == [])
