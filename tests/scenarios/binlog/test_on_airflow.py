"""A slave of a MariaDB master, by its DAGs alone, on a whole Airflow: recorded, loaded, applied, compared, repaired."""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from devstack.stack import Stack
from sluice.airflow import applies, jobs
from sluice.airflow.job import Kind
from sluice.cli import status
from sluice.coordination import redis_store
from sluice.coordination.redo_state import CAPTURE, RedoState
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from tests.scenarios.binlog.beside import writing
from tests.scenarios.binlog.master import Master
from tests.scenarios.binlog.normal import normal
from tests.scenarios.binlog.test_beside import fill, transaction
from tests.scenarios.with_airflow.test_capture_redo import end, started
from tests.scenarios.with_airflow.test_detached_apply import await_value
from tests.stacks import running_stack, until

pytestmark = pytest.mark.long

MASTER, PAIR = {"prefix": "REC_"}, {"prefix": "REC_", "slave": "dr1"}
IDLE = """
prefix: OTHER_
master: {conn_id: demo_master}
slaves: {dr1: {conn_id: demo_dr1}}
tables: {public.none: {}}
"""
"""What the stack begins with; the master's replication comes with its database."""
CONFIG = """
prefix: REC_
master: {{vendor: mysql, capture: binlog, conn_id: rec_master, location: {location}}}
slaves:
  dr1: {{conn_id: demo_dr1, vendor: postgres, on_drop: drop}}
tables: {{public.*: {{}}}}
initial: {{block_rows: 50, parallel: 2}}
"""
COMPARED = {"t": "id, a, b, c, d, e, g, h", "pairs": "x, y, v", "words": "w, n"}


@pytest.fixture
def stack() -> Iterator[Stack]:
    with running_stack(IDLE) as made:
        yield made


def done(stack: Stack, dag: str, params: Mapping[str, object]) -> str:
    """Runs the DAG to a successful end."""
    api, run = stack.airflow.api(), started(stack, dag, params)
    until(lambda: api.run_state(dag, run) in ("success", "failed"), 600)
    assert api.run_state(dag, run) == "success", sorted(api.task_states(dag, run))
    return run


def test_a_slave_of_a_binary_log_is_recorded_loaded_kept_compared_and_mended_by_dags(
    stack: Stack, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(stack.home.root))  # where jobs are looked up
    monkeypatch.setenv("SLUICE_REDIS_URL", stack.redis_url)
    fill(master)
    info, api = master.info, stack.airflow.api()
    (Path(stack.blueprint.replications) / "REC.yaml").write_text(CONFIG.format(location=master.folder))
    connection = {
        "connection_id": "rec_master", "conn_type": "mysql", "host": info.host, "port": info.port,
        "schema": info.database, "login": info.user, "password": info.password,
    }  # fmt: skip
    api.set_connections([connection])
    api.await_dags(["capture_redo", "initial_update", "cdc_apply", "resync"])
    slave = connect(stack.connection("dr1"), application="test", autocommit=True)

    def same() -> bool:
        return all(
            normal(slave.execute(f"SELECT {names} FROM public.{table}".encode()).fetchall())
            == normal(master.run(f"SELECT {names} FROM {table}"))
            for table, names in COMPARED.items()
        )

    capturing = started(stack, "capture_redo", MASTER)
    with writing(master, transaction, 1):
        done(stack, "initial_update", PAIR)
        # The supervisor is killed while the master is written; the run's next job continues.
        job = await_value(lambda: jobs.live(Kind.CAPTURE, "REC_", CAPTURE), 60)
        os.kill(job.runner.pid, signal.SIGKILL)
        until(lambda: (now := jobs.live(Kind.CAPTURE, "REC_", CAPTURE)) is not None and now.id != job.id, 300)
    until(same, 300)

    read = RedoState(redis_store.connect(stack.redis_url), Prefix("REC_")).read()
    assert read is not None
    assert "the binary log is read by" in status.redo(Prefix("REC_"), read, read.written)[0]
    done(stack, "resync", {**PAIR, "action": "verify"})
    slave.execute("DELETE FROM public.t WHERE id = (SELECT min(id) FROM public.t)")
    slave.execute("UPDATE public.pairs SET v = 'another'")
    assert not same()
    done(stack, "resync", {**PAIR, "action": "repair"})
    until(same, 300)
    done(stack, "resync", {**PAIR, "action": "verify"})

    # A table is loaded again while the rest continues.
    slave.execute("TRUNCATE public.words")
    done(stack, "initial_update", {**PAIR, "tables": ["public.words"]})
    until(same, 300)

    end(stack, "capture_redo", capturing)
    running = api.get("dags/cdc_apply/dagRuns", state="running")["dag_runs"]
    for run in running:
        end(stack, "cdc_apply", str(run["dag_run_id"]))
    until(lambda: jobs.live(Kind.CAPTURE, "REC_", CAPTURE) is None, 300)
    until(lambda: applies.live("REC_", "dr1") is None, 300)
