"""A pair from its first load to its end, operated only from a terminal, with a real scheduler, in order.

A user's DAG, that of docs/monitor.md, waits for its events meanwhile.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from devstack.stack import Stack
from sluice.vendors.postgres.connection import connect
from tests.airflow_home import ROOT
from tests.stacks import running_stack, until

pytestmark = pytest.mark.long
CONFIG = """
prefix: SHOP_
master: {conn_id: demo_master}
slaves: {dr1: {conn_id: demo_dr1}}
tables: {public.*: {}}
broadcast: true
initial: {locations: [$FOLDER/carried]}
"""
LOCAL = "airflow.dag_processing.bundles.local.LocalDagBundle"
PAIR = ("SHOP_", "dr1")
SECONDS = 600
"""Within which each must have happened, on the busiest machine."""


@dataclass
class Terminal:
    """A terminal beside the stack."""

    stack: Stack

    @property
    def carried(self) -> str:
        """The transfer's folder."""
        return str(self.stack.home.root.parent / "carried")

    def says(self, *words: str, status: int = 0) -> str:
        """Runs `./sluice` with these words; returns its output. It must end with that status."""
        command = [sys.executable, "-m", "devstack.cli", *words]
        environment = {**os.environ, "SLUICE_HOME": str(self.stack.home.root), "PYTHONPATH": f"{ROOT}:{ROOT}/plugins"}
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.says("status", *PAIR, "--json"))
        return found

    def execute(self, place: str, statement: str) -> list[tuple[Any, ...]]:
        with connect(self.stack.connection(place), application="test", autocommit=True) as session:
            found = session.execute(statement.encode())
            return list(found.fetchall()) if found.description else []

    def connect(self, password: str) -> None:
        """Changes the password of the slave's connection in Airflow."""
        entry = {"connection_id": "demo_dr1", "conn_type": "postgres", "password": password}
        self.stack.airflow.api().call("PATCH", "connections/demo_dr1?update_mask=password", entry)

    def runs(self, dag: str, state: str) -> list[dict[str, Any]]:
        """The runs of a DAG in that state."""
        found = self.stack.airflow.api().get(f"dags/{dag}/dagRuns", state=state, limit=100)["dag_runs"]
        return list(found)

    def await_state(self, state: str) -> None:
        try:
            until(lambda: self.state()["state"] == state, SECONDS)
        except AssertionError:
            api = self.stack.airflow.api()
            tasks = {
                run["dag_run_id"]: api.task_states("initial_update", run["dag_run_id"])
                for run in api.get("dags/initial_update/dagRuns", limit=100)["dag_runs"]
            }
            pytest.fail(f"not {state}:\n{self.says('status', *PAIR)}\n{tasks}")


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    """A stack with one slave, tables on its master, and a folder of a user's own DAGs."""
    with running_stack(CONFIG, _add_users_dags) as stack:
        stack.airflow.api().await_dags(["initial_update", "after_load", "report"], SECONDS)
        made = Terminal(stack)
        made.execute("master", "CREATE TABLE public.orders (id int PRIMARY KEY, total int)")
        made.execute("master", "CREATE TABLE public.lines (id int PRIMARY KEY, v text)")
        made.execute("master", "INSERT INTO public.orders SELECT n, n FROM generate_series(1, 1000) n")
        yield made


def _add_users_dags(stack: Stack) -> None:
    """Adds the documentation's example, in a bundle beside Sluice's own, and a folder for carried files."""
    example = re.findall(r"```python\n(from airflow.sdk import .*?)```", (ROOT / "docs/monitor.md").read_text(), re.S)[
        0
    ]
    (stack.home.root.parent / "carried").mkdir()
    folder = stack.home.root.parent / "users"
    folder.mkdir()
    (folder / "waits.py").write_text(example.replace("DEMO_", "SHOP_"))
    bundles = [
        {"name": "dags-folder", "classpath": LOCAL, "kwargs": {}},
        {"name": "users", "classpath": LOCAL, "kwargs": {"path": str(folder), "refresh_interval": 5}},
    ]
    stack.home.airflow.mkdir(parents=True, exist_ok=True)
    listed = json.dumps(bundles).replace("%", "%%")
    (stack.home.airflow / "airflow.cfg").write_text(f"[dag_processor]\ndag_bundle_config_list = {listed}\n")


def test_a_first_load_that_fails_in_check_is_told_until_one_succeeds(terminal: Terminal) -> None:
    assert "No initial update has begun yet" in terminal.says("status", *PAIR)
    right = terminal.stack.connection("dr1").password
    terminal.connect(password="wrong")
    try:
        assert "password authentication failed" in terminal.says("act", "initiate", *PAIR, status=1)
    finally:
        terminal.connect(password=right)
    for words in (("status",), ("status", *PAIR)):
        said = terminal.says(*words)
        assert "The initial update failed at " in said and " in its task check: " in said
        assert "password authentication failed" in said and "act put_aside SHOP_" in said
        assert "No initial update has begun yet" not in said
    (failed,) = [one for one in terminal.state()["messages"] if one["failed"]]
    assert failed["level"] == "critical" and failed["remedy"] == "initiate" and failed["run"]


