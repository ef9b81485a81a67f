"""The purge of ITEMS on real databases deletes only what every slave has."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice import config
from sluice.airflow import notices
from sluice.airflow.notices import Notice
from sluice.airflow.pages.slave_row import master_messages
from sluice.airflow.steps_housekeeping import check_structure, purge_items
from sluice.airflow.task_context import TaskContext
from sluice.capture import resources
from sluice.cli.status import items
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.coordination.live_state import LiveMaster
from sluice.coordination.records import ItemsState
from sluice.model import items_limit
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.airflow_connections import connect_airflow

DEMO = Prefix("DEMO_")


class World:
    """A master with ITEMS, and the configured slaves `a` and `b`."""

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
        """Moves a slave through the states of `path`; `applied`: it has applied everything so far."""
        store = CheckpointStore(self.slaves[name], DEMO, "sluice", name)
        store.ensure()
        for state in path:
            store.move(state)
        if applied:
            now = PostgresQueue(self.master, DEMO, "sluice").take()
            PostgresQueue(self.master, DEMO, "sluice").secure(now)
            store.start_at(now)

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
    return str(task.body(TaskContext(config.load("DEMO_"), None, context)))


TO_NORMAL = (SlaveState.INITIAL, SlaveState.TRANSITION, SlaveState.NORMAL)


def test_only_changes_that_every_slave_has_are_purged(world: World) -> None:
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


def test_slaves_that_need_a_new_update_do_not_hold_the_purge(world: World) -> None:
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


GONE = json.dumps({"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "x", "login": "x"})


@pytest.fixture
def limited(world: World, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes `items_limit` into the replication's file."""
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)

    def limit(text: str) -> None:
        (file,) = (path for folder in config.folders() for path in folder.glob("DEMO.yaml"))
        file.write_text(file.read_text().partition("items_limit")[0] + f"items_limit: {text}\n")

    return limit


def told(redis_url: str) -> list[Notice]:
    with redis_store.connect(redis_url) as client:
        return list(notices.of_items(DEMO, ItemsState(client, DEMO).read()))


