"""The stack as a service manager runs it: started once, repaired after accidents, stopped without a trace."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from devstack import leftovers
from devstack.account import new_folder
from devstack.blueprint import REPLICATIONS
from devstack.commands import configuration, pairs, places
from devstack.connections import Connections
from devstack.demo import start as demo_replications
from devstack.home import Home
from devstack.ports import free_port
from devstack.process import await_true
from devstack.services import MARKER, ROLE
from devstack.stack import Stack
from sluice import config
from sluice.cli import status as replications
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.coordination.lease import Lease
from sluice.coordination.records import Status
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.errors import raises_code
from tests.traces import nothing_runs


@contextlib.contextmanager
def new_home() -> Iterator[Path]:
    """A folder for a home; running processes of it are ended after the test."""
    path = new_folder("sluice-test-") / "home"
    try:
        yield path
    finally:
        if path.exists():
            Stack(path).down()
            leftovers.end_all(Home(path))
        shutil.rmtree(path.parent)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A new home."""
    with new_home() as path:
        yield path


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    """The home of the stack that most tests here share; each finds it running, whatever the one before did to it."""
    with new_home() as path:
        yield path


@pytest.fixture
def stack(shared: Path) -> Stack:
    """Master, slaves (dr1 at least) and Redis, running."""
    made = Stack(shared, airflow=False, durable=False)
    made.up()
    return made


def pids(stack: Stack) -> dict[str, int | None]:
    return {report.name: report.process and report.process.pid for report in stack.status().services}


def test_a_second_up_changes_nothing(stack: Stack, shared: Path) -> None:
    before = pids(stack)
    assert set(before) >= {"redis", "master", "slave-dr1"}
    Stack(shared).up()
    assert pids(stack) == before


@pytest.mark.long
def test_down_leaves_no_process_and_up_finds_the_data_again(stack: Stack, shared: Path) -> None:
    port = stack.master.port
    with stack.master.connect("demo", "demo") as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.kept AS SELECT 1 AS a")
    redis.from_url(stack.redis_url).set("kept", "1")
    assert stack.down()
    assert nothing_runs(shared)
    assert not stack.down(), "there is nothing left to stop"
    again = Stack(shared)
    again.up()
    assert again.blueprint == stack.blueprint and again.master.port == port
    with again.master.connect("demo", "demo") as connection:
        assert connection.execute("SELECT a FROM public.kept").fetchone() == (1,)
    assert redis.from_url(again.redis_url).get("kept") == b"1"


@pytest.mark.parametrize("service", ["redis", "master"])
def test_a_killed_service_is_started_again_and_keeps_what_it_confirmed(stack: Stack, service: str) -> None:
    with stack.master.connect("demo") as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.kept AS SELECT 1 AS a")
    before = stack.await_running(service)
    killed = stack.kill(service)
    report = stack.await_running(service, 30.0, after=killed)
    assert report.restarts == before.restarts + 1 and not killed.alive()
    with stack.master.connect("demo") as connection:
        assert connection.execute("SELECT a FROM public.kept").fetchone() == (1,)
    assert redis.from_url(stack.redis_url).ping()


def test_up_goes_on_after_the_supervisor_was_killed(stack: Stack, shared: Path) -> None:
    supervisor, before = stack.status().supervisor, pids(stack)
    assert supervisor
    supervisor.send(signal.SIGKILL)
    assert await_true(lambda: not supervisor.alive(), 5.0)
    status = stack.status()
    assert status.leftovers and not status.is_up
    Stack(shared).up()
    assert stack.status().is_up
    assert all(pid not in before.values() for pid in pids(stack).values()), "all are children of the new supervisor"
    assert stack.master.connect("demo").execute("SELECT 1").fetchone() == (1,)


def test_down_ends_what_a_killed_supervisor_left(stack: Stack, shared: Path) -> None:
    supervisor = stack.status().supervisor
    assert supervisor
    supervisor.send(signal.SIGKILL)
    assert await_true(lambda: not supervisor.alive(), 5.0)
    assert stack.down()
    assert nothing_runs(shared) and not stack.status().leftovers


def test_a_job_of_the_stack_ends_with_it_and_a_stranger_in_its_folder_does_not(stack: Stack, shared: Path) -> None:
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    marked = {**os.environ, MARKER: str(shared)}
    with (
        subprocess.Popen(program, env=marked, start_new_session=True) as job,
        subprocess.Popen(program, cwd=shared) as stranger,
    ):
        stack.down()
        assert job.wait(5.0) == -signal.SIGTERM
        assert stranger.poll() is None
        stranger.kill()


def test_a_job_that_ignores_the_request_to_end_is_killed(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "JOB_GRACE", 0.5)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=stack.environment(), start_new_session=True, stdout=subprocess.PIPE
    ) as job:
        assert job.stdout and job.stdout.read(1)
        assert [killed.pid for killed in leftovers.end_processes(stack.home)] == [job.pid]
        assert job.wait(5.0) == -signal.SIGKILL


