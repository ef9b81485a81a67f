"""Questions of Airflow to a person in a run, and answers to them."""

import time
import urllib.parse
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from devstack.stack import Stack
from sluice.cli.airflow_api import ApiRefused, ApiUnreachable
from tests.stacks import until

LEFT = "Received executor event with state success for task instance"


class Question:
    """The question of `task` in a run; the task may ask again."""

    def __init__(self, stack: Stack, dag: str, run: str, task: str):
        self.stack, self.dag, self.run, self.task = stack, dag, run, task
        self.api = stack.airflow.api()
        run_path = urllib.parse.quote(run, safe="")
        self.path = f"dags/{dag}/dagRuns/{run_path}/taskInstances/{task}/-1/hitlDetails"
        self._noticed = 0

    @property
    def detail(self) -> dict[str, Any]:
        """The question's detail; empty between two tries."""
        try:
            return dict(self.api.get(self.path))
        except ApiRefused as refused:
            if refused.status != 404:
                raise
            return {"subject": "", "body": "", "response_received": True}

    def asked(self) -> bool:
        states = {name: state for name, _, state in self.api.task_states(self.dag, self.run)}
        return states.get(self.task) == "awaiting_input" and not self.detail["response_received"]

    def answer(self, chosen: str, given: Callable[[], bool], seconds: float = 600) -> None:
        """Answers as a person does, who reads the question first, and answers again when it is asked again.

        Returns when the answer is `given`. A task that resumes before Airflow's executor has noticed that it left is
        taken for killed, and asks again (see sluice.airflow.deferral_guard). The API does not show when that danger has
        passed, but the scheduler's log does.
        """
        deadline = time.monotonic() + seconds
        while True:
            with suppress(ApiUnreachable):
                if given():
                    return
                if (left := self._left()) > self._noticed and self.asked():
                    self._await_turn()
                    self.api.call("PATCH", self.path, {"chosen_options": [chosen], "params_input": {}})
                    self._noticed = left
            assert time.monotonic() < deadline, f"{chosen}: no answer arrived at {self.path}"
            time.sleep(1)

    def _await_turn(self) -> None:
        """Waits for the log line that is written just before the scheduler looks at the task: its next heartbeat comes
        after that."""
        beat = self._heartbeat()
        until(lambda: self._heartbeat() != beat, 300)

    def _heartbeat(self) -> str:
        return str(self.api.health()["scheduler"]["latest_scheduler_heartbeat"])

    def _left(self) -> int:
        """How often the executor has noticed that the task left its worker."""
        task, run = f"task_id='{self.task}'", f"run_id='{self.run}'"
        with self.stack.home.log("airflow-scheduler").open(errors="replace") as lines:
            return sum(LEFT in line and task in line and run in line for line in lines)
