"""Disks that are full: each is told with its place and the remedy; all continues when there is room; none is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from sluice.airflow import jobs, state_paths
from sluice.airflow.failure import as_airflow
from sluice.airflow.job import JobState, Kind, Owner
from sluice.coordination import redis_store
from sluice.coordination.redis_store import StoreUnreachable
from sluice.model.slave_state import SlaveState
from tests.rig.applying import Applying
from tests.rig.rig import Database, Rig
from tests.scenarios.full_disks.conftest import Disk

TABLE = "CREATE TABLE public.orders (id int PRIMARY KEY, note text)"
SETTINGS = {
    "fsync": "off",
    "min_wal_size": "32MB",
    "max_wal_size": "32MB",
    "shared_buffers": "2MB",
    "restart_after_crash": "on",
}
Disks = Callable[[int], Disk]


@pytest.fixture
def server(disk: Disks) -> Iterator[tuple[PostgresServer, Disk]]:
    """PostgreSQL with data and log on its own disk."""
    small = disk(220)
    made = PostgresServer(small.folder / "pg", name="small", settings=SETTINGS)
    made.start(die_with_parent=True)
    yield made, small
    made.stop()


def insert(rig: Rig, first: int, count: int, size: int = 4000) -> None:
    rig.master.execute(
        "INSERT INTO public.orders SELECT g, (SELECT string_agg(md5(g::text || h::text), '') FROM"
        " generate_series(1, %s / 32) h) FROM generate_series(%s::int, %s::int) g",
        [size, first, first + count - 1],
    )


def activity(running: Applying) -> str:
    return str(running.loop.report.status.read().get("activity"))


def revive(server: PostgresServer) -> None:
    """What a service manager does with a server that ended for lack of room."""
    if not server.is_running():
        server.start(die_with_parent=True)


@pytest.mark.long
def test_a_full_disk_of_a_slave_is_told_and_the_apply_goes_on_when_there_is_room(
    server: tuple[PostgresServer, Disk], database: Database, redis_url: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    slave, small = server
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    rig = Rig.empty(database, redis_url, tmp_path, slave=slave.info(), interval=0.1)
    rig.begin(TABLE)
    with rig.apply() as running:
        insert(rig, 1, 10)
        rig.await_current()
        small.fill()
        insert(rig, 101, 4000)
        rig.await_that(lambda: "No space left on device" in activity(running) or not slave.is_running())
        told = activity(running)
        assert not slave.is_running() or f"{slave.info().port}" in told, told
        assert not slave.is_running() or "free disk space" in told, told
        small.make_room()
        revive(slave)
        rig = reconnected(rig)
        insert(rig, 50_001, 10)
        rig.await_current()
    assert rig.differences() == {}
    assert rig.state() is SlaveState.NORMAL
    rig.close()


def reconnected(rig: Rig) -> Rig:
    rig.close()
    return Rig.between(rig.pair, rig.redis_url)


@pytest.mark.long
def test_a_full_disk_of_the_master_loses_nothing(
    server: tuple[PostgresServer, Disk], database: Database, redis_url: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The application fails there with and without a capture; the apply waits, and continues."""
    master, small = server
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    rig = Rig.empty(database, redis_url, tmp_path, master=master.info(), interval=0.1)
    rig.begin(TABLE)
    with rig.apply():
        insert(rig, 1, 10)
        rig.await_current()
        small.fill()
        with pytest.raises((psycopg.Error, Exception)) as refused:
            for first in range(101, 100_000, 1000):
                insert(rig, first, 1000)
        assert (
            "No space left on device" in str(refused.value) or not master.is_running() or "closed" in str(refused.value)
        )
        small.make_room()
        rig.await_that(lambda: answers(master))
        rig = reconnected(rig)
        insert(rig, 200_001, 10)
        rig.await_current()
    assert rig.differences() == {}
    assert rig.state() is SlaveState.NORMAL
    rig.close()


def answers(server: PostgresServer) -> bool:
    revive(server)
    try:
        server.connect().close()
    except psycopg.Error:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("persistence", ["append only file", "snapshots"])
def test_a_full_disk_of_redis_is_told_and_the_apply_goes_on_when_there_is_room(
    persistence: str, disk: Disks, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = disk(16)
    how = {"appendonly": "no", "save": "1 1"} if persistence == "snapshots" else {}
    server = RedisServer(small.folder / "redis", settings=how)
    server.start(die_with_parent=True)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    rig = Rig.empty(database, server.url, tmp_path, interval=0.1)
    rig.begin(TABLE)
    client = redis_store.connect(server.url)

    def refusal() -> str:
        try:
            client.set("a key", "x" * 4096)
        except StoreUnreachable as told:
            return str(told)
        return ""

    try:
        with rig.apply():
            insert(rig, 1, 10)
            rig.await_current()
            small.fill()
            rig.await_that(refusal)
            if server.is_running():
                assert "cannot write its files" in refusal() and "Make room" in refusal()
            small.make_room()
            if not server.is_running():
                server.start(die_with_parent=True)
            rig.await_that(lambda: not refusal())
            insert(rig, 101, 10)
            rig.await_current()
        assert rig.differences() == {}
    finally:
        rig.close()
        client.close()
        server.stop()


def test_a_full_disk_of_airflows_jobs_is_told_and_the_task_is_tried_until_there_is_room(
    disk: Disks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small = disk(8)
    monkeypatch.setenv("SLUICE_HOME", str(small.folder / "home"))
    monkeypatch.setattr(jobs, "MODULE", "tests.unit.fake_job")
    state_paths.jobs_folder()
    state_paths.job_logs_folder()
    owner = Owner("cdc_apply", "run1", "apply", 9, 10)
    late: Any = {"ti": SimpleNamespace(try_number=9, xcom_push=lambda **_: None)}
    small.fill()
    for _ in range(2):
        with pytest.raises(AirflowException) as refused, as_airflow(late):
            jobs.launch(Kind.APPLY, "DEMO_", "dr1", owner, {"sleep": 60})
        assert not isinstance(refused.value, AirflowFailException), "it is tried again"
        assert f"No space left on device: {small.folder}" in caplog.text and "Make room there" in caplog.text
    assert jobs.all_jobs() == []
    small.make_room()
    with as_airflow(late):
        job = jobs.launch(Kind.APPLY, "DEMO_", "dr1", owner, {"sleep": 60})
    assert job.state() is JobState.RUNNING
    job.stop("anna", "x")
    job.await_end(30)


def test_redis_without_memory_is_told_as_such(database: Database, tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis", settings={"maxmemory": "1mb", "maxmemory-policy": "noeviction"})
    server.start(die_with_parent=True)
    try:
        client = redis_store.connect(server.url)
        with pytest.raises(StoreUnreachable, match="Redis is full") as told:
            client.set("a key", "x" * 4_000_000)
            client.set("another", "x")
        assert "no apply has to be restarted" in str(told.value)
    finally:
        server.stop()
