"""The DAGs as the demo uses them, over Airflow's API: start an initial update, follow it, explain its failure."""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from embedded.airflow_api import AirflowApi, ApiRefused, ApiUnreachable
from embedded.demo.accounts import PREFIX
from sluice.errors import SluiceError, Terminal

INITIAL_UPDATE, APPLY = "initial_update", "cdc_apply"
INTERVAL = 0.5
LOG_LINES = 15
NOISE = ("::", "GitWildMatchPattern", "DAG bundles loaded", "Filling up the DagBag", "Worker startup parse", "/")
"""Beginnings of lines in every task's log that say nothing of the task."""
ACTIVE = ("queued", "running")


class InitialUpdateFailed(Terminal):
    """The DAG gave up; the end of the failing task's log says why and what to do."""

    def __init__(self, slave: str, task: str, log: Sequence[str], url: str) -> None:
        self.slave, self.task = slave, task
        lines = "\n".join(f"  {line}" for line in log)
        super().__init__(
            f"The initial update of {slave} failed in its task '{task or 'none'}'. The end of its log:\n{lines}\n"
            f"Do what it says there; all of it is at {url}"
        )


@dataclass(frozen=True)
class RunSight:
    """An initial update and the apply of a slave at one moment."""

    state: str = ""
    """Of the run of initial_update: queued, running, success, failed; empty before the first look."""
    task: str = ""
    """What runs in it."""
    apply: str = ""
    """State of the newest run of cdc_apply for the slave; empty when there is none."""
    answering: bool = True
    """Whether Airflow answered the last look."""


def running_task(states: Sequence[tuple[str, int, str | None]]) -> str:
    """What a run is doing, from (task, map index, state) of its task instances: those at work, else the next ones."""
    order = ("running", "deferred", "restarting", "up_for_retry", "up_for_reschedule", "queued", "scheduled")
    for wanted in order:
        if names := [task for task, _, state in states if state == wanted]:
            return ", ".join(dict.fromkeys(names)) + ("" if wanted in ("running", "deferred") else f" ({wanted})")
    return ""


class InitialUpdate(threading.Thread):
    """One run of `initial_update`, followed until stopped. `sight` is the latest look."""

    def __init__(self, api: AirflowApi, slave: str) -> None:
        super().__init__(name=f"initial update of {slave}", daemon=True)
        self.api, self.slave = api, slave
        self.sight = RunSight()
        self.run_id = ""
        self._stopping = threading.Event()

    def trigger(self) -> None:
        """Start the run. Raises `ApiRefused`, `ApiUnreachable`."""
        self.run_id = self.api.trigger(INITIAL_UPDATE, {"prefix": PREFIX, "slave": self.slave})

    def run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            try:
                self.sight = self._look()
            except (ApiUnreachable, ApiRefused):  # Airflow restarts, or does not know its own run yet
                self.sight = replace(self.sight, answering=False)

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(40)

    def failure(self) -> InitialUpdateFailed:
        """Why the run failed, read from the failing task's log."""
        task, lines = "", ["The log could not be read."]
        path = f"dags/{INITIAL_UPDATE}/dagRuns/{quote(self.run_id, safe='')}"
        with contextlib.suppress(SluiceError):
            found = self.api.get(f"{path}/taskInstances", limit=100)["task_instances"]
            failed = [entry for entry in found if entry["state"] == "failed"] or [
                e for e in found if e["state"] == "upstream_failed"
            ]
            if failed:
                task = failed[0]["task_id"]
                text = self.api.task_log(
                    INITIAL_UPDATE, self.run_id, task, failed[0]["try_number"], failed[0]["map_index"]
                )
                lines = [line for line in text.splitlines() if line.strip() and not line.startswith(NOISE)][-LOG_LINES:]
        return InitialUpdateFailed(self.slave, task, lines, f"{self.api.url}/dags/{INITIAL_UPDATE}/runs/{self.run_id}")

    def _look(self) -> RunSight:
        state, task = self.sight.state, ""
        if state not in ("success", "failed"):
            state = self.api.run_state(INITIAL_UPDATE, self.run_id)
            task = running_task(list(self.api.task_states(INITIAL_UPDATE, self.run_id)))
        return RunSight(state, task, self._apply_state())

    def _apply_state(self) -> str:
        runs = self.api.get(f"dags/{APPLY}/dagRuns", limit=50, order_by="-run_after")["dag_runs"]
        mine = [run["state"] for run in runs if (run.get("conf") or {}).get("slave") == self.slave]
        return next((state for state in mine if state in ACTIVE), mine[0] if mine else "")


def forget_runs(api: AirflowApi) -> int:
    """Delete every run of both DAGs that an earlier demo left unfinished; returns how many there were."""
    count = 0
    for dag in (INITIAL_UPDATE, APPLY):
        for run in api.get(f"dags/{dag}/dagRuns", limit=100, state=list(ACTIVE))["dag_runs"]:
            path = f"dags/{dag}/dagRuns/{quote(run['dag_run_id'], safe='')}"
            api.call("PATCH", path, {"state": "failed"})
            api.call("DELETE", path)
            count += 1
    return count