def test_a_slave_joins_a_running_stack_and_nobody_else_notices(stack: Stack) -> None:
    before = pids(stack)
    server = stack.add_slave("dr2")
    after = pids(stack)
    assert {name: after[name] for name in before} == before and after["slave-dr2"]
    info = stack.connection("dr2")
    with server.connect(info.database, info.user) as connection:
        connection.execute("CREATE TABLE public.mine (a int)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        server.connect(info.database, info.user).execute("CREATE ROLE other")


@pytest.mark.long
def test_records_of_a_machine_that_was_switched_off_are_not_believed(folder: Path) -> None:
    stack = Stack(folder, airflow=False, durable=False)
    stack.home.create()
    # After a reboot the recorded pids belong to others, here to us.
    stack.home.supervisor.write_text(json.dumps({"pid": os.getpid(), "started": 1.0}))
    report = {"name": "airflow-scheduler", "process": {"pid": os.getpid(), "started": 1.0}}
    stack.home.services.write_text(json.dumps([report]))
    assert not stack.status().leftovers
    stack.up()
    assert stack.status().is_up


def test_a_port_in_use_is_reported_before_anything_starts(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with raises_code("port-in-use") as raised:
            Stack(folder, airflow=False, durable=False, ports={"master": port}).up()
    assert f"Port {port}" in str(raised.value) and f"(pid {os.getpid()})" in str(raised.value)
    assert "--master-port PORT" in str(raised.value)
    assert nothing_runs(folder)


@pytest.mark.long
def test_given_ports_are_used_and_remembered(folder: Path) -> None:
    port = free_port()
    stack = Stack(folder, airflow=False, durable=False, ports={"slave-dr1": port})
    stack.up()
    assert stack.slaves["dr1"].port == port
    Stack(folder, ports={"slave-dr1": port}).up()
    with raises_code("stack-must-be-down", match=r"\./sluice down"):
        Stack(folder, ports={"slave-dr1": free_port()}).up()
    assert Stack(folder).slaves["dr1"].port == port


@pytest.mark.long
def test_a_service_that_cannot_start_fails_up_with_its_own_words_and_leaves_nothing(folder: Path) -> None:
    stack = Stack(folder, airflow=False, durable=False)
    cluster = stack.home.postgres("master")
    (cluster / "data").mkdir(parents=True)
    (cluster / "data" / "PG_VERSION").write_text("18\n")  # and nothing else of a cluster
    with raises_code("service-did-not-start") as raised:
        stack.up()
    assert str(raised.value).startswith("master ") and str(stack.home.log("master")) in str(raised.value)
    assert nothing_runs(folder)


@pytest.mark.long
def test_two_commands_at_once_make_one_stack(folder: Path) -> None:
    stacks = [Stack(folder, airflow=False, durable=False) for _ in range(2)]
    threads = [threading.Thread(target=stack.up) for stack in stacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stacks[0].status().is_up
    assert {report.restarts for report in stacks[0].status().services} == {0}


def test_an_unusable_home_says_why_and_what_else_to_do(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file")
    with raises_code("state-folder-unusable", match="SLUICE_HOME"):
        Stack(folder / "below").up()
    folder.unlink()


def test_a_full_disk_is_reported_before_anything_starts_and_hinders_no_stop(
    stack: Stack, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100 << 20, 99 << 20, 1 << 20))
    assert stack.down()
    with raises_code("state-folder-unusable", match="1 MB are free"):
        Stack(shared).up()
    assert nothing_runs(shared)


def test_commands_that_need_a_running_stack_say_so(folder: Path) -> None:
    with raises_code("stack-not-up", match=r"\./sluice up"):
        Stack(folder).kill("master")


def test_an_unknown_service_is_answered_with_the_known_ones(stack: Stack, shared: Path) -> None:
    with raises_code("unknown-service", match="slave-dr1"):
        stack.kill("mistress")
    with raises_code("unknown-service", match="redis"):
        Stack(shared, ports={"mistress": 4711})


def test_the_files_of_a_stack_are_closed_to_other_accounts(stack: Stack) -> None:
    folders = [path for path in stack.home.root.iterdir() if path.is_dir() and not path.is_symlink()]
    open_ones = {path.name for path in folders if path.stat().st_mode & 0o077}
    assert open_ones <= {"postgres"}, "search permission, where root hands PostgreSQL to another account"
    readable = [
        path for path in stack.home.root.rglob("*password*/*") if path.is_file() and path.stat().st_mode & 0o077
    ]
    assert not readable


def test_status_tells_each_pair_whatever_state_its_slave_is_in(stack: Stack) -> None:
    assert pairs(stack) == ["no replication is configured: ./sluice add makes one"], "nobody ran the demo"
    demo_replications.write(stack.home.replications, ["dr1"])
    place = stack.connection("master").server
    assert pairs(stack) == [
        f"DEMO_ from demo_master ({place}): nothing is installed on the master yet",
        "DEMO_ → dr1: not loaded yet. Load it: ./sluice act initiate DEMO_ dr1",
    ]
    with connect(stack.slaves["dr1"].info("demo", ROLE), application="test", autocommit=True) as slave:
        store = CheckpointStore(slave, Prefix("DEMO_"), "sluice", "dr1")
        store.ensure()
        store.move(SlaveState.INITIAL, "being prepared")
    told = ["DEMO_ → dr1: INITIAL: being prepared", "    0 of 0 tables, 0 rows, 0.0 MB, 0 rows/s"]
    assert pairs(stack)[1:] == told
    client = redis_store.connect(stack.redis_url)
    mode = "on after an abnormal stop, until everything up to 2026-11-21 is applied"
    Status(client, Prefix("DEMO_"), "dr1").write({"safe_mode": mode})
    assert pairs(stack)[1:] == told, "the apply that said it has ended"
    lease = Lease(client, Prefix("DEMO_"), "dr1", 10.0)
    lease.acquire()
    try:
        assert pairs(stack)[3] == f"    an apply runs, safe mode {mode}"
    finally:
        lease.release()
    with stack.slaves["dr1"].connect("demo", ROLE) as slave:
        slave.execute(
            "DROP TABLE sluice.demo_checkpoint, sluice.demo_blocks, sluice.demo_rejects, sluice.demo_throttle"
        )


def test_a_folder_of_replications_takes_effect_at_once_and_ignored_files_are_named(stack: Stack, shared: Path) -> None:
    own = shared.parent / "own"
    own.mkdir()
    (own / "SHOP.yaml").write_text(
        "prefix: SHOP_\nmaster: {conn_id: shop_master}\nslaves: {dr1: {conn_id: demo_dr1}}\ntables: {'public.*': {}}\n"
    )
    made = Stack(shared, replications=own)
    made.up()
    assert pids(made) == pids(stack), "nothing was started again"
    in_force = made.services.exports()["SLUICE_REPLICATIONS"].split(os.pathsep)
    assert [Path(place).resolve() for place in in_force] == [shared / "replications", own]
    told = "\n".join(configuration(made))
    assert str(own) in told
    # A demo's own file, and one of the same name that it makes void.
    demo_replications.write(shared / "replications", ["dr1"])
    (own / "DEMO.yaml").write_text("prefix: OTHER_\n")
    assert f"{own}/DEMO.yaml does not count: {shared}/replications/DEMO.yaml has its name" in "\n".join(
        configuration(made)
    )
    said = "\n".join(pairs(made))
    assert "SHOP_ from Airflow has no connection 'shop_master'" in said, "one that is unknown hinders no other"
    assert "SHOP_ → dr1: not loaded yet" in said and "DEMO_ → dr1: not loaded yet" in said and "OTHER_" not in said
    shutil.rmtree(own)
    Stack(shared, replications=REPLICATIONS).up()


def test_a_database_that_is_down_costs_the_status_of_the_others_nothing(stack: Stack, shared: Path) -> None:
    port = free_port()
    demo_replications.write(stack.home.replications, ["dr1"])
    connections = Connections(stack)
    down = dataclasses.replace(stack.connection("dr1"), port=port)
    found = config.survey(*stack.replications)

    def reach(conn_id: str, vendor: str) -> ConnectionInfo:
        return connections(conn_id, vendor) if conn_id == "demo_master" else down

    lines = replications.replications(found, reach, stack.redis_url)
    assert lines[0].startswith("DEMO_ from demo_master") and "nothing is installed" in lines[0]
    assert lines[1].startswith("DEMO_ → dr1: ") and str(port) in lines[1]


def test_the_folder_that_a_former_demo_left_in_force_is_no_longer(folder: Path) -> None:
    made = Stack(folder, replications=folder / "replications")
    made.home.create()
    made.blueprint.write(made.home.blueprint)
    assert Stack(folder).replications == (REPLICATIONS,)


def test_passwords_are_shown_on_request_and_work(stack: Stack) -> None:
    assert "://" not in places(stack, secrets=True)
    urls = re.findall(r"\S+://\S+", places(stack, secrets=True, urls=True))
    databases, stores = ([url for url in urls if url.startswith(kind)] for kind in ("postgresql:", "redis:"))
    assert len(databases) == 1 + len(stack.slaves) and len(stores) == 1
    for url in databases:
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT current_user::text, current_database()").fetchone() == (ROLE, "demo")
    assert redis.from_url(stores[0]).ping()
