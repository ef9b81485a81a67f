"""A person follows the quick checklist of docs/manual-transfer.md, with Airflow and under traffic."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from devstack.commands import pairs
from devstack.stack import Stack
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.coordination.gate import Gate
from sluice.model.checkpoint import Checkpoint
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.scenarios.initial_files.runs import DAG, Run, content, make_tables
from tests.stacks import running_stack, until

CONFIG = """
prefix: DEMO_
master: {conn_id: demo_master, vendor: postgres}
slaves:
  dr1: {conn_id: demo_dr1, vendor: postgres, initial_files_location: $FOLDER/in}
tables:
  shop.*: {}
initial: {locations: [$FOLDER], block_rows: 2000, block_target_seconds: 0.05, parallel: 2}
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(CONFIG) as made:
        for name in ("out", "in"):
            (made.home.root.parent / name).mkdir()
        make_tables(made, 30_000)
        made.airflow.api().await_dags([DAG, "cdc_apply"])
        yield made


@contextmanager
def traffic(stack: Stack) -> Iterator[list[int]]:
    """Orders come, change and go; yields the number of transactions."""
    ending, done = threading.Event(), [0]

    def write() -> None:
        with stack.master.connect("demo", "demo") as master:
            while not ending.wait(0.005):
                number = 30_000 + done[0]
                with master.transaction():
                    master.execute("INSERT INTO shop.orders VALUES (%s, 'new')", [number + 1])
                    master.execute("INSERT INTO shop.lines VALUES (%s, 1)", [number + 1])
                    master.execute("UPDATE shop.orders SET v = v || '!' WHERE id = %s", [done[0] % 29_000 + 1])
                    master.execute("DELETE FROM shop.lines WHERE order_id = %s", [done[0] % 29_000 + 1])
                done[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield done
    finally:
        ending.set()
        thread.join()


def slave(stack: Stack) -> "psycopg.Connection[Any]":
    return connect(stack.connection("dr1"), application="test", autocommit=True)


def checkpoint(stack: Stack) -> tuple[SlaveState, str]:
    found = any_checkpoint(stack)
    assert found is not None
    return found.state, found.message


def any_checkpoint(stack: Stack) -> Checkpoint | None:
    """The checkpoint; None before the first update."""
    with slave(stack) as connection:
        return CheckpointStore(connection, Prefix("DEMO_"), "sluice", "dr1").read()


def update_of(stack: Stack) -> tuple[SlaveState, str, int, object] | None:
    """The fields of the checkpoint that an update changes; an apply of an earlier test may still move its position."""
    found = any_checkpoint(stack)
    return None if found is None else (found.state, found.message, found.epoch, found.tables)


def begun(stack: Stack, location: Path | str, transfer: str = "files") -> Run:
    return Run.begun(stack, slave="dr1", transfer=transfer, location=str(location))


@pytest.mark.long
def test_the_quick_checklist_from_the_form_to_normal(stack: Stack) -> None:
    folder = stack.home.root.parent
    with traffic(stack) as transactions:
        # 1. A source, a destination and the directory, in the form.
        run = begun(stack, folder / "out")
        # 2. The status stays yellow, and the last message says where the data are.
        run.await_state("await_files", "deferred")
        (stored,) = (folder / "out").iterdir()
        waiting = f"Manual Data transfer: WAITING (stored on '{stored}')"
        assert checkpoint(stack) == (SlaveState.TRANSITION, waiting)
        with redis_store.connect(stack.redis_url) as store:
            (closure,) = Gate(store, Prefix("DEMO_"), "dr1").closures()
        assert closure.reason.startswith(waiting) and str(folder / "in" / stored.name) in closure.reason
        # 3. The subdirectory is populated.
        files = sorted(os.listdir(stored))
        assert len(files) > 8 and [name[:2] for name in files[-3:]] == ["7-", "8-", "9-"]
        queued = transactions[0]
        until(lambda: transactions[0] > queued + 100, 300)
        with slave(stack) as connection:
            assert connection.execute("SELECT count(*) FROM shop.orders").fetchone() == (0,)
        # 4 to 6. The folder travels, and a file suffers on the way. The run notices both.
        carried = folder / "in" / stored.name
        damaged = stored / files[0]
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        shutil.move(stored, folder / "in")
        altered = f"- {files[0]} is altered: its SHA-256 is another one"
        until(lambda: altered in checkpoint(stack)[1], 300)
        assert checkpoint(stack)[0] is SlaveState.TRANSITION
        assert run.state("approve") in (None, "none", ""), "nobody is asked before all is right"
        (carried / files[0]).write_bytes(whole)
        # 7. The question says what is there. Whatever suffers after that is found, too, and asked again.
        run.await_state("approve", "awaiting_input")
        found = f"{len(files)} of {len(files)} files are there and verified ('{carried}')"
        assert run.question["subject"] == f"DEMO_ → dr1: Manual Data transfer: {found}"
        assert "/tasks/approve" in run.question["body"], "a link to the log that lists what is wrong"
        (carried / files[1]).rename(folder / "away")
        run.answer("Approve")
        until(lambda: len(run.answers()) == 1, 300)
        until(lambda: f"- {files[1]} is missing" in checkpoint(stack)[1], 300)
        assert "/tasks/approve" in checkpoint(stack)[1]
        assert "cannot be imported. Nothing was loaded" in run.log("approve")
        (folder / "away").rename(carried / files[1])
        # Reactivated: the slave reads the files, and turns green.
        run.answer("Approve")
        run.await_state("import_files", "success")
        run.await_state("settle", "success")
        assert checkpoint(stack)[0] is SlaveState.NORMAL
    answers = run.answers()
    assert [answer["answer"] for answer in answers] == ["Approve"] * 2
    assert {answer["who"] for answer in answers} == {stack.airflow.api()._user}
    until(lambda: run.api.run_state(DAG, run.id) == "success", 300)
    with stack.master.connect("demo", "demo") as master, slave(stack) as connection:
        until(lambda: content(connection) == content(master), 300)
        keys = "SELECT count(*) FROM pg_catalog.pg_constraint WHERE contype = 'f' AND conrelid = 'shop.lines'::regclass"
        assert connection.execute(keys.encode()).fetchone() == (1,)


@pytest.mark.long
def test_a_location_that_cannot_be_written_is_answered_before_anything_is_touched(stack: Stack) -> None:
    folder = stack.home.root.parent
    before = update_of(stack)
    for place, words in (
        (folder / "gone", "is no directory on this machine"),
        ("", "no location is given"),
        ("/tmp", "is not allowed by"),
    ):
        run = begun(stack, place)
        run.await_state("settle", "failed")
        assert words in run.log("check")
        assert run.state("begin") == "upstream_failed"
    assert update_of(stack) == before


def reject(stack: Stack) -> None:
    """Starts an update whose files are where they are looked for, and rejects it."""
    run = begun(stack, stack.home.root.parent / "in")
    run.await_state("approve", "awaiting_input")
    run.answer("Reject")
    run.await_state("settle", "failed")


@pytest.mark.long
def test_rejected_the_update_is_cancelled(stack: Stack) -> None:
    reject(stack)
    state, message = checkpoint(stack)
    assert state is SlaveState.INCONSISTENT
    assert message.startswith("Initial Update interrupted by the ADMIN (the transfer was rejected by ")
    with redis_store.connect(stack.redis_url) as store:
        assert Gate(store, Prefix("DEMO_"), "dr1").closures() == []


@pytest.mark.long
def test_after_a_rejected_update_the_next_one_starts_clean(stack: Stack) -> None:
    reject(stack)
    again = begun(stack, stack.home.root.parent / "in")
    again.await_state("approve", "awaiting_input")
    again.answer("Approve")
    again.await_state("settle", "success")
    assert checkpoint(stack)[0] is SlaveState.NORMAL
    with stack.master.connect("demo", "demo") as master, slave(stack) as connection:
        until(lambda: content(connection) == content(master), 300)


def paused(stack: Stack, wanted: bool) -> None:
    """Pauses every load by the configuration file."""
    file = stack.home.root.parent / "replications" / "DEMO.yaml"
    text = file.read_text().replace(", throttle: {pause: true}}", "}")
    file.write_text(text.replace("parallel: 2}", "parallel: 2, throttle: {pause: true}}") if wanted else text)


def running(stack: Stack) -> list[str]:
    """Load jobs of the stack, and sessions of loads and of steps on both databases."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        line, home = process.info["cmdline"] or [], (process.info["environ"] or {}).get("SLUICE_HOME")
        if "spark_jobs.load" in line and home == str(stack.home.root):
            found.append(" ".join(line))
    for server in (stack.master, stack.slaves["dr1"]):
        with server.connect("demo") as administrator:
            rows = administrator.execute(
                "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'sluice load%'"
                " OR application_name LIKE 'sluice initial update%'"
            ).fetchall()
            found += [name for (name,) in rows]
    return found


@pytest.mark.long
def test_canceled_while_it_loads_waits_or_imports_nothing_runs_on_and_the_next_one_starts_clean(stack: Stack) -> None:
    folder = stack.home.root.parent
    waits = "waits: initial.throttle.pause is set in "
    for task in ("load", "approve", "import_files"):
        paused(stack, task == "load")
        run = begun(stack, "" if task == "load" else folder / "in", "online" if task == "load" else "files")
        if task != "load":
            run.await_state("approve", "awaiting_input")
        if task == "import_files":
            paused(stack, True)
            run.answer("Approve")
        if task != "approve":
            run.await_state(task, "deferred")
            until(lambda: waits in checkpoint(stack)[1], 300)
            assert len(running(stack)) > 3
            said = "\n".join(pairs(stack))
            assert f"DEMO_ → dr1: TRANSITION: Initial update {run.id} waits: initial.throttle.pause is set in" in said
            assert " of 2 tables, " in said and "; paused: initial.throttle.pause is set in" in said
        run.cancel()
        run.await_state("settle", "failed")
        state, message = checkpoint(stack)
        assert state is SlaveState.INCONSISTENT
        assert message.startswith("Initial Update interrupted by the ADMIN"), message
        assert running(stack) == []
        with redis_store.connect(stack.redis_url) as store:
            assert Gate(store, Prefix("DEMO_"), "dr1").closures() == []
    paused(stack, False)
    again = begun(stack, "", "online")
    again.await_state("settle", "success")
    assert checkpoint(stack)[0] is SlaveState.NORMAL
    with stack.master.connect("demo", "demo") as master, slave(stack) as connection:
        until(lambda: content(connection) == content(master), 300)
