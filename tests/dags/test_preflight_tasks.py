"""The task check verifies what accounts may do before anything is changed; running tasks only warn."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devstack.postgres import PostgresServer
from sluice.airflow import preflight_check
from sluice.airflow.apply_operator import ApplyOperator
from sluice.airflow.steps_master import check, check_lightly, install_resources
from sluice.airflow.task_context import TaskContext
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.coordination.lease import Lease
from sluice.errors import Transient
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.preflight.checks import NotReady
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow

Places = dict[str, ConnectionInfo]


@pytest.fixture
def places(
    postgres: PostgresServer,
    database: Callable[..., ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Places:
    """A master whose account owns it, and empty slaves."""
    infos = {"shop_master": database(role=True), "shop_dr1": database(role=True), "shop_dr2": database(role=True)}
    for name, info in infos.items():
        connect_airflow(monkeypatch, name, info)
        with postgres.connect(info.database) as admin:
            admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
            admin.execute(f"GRANT ALL ON SCHEMA public TO {info.user}".encode())
    with connect(infos["shop_master"], application="test", autocommit=True) as master:
        master.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    (tmp_path / "SHOP.yaml").write_text(
        "prefix: SHOP_\nmaster: {conn_id: shop_master}\nslaves: {dr1: {conn_id: shop_dr1}, dr2: {conn_id: shop_dr2}}\n"
        "tables:\n  public.*: {}\n"
    )
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    return infos


def work(**params: Any) -> TaskContext:
    given = {"prefix": "SHOP_", "slave": "dr1", **params}
    dag = SimpleNamespace(dag_id="initial_update")
    return TaskContext.of({"params": given, "dag": dag, "ti": SimpleNamespace(task_id="check"), "run_id": "manual__1"})


def test_lacks_of_both_sides_are_reported_before_anything_is_created(places: Places, postgres: PostgresServer) -> None:
    slave, master = places["shop_dr1"], places["shop_master"]
    with postgres.connect(slave.database) as admin:
        admin.execute("ALTER SCHEMA public OWNER TO postgres")
        admin.execute(f"REVOKE ALL ON SCHEMA public FROM {slave.user}; GRANT USAGE ON SCHEMA public TO PUBLIC".encode())
    with postgres.connect(master.database) as admin:
        admin.execute("CREATE TABLE public.other (id int)")
    with pytest.raises(NotReady) as caught:
        check.body(work())
    said = str(caught.value)
    assert "SHOP_ → dr1: 2 things are lacking, and nothing was changed" in said
    assert f"GRANT SELECT, TRIGGER ON TABLE public.other TO {master.user};" in said
    assert f"GRANT CREATE ON SCHEMA public TO {slave.user};" in said
    assert f"{master.server.split('/')[0]}" in said and "(connection shop_master)" in said
    assert "(connection shop_dr1)" in said
    with connect(master, application="test", autocommit=True) as connection:
        found = connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'shop%'").fetchone()
        assert found == (0,)


def test_an_account_that_is_refused_is_one_lack_among_the_others(
    places: Places, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave, master = places["shop_dr1"], places["shop_master"]
    with postgres.connect(master.database) as admin:
        admin.execute(f"REVOKE CONNECT ON DATABASE {master.database} FROM PUBLIC, {master.user}".encode())
        admin.execute(f"ALTER DATABASE {master.database} OWNER TO postgres".encode())
    connect_airflow(monkeypatch, "shop_dr1", replace(slave, password="wrong"))
    for task in (check, check_lightly):
        with pytest.raises(NotReady) as caught:
            task.body(work())
        refused, wrong = caught.value.issues
        assert refused.statement == f'GRANT CONNECT ON DATABASE "{master.database}" TO "{master.user}"'
        assert (refused.side, wrong.side) == ("master", "slave dr1")
        assert "password authentication failed" in wrong.why and "shop_dr1" in str(wrong)
        assert slave.password not in str(caught.value)


def test_a_lack_of_one_of_several_slaves_is_a_warning(
    places: Places, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    slave = places["shop_dr2"]
    with postgres.connect(slave.database) as admin:
        admin.execute("ALTER SCHEMA public OWNER TO postgres")
        admin.execute(f"REVOKE ALL ON SCHEMA public FROM {slave.user}".encode())
    both = work(slave="dr1,dr2", transfer="files")
    preflight_check.require_ready(both, both.slave_names)
    assert f"CREATE ON SCHEMA public TO {slave.user};" in caplog.text
    with pytest.raises(NotReady):
        preflight_check.require_ready(work(slave="dr2"), ("dr2",))


def test_a_slave_is_not_loaded_while_an_apply_of_its_former_name_writes_to_it(places: Places, redis_url: str) -> None:
    """The prefix of the file was changed while the apply ran, or the slave's name."""
    with connect(places["shop_dr1"], application="test", autocommit=True) as slave:
        for prefix, name in (("OLD_", "dr1"), ("SHOP_", "former")):
            CheckpointStore(slave, Prefix(prefix), work().slave.schema, name).ensure()
            check.body(work())
            with redis_store.connect(redis_url) as client:
                held = Lease(client, Prefix(prefix), name, 60.0)
                held.acquire()
                with pytest.raises(
                    NotReady, match=f"the end of the apply of {prefix} → {name}.*mark the run"
                ) as caught:
                    check.body(work())
                assert [issue.side for issue in caught.value.issues] == ["slave dr1"]
                check.body(work(slave="dr2"))
                held.release()
            check.body(work())