def test_the_first_load_starts_the_dag_that_waits_for_normal(terminal: Terminal) -> None:
    said = terminal.says("act", "initiate", *PAIR)
    assert "Initiate: done" in said and "/dags/initial_update/runs/" in said
    assert terminal.state()["state"] == "NORMAL"
    until(lambda: len(terminal.runs("after_load", "success")) == 1, SECONDS)
    assert not terminal.runs("report", "success")


def test_a_verification_starts_the_dag_that_waits_for_it(terminal: Terminal) -> None:
    assert "2 tables, 1,000 rows compared: 2 identical" in terminal.says("verify", *PAIR)
    until(lambda: len(terminal.runs("report", "success")) == 1, SECONDS)
    (run,) = terminal.runs("report", "success")
    api = terminal.stack.airflow.api()
    printed = api.task_log("report", run["dag_run_id"], "read", 1)
    assert "'prefix': 'SHOP_'" in printed and "'as_of': " in printed and "'tables': 2" in printed


def asked(terminal: Terminal) -> dict[str, str]:
    """The subjects of the questions that wait, by id."""
    messages = [one for one in terminal.state()["messages"] if one["question"]]
    return {one["question"]: one["text"].partition(" UTC: ")[2] for one in messages}


def test_a_difference_fails_the_verification_and_a_repair_mends_it(terminal: Terminal) -> None:
    terminal.execute("dr1", "UPDATE public.orders SET total = -1 WHERE id = 7")
    said = terminal.says("verify", *PAIR, status=1)
    assert "SHOP_ → dr1: repair 1 row of 1 table?" in said
    (question,) = re.findall(r"\./sluice act approve SHOP_ dr1 --set (question=\S+),", said)
    # A failover asks at the same time: each answer is that of one question.
    terminal.says("act", "failover", *PAIR, "--set", "action=planned", "--why", "a test", "--no-wait")
    until(lambda: len(asked(terminal)) == 2, SECONDS)
    listed = terminal.says("status")
    assert (
        listed.count("has waited for a person's answer since") == 2 and listed.count("./sluice act approve SHOP_") == 2
    )
    assert "until the slave has applied the last changes" in listed, "what each answer does"
    assert "Which question?" in terminal.says("act", "approve", *PAIR, "--why", "a test", status=1)
    assert "Approve: SHOP_ → dr1: repair 1 row" in terminal.says("act", "approve", *PAIR, "--set", question)
    ((failover, subject),) = asked(terminal).items()
    assert subject == "Planned failover of SHOP_ → dr1"
    assert "waits no more" in terminal.says("act", "approve", *PAIR, "--set", question, status=1)
    reject = ["--set", f"question={failover}", "--set", "answer=Reject", "--no-wait"]
    assert "Reject: Planned failover" in terminal.says("act", "approve", *PAIR, *reject)
    until(lambda: not terminal.runs("resync", "running"), SECONDS)
    assert terminal.execute("dr1", "SELECT total FROM public.orders WHERE id = 7") == [(7,)]
    terminal.execute("dr1", "UPDATE public.orders SET total = -1 WHERE id = 8")
    assert "identical" in terminal.says("verify", *PAIR, "--repair", "--why", "a test")
    assert terminal.execute("dr1", "SELECT total FROM public.orders WHERE id = 8") == [(8,)]


def test_a_slave_is_held_back_and_let_go_on(terminal: Terminal) -> None:
    assert "the gate is closed" in terminal.says("gate", *PAIR, "close", "--why", "its disk is replaced")
    assert "its disk is replaced" in terminal.says("gate", *PAIR)
    terminal.execute("master", "INSERT INTO public.orders VALUES (2000, 1)")
    assert "the gate is open" in terminal.says("act", "open", *PAIR)
    until(lambda: terminal.execute("dr1", "SELECT 1 FROM public.orders WHERE id = 2000") != [], SECONDS)


def test_the_end_of_a_run_is_awaited_while_airflow_is_away(terminal: Terminal) -> None:
    with ThreadPoolExecutor(1) as beside:
        verified = beside.submit(terminal.says, "verify", *PAIR)
        until(lambda: terminal.runs("resync", "running"), SECONDS)
        killed = terminal.stack.kill("airflow-api-server")
        terminal.stack.await_running("airflow-api-server", 120.0, after=killed)
        said = verified.result(SECONDS)
    assert "The run is not lost; waiting for its end." in said and "identical" in said