def test_past_the_limit_the_furthest_slave_is_dropped_and_the_other_one_loses_nothing(
    world: World, limited: Callable[[str], None], redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited("{rows: 20}")
    world.slave("b", *TO_NORMAL)
    world.write(5)
    world.slave("a", *TO_NORMAL)
    assert run(purge_items) == "0 changes purged"
    address = os.environ["AIRFLOW_CONN_B"]
    monkeypatch.setenv("AIRFLOW_CONN_B", GONE)
    world.write(4)
    assert run(purge_items).startswith("held: slave b cannot be asked")
    assert told(redis_url) == []
    world.write(1)
    run(purge_items)
    (warned,) = told(redis_url)
    assert "used to 50%: 10 changes of 20. Slave b is the furthest behind" in warned.text
    assert world.left() == 10
    world.write(9)
    run(purge_items)
    (again,) = told(redis_url)
    assert again.key == warned.key, "one occasion"
    world.write(1)
    assert run(purge_items).endswith("; slave b dropped, 5 changes purged")
    assert world.left() == 15, "a has no more than the first five"
    (dropped,) = told(redis_url)
    assert dropped.subject == "DEMO_ → b was dropped"
    assert "20 changes of 20" in dropped.text and "Start the DAG initial_update" in dropped.text
    assert run(purge_items) == "0 changes purged", "b holds nothing any more"

    monkeypatch.setenv("AIRFLOW_CONN_B", address)
    assert run(purge_items) == "0 changes purged"
    checkpoint = CheckpointStore(world.slaves["b"], DEMO, "sluice", "b").read()
    assert checkpoint is not None and checkpoint.state is SlaveState.INCONSISTENT
    assert checkpoint.message == dropped.text
    assert run(purge_items) == "0 changes purged"
    (warned,) = told(redis_url)
    assert "15 changes of 20. Slave a is the furthest behind" in warned.text
    world.slave("b", *TO_NORMAL)
    world.write(1)
    assert run(purge_items) == "0 changes purged"
    checkpoint = CheckpointStore(world.slaves["b"], DEMO, "sluice", "b").read()
    assert checkpoint is not None and checkpoint.state is SlaveState.NORMAL, "loaded again, it is counted again"


@pytest.mark.parametrize("limit", ["{bytes: 3000}", "{age: 1}"])
def test_a_slave_that_answers_is_dropped_at_once(
    world: World, limited: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    world.slave("a", *TO_NORMAL)
    world.write(20)
    world.slave("b", *TO_NORMAL)
    assert run(purge_items) == "0 changes purged", "there is no limit"
    limited(limit)
    if "age" in limit:
        old = replace(PostgresQueue(world.master, DEMO, "sluice").take(), time="2020-01-01T00:00:00.000000Z")
        store = CheckpointStore(world.slaves["a"], DEMO, "sluice", "a")
        before = store.read()
        assert before is not None and before.position is not None
        store.start_at(replace(SnapshotPosition.of(before.position), time=old.time))
    assert run(purge_items) == "0 changes purged; slave a dropped, 20 changes purged"
    states = {name: CheckpointStore(world.slaves[name], DEMO, "sluice", name).read() for name in "ab"}
    assert [one.state for one in states.values() if one] == [SlaveState.INCONSISTENT, SlaveState.NORMAL]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("readable", "why"), [(True, "is free on the master's disk"), (False, "of the database")])
def test_without_a_configured_limit_the_room_on_the_master_gives_one(
    world: World, limited: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, readable: bool, why: str
) -> None:
    world.slave("a", *TO_NORMAL)
    world.write(20)
    world.slave("b", *TO_NORMAL)
    assert run(purge_items) == "0 changes purged", "there is room"
    monkeypatch.setattr(items_limit, "SHARE", 1e-12)
    monkeypatch.setattr(items_limit, "LEAST", 1)
    if not readable:
        monkeypatch.setattr("sluice.vendors.postgres.source.queue.PostgresQueue._free", lambda *_: None)
    limited("{unlimited: true}")
    assert run(purge_items) == "0 changes purged", "somebody wants it so"
    limited("{}")
    assert run(purge_items) == "0 changes purged; slave a dropped, 20 changes purged"
    dropped = CheckpointStore(world.slaves["a"], DEMO, "sluice", "a").read()
    assert dropped is not None and dropped.state is SlaveState.INCONSISTENT
    assert why in dropped.message and "Start the DAG initial_update" in dropped.message
    world.write(5)
    assert run(purge_items) == "0 changes purged; slave b dropped, 5 changes purged"
    world.write(5)
    assert run(purge_items) == "5 changes purged", "nobody needs them: ITEMS stays small while the application runs"


def test_a_slave_whose_master_was_restored_is_told_though_its_apply_is_stopped_and_nothing_is_deleted_by_its_position(
    world: World,
) -> None:
    world.write(5)
    world.slave("a", *TO_NORMAL)
    world.master.execute("DELETE FROM sluice.demo_info WHERE starts_with(name, 'run ')")  # as in a snapshot of before
    vars(world.master).pop("run")  # as another session
    world.slave("b", *TO_NORMAL)
    world.write(3)
    world.slave("b", applied=True)
    assert run(purge_items) == "8 changes purged", "b has them, and a needs a load"
    stopped = CheckpointStore(world.slaves["a"], DEMO, "sluice", "a").read()
    assert stopped is not None and stopped.state is SlaveState.INCONSISTENT
    assert "restore of its files" in stopped.message and "Start an initial update" in stopped.message


def test_a_slave_in_a_failover_is_not_dropped_and_is_named_with_the_remedy(
    world: World, limited: Callable[[str], None], redis_url: str
) -> None:
    limited("{rows: 10}")
    world.slave("a", *TO_NORMAL, SlaveState.SWITCHING)
    world.write(5)
    world.slave("b", *TO_NORMAL)
    world.write(4)
    run(purge_items)
    near = told(redis_url)
    world.write(1)
    assert run(purge_items) == "0 changes purged"
    assert world.left() == 10
    warned, full = told(redis_url)
    assert [warned.key] == [one.key for one in near] and full.key != warned.key, "it is told besides"
    assert full.subject == "DEMO_ → a fills the master's disk"
    with redis_store.connect(redis_url) as client:
        found = ItemsState(client, DEMO).read()
    shown = master_messages(config.load("DEMO_"), LiveMaster(found), datetime.now(UTC))
    for text in (full.text, "\n".join(items(found)), "\n".join(message.text for message in shown)):
        assert "items_limit is reached, and it cannot be dropped now: Slave a is SWITCHING" in text
        assert "DAG failover, action abort" in text


def test_a_slave_of_which_nothing_is_known_is_dropped_first(
    world: World, limited: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limited("{rows: 10}")
    world.slave("a", *TO_NORMAL)
    world.write(10)
    monkeypatch.setenv("AIRFLOW_CONN_B", GONE)
    assert run(purge_items).endswith("; slave b dropped, 0 changes purged")
    assert world.left() == 10, "a has none of them"
    assert run(purge_items) == "0 changes purged; slave a dropped, 10 changes purged"


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
