"""kill -9 of all of Airflow within failovers: each is resumed or undone, and never do two databases take writes.

Everything is real: Airflow, Spark, both servers, an application that writes to whichever database is the master.
"""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import psycopg
import pytest

from devstack.process import descendants
from devstack.stack import Stack
from sluice.control.checkpoint import CheckpointStore
from sluice.model.connection import ConnectionInfo
from sluice.model.failover import Phase, passed
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.failover import FailoverStore
from tests.questions import Question
from tests.stacks import running_stack, until

pytestmark = pytest.mark.long
PREFIX = Prefix("DEMO_")
PAIR = {"prefix": "DEMO_", "slave": "dr1"}
CONFIG = """
prefix: DEMO_
master: {conn_id: demo_master, vendor: postgres}
slaves:
  dr1: {conn_id: demo_dr1, vendor: postgres}
tables:
  shop.*: {}
"""
TABLES = b"""
CREATE SCHEMA shop;
CREATE TABLE shop.orders (id serial PRIMARY KEY, v text NOT NULL);
CREATE TABLE shop.lines (id int PRIMARY KEY, "order" int REFERENCES shop.orders ON DELETE CASCADE);
INSERT INTO shop.orders (v) SELECT 'old ' || g FROM generate_series(1, 100) g;
"""
SERVICES = ("airflow-scheduler", "airflow-triggerer", "airflow-dag-processor", "airflow-api-server")
PAUSE_SECONDS = 0.05
"""Of the application after each try."""


@dataclass
class Application(AbstractContextManager["Application"]):
    """Writes to each database that is no slave; what is refused it tries again."""

    places: dict[str, ConnectionInfo]
    written: list[tuple[float, str, str]] = field(default_factory=list)
    """When the write began, the database, the value."""

    def __enter__(self) -> "Application":
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(name,)) for name in self.places]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, name: str) -> None:
        number = 0
        with connect(self.places[name], application="shop", autocommit=True) as session:
            while not self._over.wait(PAUSE_SECONDS):
                number += 1
                began, value = time.monotonic(), f"{name} {number}"
                with suppress(psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InvalidSchemaName):
                    if is_slave(session):
                        continue
                    session.execute("INSERT INTO shop.orders (v) VALUES (%s)", [value])
                    self.written.append((began, name, value))

    @property
    def masters(self) -> list[str]:
        """The databases that took writes, one after another."""
        return [name for name, _ in groupby(name for _, name, _ in sorted(self.written))]


def is_slave(session: psycopg.Connection[tuple[object, ...]]) -> bool:
    checkpoint = CheckpointStore(session, PREFIX, "sluice", "dr1").read()
    return checkpoint is not None and checkpoint.state is not SlaveState.MASTER


def kill_airflow(stack: Stack) -> None:
    """SIGKILL to all its components with what they run; returns when they are back."""
    before = {one: stack.await_running(one).process for one in SERVICES}
    for main in before.values():
        assert main is not None
        for process in descendants(main.pid):
            process.send(signal.SIGKILL)
    for one, main in before.items():
        stack.await_running(one, 300, after=main)


def await_phase(slave: ConnectionInfo, run: str, phase: Phase) -> None:
    with connect(slave, application="test", autocommit=True) as session:
        store = FailoverStore(session, PREFIX, "sluice", "dr1")
        until_quick(lambda: (record := store.read()) is not None and record.id == run and passed(record.phase, phase))


def until_quick(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end


@pytest.mark.parametrize("phase", [Phase.PREPARED, Phase.ENDED, Phase.SWITCHED])
def test_a_failover_within_which_airflow_is_killed_is_resumed_or_undone(phase: Phase) -> None:
    with running_stack(CONFIG) as stack:
        with stack.master.connect("demo", "demo") as master:
            master.execute(TABLES)
        places = {name: stack.connection(name) for name in ("master", "dr1")}
        api = stack.airflow.api()
        api.await_dags(["failover", "initial_update", "cdc_apply"])

        def ended(dag: str, run: str) -> bool:
            return api.run_state(dag, run) in ("success", "failed")

        load = api.trigger("initial_update", {**PAIR, "transfer": "online"})
        until(lambda: ended("initial_update", load), 900)
        assert api.run_state("initial_update", load) == "success"
        with Application(places) as application, connect(places["dr1"], application="a report") as reader:
            # What completes the slave waits for this query: so the kill strikes before it is done.
            reader.execute("SELECT count(*) FROM shop.lines")
            if phase is not Phase.ENDED:
                reader.rollback()
            run = api.trigger("failover", {**PAIR, "action": "planned", "reverse": True})
            question = Question(stack, "failover", run, "approve")
            until(lambda: question.asked() or ended("failover", run), 600)

            def approved() -> bool:
                states = {name: state for name, _, state in api.task_states("failover", run)}
                return states["approve"] == "success"

            question.answer("Approve", approved)
            await_phase(places["dr1"], run, phase)
            kill_airflow(stack)
            reader.rollback()
            until(lambda: ended("failover", run), 1200)
            outcome = api.run_state("failover", run)
            new = "dr1" if outcome == "success" else "master"
            before = len(application.written)
            until(lambda: any(name == new for _, name, _ in application.written[before:]), 120)
        print(f"killed at {phase}: {outcome}, masters {application.masters}, {len(application.written)} writes")
        assert application.masters == (["master", "dr1"] if new == "dr1" else ["master"])
        assert phase is not Phase.SWITCHED or new == "dr1", "a switch is never undone"
        with connect(places[new], application="test", autocommit=True) as session:
            has = {value for (value,) in session.execute("SELECT v FROM shop.orders")}
        assert has >= {value for _, _, value in application.written}, "a committed write is lost"
        reversed_file = Path(stack.replications[-1]) / "DEMO.yaml.reversed"
        assert reversed_file.exists() is (new == "dr1")