def test_all_databases_are_asked_at_one_position(terminal: Terminal) -> None:
    said = terminal.says("act", "broadcast", "SHOP_", "--set", "statement=SELECT count(*) FROM public.orders")
    assert "master: 1 row; 1001" in said and "dr1: equal" in said
    refused = terminal.says("act", "broadcast", "SHOP_", "--set", "statement=DELETE FROM public.orders", status=1)
    assert "in its task queue" in refused and "SQLSTATE 42601" in refused and "DagBag" not in refused


def test_a_table_is_reloaded_while_the_slave_stays_normal(terminal: Terminal) -> None:
    terminal.execute("dr1", "DELETE FROM public.orders WHERE id > 500")
    assert "Reload tables: done" in terminal.says("act", "reload", *PAIR, "--set", "tables=public.orders")
    assert terminal.state()["state"] == "NORMAL"
    assert terminal.execute("dr1", "SELECT count(*) FROM public.orders") == [(1001,)]


def test_the_first_transaction_is_removed_and_its_table_reloaded(terminal: Terminal) -> None:
    terminal.execute("dr1", "DELETE FROM public.orders WHERE id = 8")
    terminal.execute("master", "UPDATE public.orders SET total = 0 WHERE id = 8")
    until(lambda: bool(terminal.state()["closures"]), SECONDS)
    assert "expected one on the slave and found none" in terminal.says("status", *PAIR)
    said = terminal.says("act", "remove_first", *PAIR, "--why", "it never fits")
    assert "public.orders" in said
    terminal.says("act", "restart", *PAIR)
    until(
        lambda: terminal.state()["not_ready"].keys() == {"public.orders"} and not terminal.state()["closures"], SECONDS
    )
    terminal.says("act", "reload", *PAIR, "--set", "tables=public.orders")
    until(lambda: not terminal.state()["not_ready"], SECONDS)
    assert "identical" in terminal.says("verify", *PAIR)


def test_two_updates_of_a_pair_do_not_meet_and_a_cancel_is_done_at_once(terminal: Terminal) -> None:
    files = ("act", "initiate", *PAIR, "--set", "transfer=files", "--set", f"location={terminal.carried}", "--no-wait")
    assert "All tables of dr1 are emptied or replaced" in terminal.says(*files, status=1)
    assert "Initiate: started" in terminal.says(*files, "--why", "a test")
    until(lambda: _asks(terminal), SECONDS)
    second = terminal.says("act", "initiate", *PAIR, "--why", "a second one", status=1)
    assert "failed in its task begin" in second and "Cancel the initial update that is running" in second
    assert "The initial update is canceled" in terminal.says("act", "cancel", *PAIR, "--why", "the wrong slave")
    terminal.await_state("INCONSISTENT")


def test_files_are_carried_and_approved(terminal: Terminal) -> None:
    terminal.says("act", "initiate", *PAIR, "--set", "transfer=files", "--set",
                  f"location={terminal.carried}", "--no-wait")  # fmt: skip
    until(lambda: _asks(terminal), SECONDS)
    until(lambda: len(asked(terminal)) == 1, SECONDS)
    (question,) = asked(terminal)
    answer = ("act", "approve", *PAIR, "--set", f"question={question}", "--why", "carried by train", "--no-wait")
    assert "Approve: SHOP_ → dr1: " in terminal.says(*answer)
    terminal.await_state("NORMAL")
    assert "waits for an answer" in terminal.says("act", "approve", *PAIR, status=1)
    until(lambda: not terminal.runs("initial_update", "running"), SECONDS)
    assert "identical" in terminal.says("verify", *PAIR)


def test_a_prefix_is_uninstalled_once_its_apply_has_ended(terminal: Terminal) -> None:
    uninstall = ("act", "uninstall", "SHOP_", "--set", "confirm=SHOP_", "--why", "the end")
    assert "Mark their runs of cdc_apply as failed" in terminal.says(*uninstall, status=1)
    for run in terminal.runs("cdc_apply", "running"):
        api = terminal.stack.airflow.api()
        api.call("PATCH", f"dags/cdc_apply/dagRuns/{run['dag_run_id']}", {"state": "failed"})
    until(lambda: not terminal.state()["applying"], SECONDS)
    assert "Uninstall: done" in terminal.says(*uninstall)
    assert terminal.execute("master", "SELECT 1 FROM pg_class WHERE relname LIKE 'shop%'") == []
    assert terminal.execute("dr1", "SELECT count(*) FROM public.orders") == [(1001,)]


def _asks(terminal: Terminal) -> bool:
    """Whether a transfer waits for an answer."""
    runs = terminal.runs("initial_update", "running")
    states = [
        one for run in runs for one in terminal.stack.airflow.api().task_states("initial_update", run["dag_run_id"])
    ]
    return any(task == "approve" and state == "awaiting_input" for task, _, state in states)
