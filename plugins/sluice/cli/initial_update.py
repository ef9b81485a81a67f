"""Starts initial updates over Airflow's API, follows them, and explains failures."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice import config
from sluice.cli import airflow, status
from sluice.cli.airflow_api import AirflowApi, ApiRefused, ApiUnreachable
from sluice.cli.console import Console
from sluice.cli.where import Where
from sluice.configuration.model import Replication
from sluice.errors import SluiceError, Terminal
from sluice.model.joining import run_of
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.model.vendors import BINLOG
from sluice.operate.api import ACTIVE, APPLY, UPDATE
from sluice.paths import PROGRAM

LOOK_SECONDS = 3.0
INTERVAL = 0.5


class RunFailed(Terminal):
    """A DAG run failed; the message has the end of the failed task's log."""

    def __init__(self, dag: str, slave: str, task: str, log: Sequence[str], url: str) -> None:
        """`slave`: its name, or several between commas."""
        self.dag, self.slave, self.task = dag, slave, task
        lines = "\n".join(f"  {line}" for line in log)
        super().__init__(
            f"{dag} of {slave} failed in its task '{task or 'none'}'. The end of its log:\n{lines}\n"
            f"Do what it says there; all of it is at {url}"
        )


@dataclass(frozen=True)
class RunState:
    """An initial update and the applies of its slaves at one moment."""

    state: str = ""
    """State of the run of initial_update: queued, running, success, failed; empty before the first poll."""
    task: str = ""
    """Its current tasks."""
    apply: str = ""
    """State of the newest run of cdc_apply for the slave; of several slaves that of a failed one; empty without a
    run."""
    answering: bool = True
    """Whether Airflow answered the last poll."""


def running_task(states: Sequence[tuple[str, int, str | None]]) -> str:
    """The running tasks of a run, else the next ones, from (task, map index, state) of its task instances."""
    order = ("running", "deferred", "restarting", "up_for_retry", "up_for_reschedule", "queued", "scheduled")
    for first in order:
        if names := [task for task, _, state in states if state == first]:
            return ", ".join(dict.fromkeys(names)) + ("" if first in ("running", "deferred") else f" ({first})")
    return ""


class InitialUpdate(threading.Thread):
    """One run of `initial_update`, polled until stopped. `latest`: the last state."""

    def __init__(self, api: AirflowApi, slaves: Sequence[str], prefix: str) -> None:
        self.slave = ", ".join(slaves)
        super().__init__(name=f"initial update of {self.slave}", daemon=True)
        self.api, self.slaves, self.prefix = api, tuple(slaves), prefix
        self.latest = RunState()
        self.run_id = self._apply_run = ""
        self._stopping = threading.Event()

    def trigger(self) -> None:
        """Starts the run. Raises `ApiRefused`, `ApiUnreachable`."""
        self.run_id = self.api.trigger(UPDATE, {"prefix": self.prefix, "slave": self.slave})

    def run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            try:
                self.latest = self._observe()
            except (ApiUnreachable, ApiRefused):  # Airflow is restarting, or does not know the run yet
                self.latest = replace(self.latest, answering=False)

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(40)

    def failure(self) -> RunFailed | None:
        """The failure of the run, or of the apply that it started; None without one."""
        if self.latest.state == "failed":
            return self._explain(UPDATE, self._failing_run())
        if self.latest.state == "success" and self.latest.apply == "failed":
            return self._explain(APPLY, self._apply_run)
        return None

    def _explain(self, dag: str, run_id: str) -> RunFailed:
        task, lines = airflow.failed_task(self.api, dag, run_id)
        return RunFailed(dag, self.slave, task, lines, f"{self.api.url}/dags/{dag}/runs/{run_id}")

    def _failing_run(self) -> str:
        """The first failed run of one of several slaves, else the run for all."""
        for slave in self.slaves if len(self.slaves) > 1 else ():
            try:
                if self.api.run_state(UPDATE, run_of(self.run_id, slave)) == "failed":
                    return run_of(self.run_id, slave)
            except (ApiRefused, ApiUnreachable):  # the slave was left out before it had a run, or Airflow is down
                continue
        return self.run_id

    def _observe(self) -> RunState:
        state, task = self.latest.state, ""
        if state not in ("success", "failed"):
            state = self.api.run_state(UPDATE, self.run_id)
            task = running_task(list(self.api.task_states(UPDATE, self.run_id)))
        return RunState(state, task, self._apply_state())

    def _apply_state(self) -> str:
        runs = self.api.get(f"dags/{APPLY}/dagRuns", limit=50, order_by="-run_after")["dag_runs"]
        newest = [run for slave in self.slaves if (run := self._newest(runs, slave)) is not None]
        if not newest:
            return ""
        run = next((run for run in newest if run["state"] == "failed"), newest[0])
        self._apply_run = str(run["dag_run_id"])
        return str(run["state"])

    def _newest(self, runs: Sequence[Mapping[str, Any]], slave: str) -> Mapping[str, Any] | None:
        confs = [run.get("conf") or {} for run in runs]
        pair = (self.prefix, slave)
        own = [run for run, conf in zip(runs, confs, strict=True) if (conf.get("prefix"), conf.get("slave")) == pair]
        return next((run for run in own if run["state"] in ACTIVE), own[0] if own else None)


