"""A slave of an Oracle master's redo, by its DAGs alone, on a whole Airflow: loaded, applied, compared, repaired.

IvorySQL stands in for the master, and a stand-in replaces OpenLogReplicator. The processes of the stack run from a copy
of the checkout, in which `sitecustomize` replaces Oracle with IvorySQL.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from devstack.stack import Stack
from sluice.airflow import applies, jobs
from sluice.airflow.job import Kind
from sluice.coordination import redis_store
from sluice.coordination.records import Status
from sluice.coordination.redo_state import CAPTURE
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from tests.airflow_home import ROOT
from tests.oracle import ivorysql
from tests.oracle.live.test_redo_load import LATER_THAN_THE_REDO, TABLES
from tests.rig.redo_master import KEYS, RedoMaster
from tests.scenarios.stream.test_redo_supervisor import Capture
from tests.scenarios.with_airflow.test_capture_redo import end, started
from tests.stacks import running_stack, until
from tests.unit.redo_output import RESETLOGS

ABLE = ["ivorysql"]
"""An Oracle server numbers its transactions itself, and its redo would have to be read."""
MASTER, PAIR = {"prefix": "ORA_"}, {"prefix": "ORA_", "slave": "dr1"}
NAMES_IVORYSQL = """
from sluice.model.vendors import VENDORS, VendorEntry

VENDORS["oracle"] = VendorEntry("tests.oracle.ivorysql:ON_IVORY", 1521)
"""
IDLE = """
prefix: OTHER_
master: {conn_id: demo_master}
slaves: {dr1: {conn_id: demo_dr1}}
tables: {public.none: {}}
"""
"""What the stack begins with; the master's replication comes when there is a Redis."""


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """A stack whose processes run from the copy."""
    copy = tmp_path / "checkout"
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    (copy / "sitecustomize.py").write_text(NAMES_IVORYSQL)
    monkeypatch.setattr("devstack.stack.REPOSITORY", copy)
    with running_stack(IDLE) as made:
        yield made


class Master:
    """A master with rows in IvorySQL, and redo in archived logs of two threads."""

    def __init__(self, root: Path, info: ConnectionInfo, capture: Capture):
        self.capture = capture
        self._session = ivorysql.connect(info, application="test")
        self._driver = self._session.driver
        incarnation = f"SELECT {RESETLOGS} AS resetlogs_id, 'CURRENT' AS status FROM DUAL"
        for statement in (
            *TABLES,
            LATER_THAN_THE_REDO,
            f"CREATE OR REPLACE VIEW v$database_incarnation AS {incarnation}",
        ):
            self._session.run(statement)
        self._driver.commit()
        self._held = ExitStack()
        self.redo = RedoMaster(root, RESETLOGS, self._run, self._driver.commit, self._hold)
        self._archived, self._sequence = dict.fromkeys(self.redo.threads, 0), 0

    def close(self) -> None:
        self._held.close()
        self._session.close()

    @contextmanager
    def older(self) -> Iterator[None]:
        """A transaction that began before the redo; it commits at the end of the block."""
        with closing(self._session._connected()) as driver:
            driver.execute(b"INSERT INTO T VALUES (-7, 'older', NULL)")
            yield
            driver.commit()
            self.redo.rows[-7] = ("older", None)

    def transactions(self, count: int) -> None:
        """Commits transactions; each thread then has another archived log."""
        self.redo.transactions(count)
        self._sequence += 1
        for thread, done in self._archived.items():
            lines = (self.redo.root / str(thread) / "1.jsonl").read_text("utf-8").splitlines()
            self.capture.log(thread.thread, self._sequence, lines[done:])
            self._archived[thread] = len(lines)

    def _run(self, statement: str) -> None:
        psycopg.ClientCursor(self._driver).execute(statement.encode())

    def _hold(self, scn: int) -> None:
        self._held.enter_context(closing(self._session.hold(scn)))


