"""Runs of `initial_update` in a stack, with what a person sees of them; and tables to load."""

import urllib.parse
from typing import Any

import psycopg

from devstack.stack import Stack
from sluice.cli.airflow_api import AirflowApi, ApiRefused
from tests.questions import Question
from tests.stacks import until

DAG = "initial_update"


def make_tables(stack: Stack, rows: int) -> None:
    """Creates two tables with a foreign key and so many rows each; every slave's account may load them in any order."""
    with stack.master.connect("demo", "demo") as master:
        master.execute("CREATE SCHEMA shop")
        master.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, v text)")
        master.execute("INSERT INTO shop.orders SELECT g, md5(g::text) FROM generate_series(1, %s) g", [rows])
        master.execute(
            "CREATE TABLE shop.lines (order_id int REFERENCES shop.orders, n int, PRIMARY KEY (order_id, n))"
        )
        master.execute("INSERT INTO shop.lines SELECT g, 1 FROM generate_series(1, %s) g", [rows])
    for name, server in stack.slaves.items():
        with server.connect("demo") as administrator:
            role = stack.connection(name).user
            administrator.execute(f"GRANT SET ON PARAMETER session_replication_role TO {role}".encode())


class Run:
    """A run of initial_update and what a person sees of it."""

    def __init__(self, stack: Stack, run_id: str):
        self.stack = stack
        self.api: AirflowApi = stack.airflow.api()
        self.id = run_id
        self._approval = Question(stack, DAG, run_id, "approve")
        self.path = f"dags/{DAG}/dagRuns/{urllib.parse.quote(run_id, safe='')}"

    @classmethod
    def begun(cls, stack: Stack, **params: str) -> "Run":
        """Starts a run with these params, of DEMO_ unless they name another prefix."""
        return cls(stack, stack.airflow.api().trigger(DAG, {"prefix": "DEMO_", **params}))

    def of(self, slave: str) -> "Run":
        """The run that continues this one, of several slaves, for one of them."""
        return Run(self.stack, f"{self.id}~{slave}")

    def state(self, task: str) -> str | None:
        return next(state for name, _, state in self.api.task_states(DAG, self.id) if name == task)

    def await_state(self, task: str, wanted: str, seconds: float = 600) -> None:
        until(lambda: self._reached(task, wanted), seconds)

    def _reached(self, task: str, wanted: str) -> bool:
        if self.api.run_state(DAG, self.id) == "failed" and wanted != "failed":
            raise AssertionError(self.log(next(n for n, _, s in self.api.task_states(DAG, self.id) if s == "failed")))
        return self.state(task) == wanted

    def log(self, task: str) -> str:
        """The log of all its attempts. An attempt that Airflow took for lost before it began, as on a busy machine, has
        none."""
        last = int(self.api.get(f"{self.path}/taskInstances/{task}")["try_number"])
        found = []
        for attempt in range(1, max(last, 1) + 1):
            try:
                found.append(self.api.task_log(DAG, self.id, task, attempt))
            except ApiRefused as refused:
                if refused.status != 404 or attempt == last:
                    raise
        return "\n".join(found)

    @property
    def question(self) -> dict[str, Any]:
        return self._approval.detail

    def answer(self, chosen: str) -> None:
        before = self.answers()
        self._approval.answer(chosen, lambda: bool(given := self.answers()) and given[-1] not in before)

    def answers(self) -> list[dict[str, str]]:
        try:
            entry = self.api.get(f"{self.path}/taskInstances/approve/xcomEntries/answers", deserialize="true")
        except ApiRefused as refused:
            if refused.status != 404:
                raise
            return []
        return list(entry["value"])

    def cancel(self) -> None:
        """Marks the run as failed, as a person does."""
        self.api.call("PATCH", self.path, {"state": "failed"})


def content(connection: "psycopg.Connection[Any]") -> list[Any]:
    return [
        connection.execute(
            f"SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t)) FROM {table} t".encode()
        ).fetchone()
        for table in ("shop.orders", "shop.lines")
    ]