def together(replication: Replication, slaves: Sequence[str]) -> list[Sequence[str]]:
    """The slaves of each run: all in one run, which reads the master once, if `initial.read` allows that."""
    return [[slave] for slave in slaves] if replication.initial.read == "snapshot" else [slaves] if slaves else []


def load(prefix: Prefix, slaves: Sequence[str], where: Where, console: Console) -> None:
    """Loads the slaves until all are NORMAL, and prints the progress. Raises `RunFailed`."""
    if where.api is None:
        raise Terminal("--start needs an Airflow that can be reached: --airflow URL.", code="airflow-needed")
    configured = config.survey(where.folder).replications
    replication = next(one for one in configured if one.prefix == prefix)
    if replication.master.capture == BINLOG and (run := airflow.start_capture(where.api, prefix)) is not None:
        console.say(f"capture of the master's log: {where.api.url}/dags/capture_redo/runs/{run}")
    left = []
    for slave in slaves:
        if _headline(replication, slave, where) == SlaveState.NORMAL:
            console.say(f"{prefix} → {slave} is NORMAL already")
        else:
            left.append(slave)
    for of_one_run in together(replication, left):
        update = InitialUpdate(where.api, of_one_run, str(prefix))
        update.run_id = airflow.start_update(where.api, prefix, update.slave)
        console.say(f"initial update of {update.slave}: {where.api.url}/dags/initial_update/runs/{update.run_id}")
        update.start()
        try:
            _follow(update, replication, where, console)
        finally:
            update.stop()


def _headline(replication: Replication, slave: str, where: Where) -> str:
    """The slave's state in a few words; empty if it cannot be read."""
    try:
        return status.headline(replication, slave, where.connections)
    except SluiceError:
        return ""


def _headlines(replication: Replication, slaves: Sequence[str], where: Where) -> str:
    """The states of the slaves, with their names if there are several."""
    lines = [(slave, _headline(replication, slave, where)) for slave in slaves]
    return "; ".join(f"{slave}: {line}" if len(slaves) > 1 else line for slave, line in lines if line)


def _follow(update: InitialUpdate, replication: Replication, where: Where, console: Console) -> None:
    printed = ""
    began = time.monotonic()
    while True:
        if failure := update.failure():
            raise failure
        line = f"task {update.latest.task}" if update.latest.task else "between two tasks"
        if headlines := _headlines(replication, update.slaves, where):
            line = f"{line}; {headlines}"
        if line != printed:
            printed = line
            console.say(f"[{time.monotonic() - began:6.1f} s] {line}")
        if update.latest.state == "success":
            for slave in update.slaves:
                console.say(
                    f"{replication.prefix} → {slave} is NORMAL, and cdc_apply keeps it so. {PROGRAM} status tells more."
                )
            return
        time.sleep(LOOK_SECONDS)
