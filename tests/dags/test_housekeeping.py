"""Purging ITEMS on real databases: only what every slave has goes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice import config
from sluice.domain.connection import ConnectionInfo
from sluice.domain.names import Prefix
from sluice.domain.state import SlaveState
from sluice.install import resources
from sluice.orchestration.steps_housekeeping import check_structure, purge_items
from sluice.orchestration.work import Work
from sluice.vendors.postgres import position
from sluice.vendors.postgres.checkpoint import CheckpointStore
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow

DEMO = Prefix("DEMO_")


class World:
    """A master with ITEMS and the slaves `a` and `b`, configured."""

    def __init__(self, databases: dict[str, ConnectionInfo]):
        self.master = connect(databases["master"], application="test", autocommit=True)
        self.slaves = {name: connect(databases[name], application="test", autocommit=True) for name in "ab"}
        resources.install(self.master, DEMO, "sluice")

    def write(self, count: int) -> None:
        self.master.execute(
            "INSERT INTO sluice.demo_items (tablename, db_action, db_schema, content)"
            f" SELECT 't', 'INSERT', 'public', g::text FROM pg_catalog.generate_series(1, {count}) g"
        )

    def slave(self, name: str, *path: SlaveState, applied: bool = True) -> None:
        """Moves a slave along `path`; `applied`: it has everything written so far."""
        store = CheckpointStore(self.slaves[name], DEMO, "sluice", name)
        store.ensure()
        for state in path:
            store.move(state)
        if applied:
            store.start_at(position.take(self.master, DEMO, "sluice"))

    def left(self) -> int:
        row = self.master.execute("SELECT pg_catalog.count(*) FROM sluice.demo_items").fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        for connection in (self.master, *self.slaves.values()):
            connection.close()


@pytest.fixture
def world(database: Callable[..., ConnectionInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    databases = {name: database() for name in ("master", "a", "b")}
    for name, info in databases.items():
        connect_airflow(monkeypatch, name, info)
    (tmp_path / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: master}\nslaves:\n  a: {conn_id: a}\n  b: {conn_id: b}\n"
        "tables:\n  public.*: {}\n"
    )
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    made = World(databases)
    yield made
    made.close()


def run(task: Any) -> str:
    context: dict[str, Any] = {"dag": SimpleNamespace(dag_id="housekeeping")}
    return str(task.body(Work(config.load("DEMO_"), None, context)))


TO_NORMAL = (SlaveState.INITIAL, SlaveState.TRANSITION, SlaveState.NORMAL)


def test_what_every_slave_has_goes_and_the_rest_stays(world: World) -> None:
    world.write(10)
    world.slave("a", *TO_NORMAL)
    world.write(5)
    world.slave("b", *TO_NORMAL)
    world.write(3)
    assert run(purge_items) == "10 changes purged"
    assert world.left() == 8


def test_a_change_that_commits_late_stays_although_later_keys_are_applied(world: World) -> None:
    other = world.master.info
    with connect(
        ConnectionInfo("postgres", other.host, other.port, other.dbname, other.user, other.password), application="late"
    ) as late:
        late.execute("INSERT INTO sluice.demo_items (tablename, db_action, db_schema) VALUES ('t', 'INSERT', 'public')")
        world.write(10)
        world.slave("a", *TO_NORMAL)
        world.slave("b", *TO_NORMAL)
        late.commit()
    assert run(purge_items) == "10 changes purged"
    assert world.left() == 1


def test_slaves_that_need_a_new_update_hold_nothing(world: World) -> None:
    world.write(10)
    world.slave("a", *TO_NORMAL, SlaveState.INCONSISTENT, applied=False)
    assert run(purge_items) == "10 changes purged", "b was never configured"


@pytest.mark.parametrize("reason", ["preparing", "no position"])
def test_a_slave_whose_start_is_not_written_down_holds_the_purge(world: World, reason: str) -> None:
    world.write(10)
    world.slave("a", *TO_NORMAL)
    path = TO_NORMAL[:1] if reason == "preparing" else TO_NORMAL
    world.slave("b", *path, applied=False)
    assert run(purge_items).startswith("held: ")
    assert world.left() == 10


def test_a_slave_that_cannot_be_reached_holds_the_purge_and_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(10)
    world.slave("a", *TO_NORMAL)
    gone = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "x", "login": "x"}
    monkeypatch.setenv("AIRFLOW_CONN_B", json.dumps(gone))
    said = run(purge_items)
    assert said.startswith("held: slave b cannot be asked what it has: x@127.0.0.1:1/x")
    assert world.left() == 10


def test_a_slave_without_a_connection_holds_the_purge(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(10)
    monkeypatch.delenv("AIRFLOW_CONN_B")
    assert run(purge_items).startswith("held: slave b cannot be asked what it has: Airflow has no connection 'b'")
    assert world.left() == 10


def test_a_master_without_resources_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.master.execute("DROP SCHEMA sluice CASCADE")
    assert run(purge_items) == run(check_structure) == "not installed"


def test_a_slave_whose_checkpoint_is_in_the_former_default_schema_holds_the_purge(world: World) -> None:
    for name in ("a", "b"):
        world.slave(name, SlaveState.INITIAL, SlaveState.TRANSITION)
        world.slaves[name].execute("ALTER SCHEMA sluice RENAME TO former")
    world.write(10)
    assert "write schema: former for the slave" in run(purge_items)
    assert world.left() == 10


def test_structures_are_compared(world: World) -> None:
    assert run(check_structure) == "0 changes of structure"