@pytest.fixture
def master(stack: Stack, oracle_database: Callable[[], ConnectionInfo], tmp_path: Path) -> Iterator[Master]:
    """The master, with its replication in the stack and its connection in Airflow."""
    info = oracle_database()
    capture = Capture(tmp_path, stack.redis_url, keys=KEYS)
    text = (capture.configure() / "ORA.yaml").read_text()
    for word, value in {
        "ora_dr1": "demo_dr1",
        '"app.*": {}': "PUBLIC.T: {}, PUBLIC.PAIRS: {}, PUBLIC.BAG: {}",
        "capture: redo,": "capture: redo, conn_id: ora_master,",
    }.items():
        assert word in text
        text = text.replace(word, value)
    more = "  exact_names: true\ninitial: {block_rows: 7, parallel: 2}\n"
    (Path(stack.blueprint.replications) / "ORA.yaml").write_text(text + more)
    connection = {
        "connection_id": "ora_master", "conn_type": "generic", "host": info.host, "port": info.port,
        "schema": info.database, "login": info.user, "password": info.password,
    }  # fmt: skip
    stack.airflow.api().set_connections([connection])
    made = Master(tmp_path / "written", info, capture)
    yield made
    made.close()


class Slave:
    """The slave, for reading it, and for changing it by hand."""

    def __init__(self, stack: Stack, master: Master):
        self.connection = connect(stack.connection("dr1"), application="test", autocommit=True)
        self.master = master

    def rows(self, table: str) -> Sequence[tuple[Any, ...]]:
        return self.connection.execute(f'SELECT * FROM "PUBLIC"."{table}"'.encode()).fetchall()

    def await_same(self) -> None:
        until(self._same, 300)

    def _same(self) -> bool:
        try:
            self.master.redo.assert_same(self.rows)
        except AssertionError:
            return False
        return True


def done(stack: Stack, dag: str, params: Mapping[str, object]) -> str:
    """Runs the DAG to a successful end."""
    api, run = stack.airflow.api(), started(stack, dag, params)
    until(lambda: api.run_state(dag, run) in ("success", "failed"), 600)
    assert api.run_state(dag, run) == "success", sorted(api.task_states(dag, run))
    return run


@pytest.mark.long
def test_a_slave_of_redo_is_loaded_kept_compared_and_mended_by_dags(
    stack: Stack, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(stack.home.root))  # Where jobs are looked up.
    api = stack.airflow.api()
    api.await_dags(["capture_redo", "initial_update", "cdc_apply", "resync"])
    status = Status(redis_store.connect(stack.redis_url), Prefix("ORA_"), "dr1")
    with master.older():
        master.transactions(25)
        capturing = started(stack, "capture_redo", MASTER)
        until(lambda: list((master.capture.location / "stream").glob("*.jsonl")), 300)
        update = started(stack, "initial_update", PAIR)
        until(lambda: "ALTER SYSTEM KILL SESSION" in str(status.read().get("message")), 300)
    until(lambda: ("load", -1, "running") in api.task_states("initial_update", update), 300)
    master.transactions(6)
    until(lambda: api.run_state("initial_update", update) in ("success", "failed"), 600)
    assert api.run_state("initial_update", update) == "success", sorted(api.task_states("initial_update", update))
    slave = Slave(stack, master)
    slave.await_same()
    master.transactions(10)
    slave.await_same()
    assert len(master.redo.rows) > 20

    done(stack, "resync", {**PAIR, "action": "verify"})
    slave.connection.execute('DELETE FROM "PUBLIC"."T" WHERE "ID" = (SELECT min("ID") FROM "PUBLIC"."T")')
    slave.connection.execute("""UPDATE "PUBLIC"."PAIRS" SET "V" = 'another'""")
    done(stack, "resync", {**PAIR, "action": "repair"})
    slave.await_same()
    done(stack, "resync", {**PAIR, "action": "verify"})

    # A part is loaded again while the rest continues.
    slave.connection.execute('TRUNCATE "PUBLIC"."BAG"')
    done(stack, "initial_update", {**PAIR, "tables": ["PUBLIC.BAG"]})
    master.transactions(5)
    slave.await_same()

    end(stack, "capture_redo", capturing)
    for run in applying(stack):
        end(stack, "cdc_apply", run)
    until(lambda: jobs.live(Kind.CAPTURE, "ORA_", CAPTURE) is None and not master.capture.programs(), 300)
    until(lambda: applies.live("ORA_", "dr1") is None, 300)


def applying(stack: Stack) -> list[str]:
    """The running runs of cdc_apply."""
    runs = stack.airflow.api().get("dags/cdc_apply/dagRuns", state="running")["dag_runs"]
    return [str(run["dag_run_id"]) for run in runs]
