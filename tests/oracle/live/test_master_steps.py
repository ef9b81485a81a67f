"""The first steps with an Oracle master: what is lacking is named before anything is changed."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.airflow.steps_housekeeping import check_structure, compare_definitions, keep_definitions, purge_items
from sluice.airflow.steps_master import check, install_resources, reconcile, show_plan
from sluice.airflow.task_context import TaskContext
from sluice.database.capture import ResourcesMissing, TablesUnfit
from sluice.database.registry import vendor_of
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.preflight.checks import NotReady
from sluice.vendors.oracle.session import OracleSession
from tests.airflow_connections import connect_airflow

Configure = Callable[[str], TaskContext]


@pytest.fixture
def master(
    database: Callable[..., ConnectionInfo],
    oracle_database: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OracleSession]:
    """A session on the master. Master and slave are connections of Airflow."""
    infos = {"shop_master": oracle_database(), "shop_dr1": database(role=True)}
    for name, info in infos.items():
        connect_airflow(monkeypatch, name, info)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    with closing(vendor_of("oracle").sessions.connect(infos["shop_master"], application="test")) as session:
        assert isinstance(session, OracleSession)
        yield session


@pytest.fixture
def configured(master: OracleSession, tmp_path: Path) -> Configure:
    """`configured(lines)`: a task of a replication with these `tables`; `HERE` is the account's schema."""

    def write(lines: str) -> TaskContext:
        (tmp_path / "DEMO.yaml").write_text(
            "prefix: DEMO_\nmaster: {conn_id: shop_master, vendor: oracle}\n"
            "slaves: {dr1: {conn_id: shop_dr1, vendor: postgres}}\n"
            f"tables:\n  {lines}\n".replace("HERE", master.schema)
        )
        dag = SimpleNamespace(dag_id="initial_update")
        params = {"prefix": "DEMO_", "slave": "dr1"}
        ti = SimpleNamespace(task_id="check")
        return TaskContext.of({"params": params, "dag": dag, "ti": ti, "run_id": "manual__1"})

    return write


def refused(task: TaskContext) -> str:
    with pytest.raises(NotReady) as told:
        check.body(task)
    (issue,) = told.value.issues
    return str(issue)


def test_lacks_are_reported_with_the_remedy(master: OracleSession, configured: Configure) -> None:
    master.run("CREATE TABLE ORDERS (ID NUMBER(10) PRIMARY KEY)")
    master.run("CREATE TABLE LETTERS (ID NUMBER(10), L LONG)")
    all_of_it = configured("HERE.*: {}")
    said = refused(all_of_it)
    assert 'LETTERS" that can be captured: it has column L of type LONG' in said and "Leave it out of" in said
    assert "there is" in refused(configured("HERE.orders: {}")) and "has no table" in refused(configured("HERE.X: {}"))
    said = refused(configured("HERE.ORDERS: {}\ninitial: {read: locked}"))
    assert "Write `read: committed` or `read: snapshot`" in said
    fails(ResourcesMissing, "Run the DAG install_resources", show_plan.body, configured("HERE.ORDERS: {}"))
    assert install_resources.body(all_of_it) == "version 1, 7 files run"
    assert install_resources.body(all_of_it) == "version 1, 0 files run"
    fails(TablesUnfit, "column L of type LONG", reconcile.body, configured("HERE.*: {}"))
    fails(Terminal, "has no table", reconcile.body, configured("HERE.X: {}"))


def test_tables_join_and_leave_and_housekeeping_handles_them(master: OracleSession, configured: Configure) -> None:
    master.run("CREATE TABLE ORDERS (ID NUMBER(10) PRIMARY KEY)")
    master.run('CREATE TABLE "Mixed case" ("a b" NUMBER(10) PRIMARY KEY, "select" VARCHAR2(10))')
    task = configured("HERE.ORDERS: {trigger: TEST_TR01, actions: IU}\n  HERE.Mixed case: {}")
    check.body(task)
    install_resources.body(task)
    assert reconcile.body(task).count("add ") == 2
    assert "nothing to do" in show_plan.body(task)
    found = master.run("SELECT t.TRIGGER_NAME FROM ALL_TRIGGERS t WHERE t.TABLE_NAME = 'ORDERS'").fetchall()
    assert found == [("TEST_TR01",)]
    assert "0 differences" in compare_definitions.body(task)  # type: ignore[operator]
    assert keep_definitions.body(task) == "kept on no slave"
    assert "purged" in purge_items.body(task)  # type: ignore[operator]
    fewer = configured("HERE.Mixed case: {}")
    assert reconcile.body(fewer).count("remove ") == 1
    assert "nothing to do" in show_plan.body(fewer)
    master.run('DROP TABLE "Mixed case"')
    assert str(check_structure.body(fewer)).startswith("1 change of structure: ")


def fails(kind: type[Terminal], said: str, task: Callable[[TaskContext], object], context: TaskContext) -> None:
    with pytest.raises(kind, match=said):
        task(context)
