"""An initial update begins while its slave does not answer: the master is prepared, and the first write waits."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.airflow.steps_master import check, install_resources, reconcile
from sluice.airflow.steps_update import begin, create_tables, plan, settle
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.records import Status
from sluice.errors import Transient
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.preflight.checks import NotReady
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.dags.walk import RUN, Walk
from tests.errors import raises_code

NOBODY = ConnectionInfo("postgres", "127.0.0.1", 1, "x", "x", "x")


@pytest.fixture
def slave(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ConnectionInfo:
    master, slave = database(), database()
    connect_airflow(monkeypatch, "m", master)
    connect_airflow(monkeypatch, "one", NOBODY)
    (tmp_path / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: m, allow_superuser: true}\nslaves: {one: {conn_id: one}}\n"
        "tables:\n  public.*: {}\n"
    )
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    with connect(master, application="test", autocommit=True) as connection:
        connection.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    return slave


def test_the_master_is_prepared_and_the_slave_is_awaited_checked_and_loaded(
    slave: ConnectionInfo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    walk = Walk(slave="one", transfer="online")

    def message() -> str:
        return str(Status(walk.work.redis, Prefix("DEMO_"), "one").read().get("message", ""))

    for task, name in ((check, "check"), (install_resources, "install_resources"), (reconcile, "reconcile")):
        walk.do(task, name)
    with walk.work.master() as master:
        captured = "SELECT status FROM sluice.demo_tables WHERE tablename = 't'"
        assert master.execute(captured).fetchall() == [("OK",)], "changes are captured from here on"
    for _ in range(2):
        with pytest.raises(Transient):
            walk.do(begin, "begin")
        assert message().startswith(f"Initial update {RUN} waits: slave one does not answer: ")
    # Canceled, it leaves nothing behind, and does not wait for the slave to say so.
    walk.ti.states = {"check": "success", "begin": "failed"}
    with raises_code("update-not-begun", match="The slave was not touched"):
        settle.body(walk.context)
    assert message() == ""

    # It is back, and is checked now: its account must be no superuser.
    connect_airflow(monkeypatch, "one", slave)
    with pytest.raises(NotReady, match="allow_superuser"):
        walk.do(begin, "begin")
    with connect(slave, application="test", autocommit=True) as connection:
        assert not CheckpointStore(connection, Prefix("DEMO_"), "sluice", "one").exists()
    file = tmp_path / "DEMO.yaml"
    file.write_text(file.read_text().replace("{conn_id: one}", "{conn_id: one, allow_superuser: true}"))
    assert walk.do(begin, "begin") == "begun"
    walk.do(create_tables, "create_tables")
    assert walk.do(plan, "plan") == "1 table planned"
    with connect(slave, application="test", autocommit=True) as connection:
        found = CheckpointStore(connection, Prefix("DEMO_"), "sluice", "one").read()
    assert found is not None and found.state is SlaveState.TRANSITION


def test_a_part_is_not_begun_before_the_slave_says_that_it_can_be_loaded(slave: ConnectionInfo) -> None:
    with pytest.raises(Transient):
        Walk(slave="one", transfer="online", tables=["public.t"]).do(check, "check")