def test_a_slave_is_not_loaded_into_tables_of_another_replication(places: Places, tmp_path: Path) -> None:
    """A replication that was made on the monitor from connections of another one emptied the tables of its slave."""
    text = (tmp_path / "SHOP.yaml").read_text()
    placed = "tables:\n  public.*: {target: {schema: copy}}\n"
    with connect(places["shop_dr1"], application="test", autocommit=True) as slave:
        store = CheckpointStore(slave, work().prefix, work().slave.schema, "dr1")
        store.ensure()
        for other, state, refused in (
            (text, "UNCONFIGURED", False),
            (text, "NORMAL", True),
            (text.partition("tables:")[0] + placed, "NORMAL", False),
        ):
            (tmp_path / "OTHER.yaml").write_text(other.replace("SHOP_", "OTHER_").replace("dr1:", "new:"))
            slave.execute("UPDATE sluice.shop_checkpoint SET state = %s", (state,))
            task = work(prefix="OTHER_", slave="new")
            issues = preflight_check._issues(task, task.slave_names, light=False)
            found = [str(issue) for issue in issues if "SHOP_ → dr1" in str(issue)]
            assert bool(found) is refused, (state, issues)
            assert not refused or "NORMAL in this database and has public.t" in found[0]


def test_lacks_of_a_running_replication_are_warnings(
    places: Places, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    check.body(work())
    install_resources.body(work())
    with postgres.connect(places["shop_master"].database) as admin:
        admin.execute("CREATE TABLE public.other (id int)")
    with caplog.at_level(logging.WARNING):
        check_lightly.body(work())
    assert "GRANT SELECT, TRIGGER ON TABLE public.other" in caplog.text


def test_an_outage_is_no_lack(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the master; a slave's is waited for later (`test_slave_away.py`)."""
    connect_airflow(monkeypatch, "shop_master", replace(places["shop_master"], port=1))
    with pytest.raises(Transient, match="not reachable from here"):
        check.body(work())


def test_an_apply_is_launched_unless_its_account_is_refused(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, given = ApplyOperator(task_id="apply", prefix="SHOP_", slave="dr1"), work()
    apply.before_launch(given.replication, given.context, True)
    connect_airflow(monkeypatch, "shop_dr1", replace(places["shop_dr1"], port=1))
    apply.before_launch(given.replication, given.context, True)
    connect_airflow(monkeypatch, "shop_dr1", replace(places["shop_dr1"], password="wrong"))
    with pytest.raises(NotReady, match="connection shop_dr1"):
        apply.before_launch(given.replication, given.context, True)
    apply.before_launch(given.replication, given.context, False)  # what ran before waits for what it needs


@pytest.mark.one_in(2)
@pytest.mark.parametrize("slave", ["dr1", ""], ids=["a slave's run", "the master's run"])
def test_a_transformation_that_does_not_fit_is_reported_before_anything_is_changed(
    places: Places, tmp_path: Path, caplog: pytest.LogCaptureFixture, slave: str
) -> None:
    with connect(places["shop_master"], application="test", autocommit=True) as master:
        master.execute("CREATE TABLE public.people (id int PRIMARY KEY, born date)")
    check.body(run := work(slave=slave))
    install_resources.body(run)
    text = (tmp_path / "SHOP.yaml").read_text()
    columns = "{born: {expression: born + 'x'}, age: {constant: 1}}"
    (tmp_path / "SHOP.yaml").write_text(f"{text}  public.people: {{where: id, columns: {columns}}}\n")
    with pytest.raises(NotReady) as caught:
        check.body(work(slave=slave))
    told = str(caught.value)
    assert "public.people: where `id` gives INTEGER; write a condition" in told
    assert "public.people.born: expression `born + 'x'` cannot be computed" in told and "born is DATE" in told
    assert "SHOP.yaml:6: tables.public.people" in told
    if slave:
        with caplog.at_level(logging.WARNING):
            check_lightly.body(work(slave=slave))
        assert "where `id` gives INTEGER" in caplog.text
