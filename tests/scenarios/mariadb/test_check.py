"""The task `check` of a MariaDB slave: all issues at once, each with its remedy, and nothing changed."""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from devstack.mariadb import MariaDBServer
from sluice.airflow.steps_master import check
from sluice.airflow.task_context import TaskContext
from sluice.model.connection import ConnectionInfo
from sluice.preflight.checks import NotReady
from sluice.vendors.mysql.connection import connect as connect_slave
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow

DURABLE = "innodb_flush_log_at_trx_commit"


@pytest.fixture
def task(
    database: Callable[..., ConnectionInfo],
    mariadb: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[TaskContext, ConnectionInfo]:
    """The task of a pair whose slave's connection has Airflow's type `mysql`, and the slave's database."""
    master, slave = database(role=True), mariadb()
    connect_airflow(monkeypatch, "shop_master", master)
    connect_airflow(monkeypatch, "shop_dr1", slave)
    with connect(master, application="test", autocommit=True) as session:
        session.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    (tmp_path / "SHOP.yaml").write_text(
        "prefix: SHOP_\nmaster: {conn_id: shop_master}\nslaves: {dr1: {conn_id: shop_dr1, vendor: mysql}}\n"
        "tables:\n  public.*: {}\n"
    )
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    dag, params = SimpleNamespace(dag_id="initial_update"), {"prefix": "SHOP_", "slave": "dr1"}
    run = {"params": params, "dag": dag, "ti": SimpleNamespace(task_id="check"), "run_id": "manual__1"}
    return TaskContext.of(run), slave


def pattern(slave: ConnectionInfo) -> str:
    """The database as the grant names it, where `_` is a wildcard."""
    return slave.database.replace("_", "\\_")


def test_lacks_of_server_and_account_are_reported_with_the_statements_and_nothing_is_changed(
    task: tuple[TaskContext, ConnectionInfo], mariadb_server: MariaDBServer
) -> None:
    context, slave = task
    with mariadb_server.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"REVOKE DROP, INDEX, TRIGGER ON `{pattern(slave)}`.* FROM `{slave.user}`@'%'")
        cursor.execute("SET GLOBAL local_infile = 0")
        try:
            with pytest.raises(NotReady) as caught:
                check.body(context)
        finally:
            cursor.execute("SET GLOBAL local_infile = 1")
    said = str(caught.value)
    assert "3 things are lacking, and nothing was changed" in said
    assert "SET GLOBAL local_infile = 1" in said and f"SET GLOBAL {DURABLE} = 1" in said
    assert f"GRANT DROP, INDEX ON `{pattern(slave)}`.* TO '{slave.user}'@'%'" in said
    assert "(connection shop_dr1)" in said and slave.password not in said
    with connect_slave(slave, application="test") as session:
        assert session.run("SHOW TABLES").fetchall() == []


def test_a_trigger_of_the_slave_is_reported_and_stops_nothing(
    task: tuple[TaskContext, ConnectionInfo], mariadb_server: MariaDBServer, caplog: pytest.LogCaptureFixture
) -> None:
    context, slave = task
    with connect_slave(slave, application="test") as session:
        session.run("CREATE TABLE t (id int PRIMARY KEY)")
        session.run("CREATE TRIGGER counts AFTER INSERT ON t FOR EACH ROW SET @seen = NEW.id")
    with mariadb_server.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"SET GLOBAL {DURABLE} = 1")
        try:
            with caplog.at_level(logging.WARNING):
                check.body(context)
            assert "public.t without the trigger counts" in caplog.text
            cursor.execute(f"REVOKE TRIGGER ON `{pattern(slave)}`.* FROM `{slave.user}`@'%'")
            with caplog.at_level(logging.WARNING):
                check.body(context)
            assert f"GRANT TRIGGER ON `{pattern(slave)}`.*" in caplog.text
        finally:
            cursor.execute(f"SET GLOBAL {DURABLE} = 0")


def test_columns_that_would_lose_something_are_listed_with_the_line_to_write(
    task: tuple[TaskContext, ConnectionInfo], tmp_path: Path
) -> None:
    context, _ = task
    with connect(context.connections["shop_master"], application="test", autocommit=True) as session:
        session.execute(
            'CREATE TABLE public."O\'t, [x]" (id int PRIMARY KEY, tags text[], "Sp ""an" int4range, plain int)'
        )
    with pytest.raises(NotReady) as caught:
        check.body(context)
    said = str(caught.value)
    assert 'types that lose nothing: public."O\'t, [x]".tags would be ' in said
    (line,) = re.findall(r"write for the slave dr1: (lossy_columns: \[.*\])", said)
    assert line == 'lossy_columns: ["public.O\'t, [x].tags", "public.O\'t, [x].Sp \\"an"]'
    file = tmp_path / "SHOP.yaml"
    file.write_text(file.read_text().replace("vendor: mysql}", f"vendor: mysql, {line}}}"))
    with pytest.raises(NotReady, match=r"(?s)1 thing is lacking.*innodb_flush_log_at_trx_commit"):
        check.body(TaskContext.of(context.context))
