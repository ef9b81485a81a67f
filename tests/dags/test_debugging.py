"""A person has the capture of a table debugged for an hour."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.airflow.steps_housekeeping import check_structure
from sluice.airflow.steps_master import install_resources, note_debugged, reconcile
from sluice.airflow.task_context import TaskContext
from sluice.coordination.records import Debugged
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.dags.walk import Walk
from tests.errors import raises_code

T = TableName("public", "t")


def test_a_table_is_debugged_until_its_hour_is_over(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = database()
    connect_airflow(monkeypatch, "m", info)
    (tmp_path / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: m}\nslaves: {one: {conn_id: one}}\ntables:\n  public.*: {}\n"
        "  public.always: {debug: true}\n"
    )
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    with connect(info, application="test", autocommit=True) as master:
        master.execute("CREATE TABLE public.t (id int PRIMARY KEY); CREATE TABLE public.always (id int PRIMARY KEY)")

        def debugged() -> list[str]:
            tables = "SELECT tablename FROM sluice.demo_tables WHERE debug = 1 AND status = 'OK' ORDER BY 1"
            return [name for (name,) in master.execute(tables).fetchall()]

        def lines() -> int:
            master.execute("DELETE FROM sluice.demo_debug_table; DELETE FROM public.t; INSERT INTO public.t VALUES (1)")
            found = master.execute("SELECT count(*) FROM sluice.demo_debug_table").fetchone()
            assert found is not None
            return int(found[0])

        walk = Walk(slave=None, debug=[])
        walk.do(install_resources, "install_resources")
        assert walk.do(note_debugged, "note_debugged") == "none"
        walk.do(reconcile, "reconcile")
        assert debugged() == ["always"] and lines() == 0
        with raises_code("nothing-to-debug", match=r"no replicated table is public\.x"):
            Walk(slave=None, debug=["public.x*"]).do(note_debugged, "note_debugged")

        asking = Walk(slave=None, debug=["public.t"])
        assert asking.do(note_debugged, "note_debugged") == "debugged for an hour: public.t"
        assert "debug goes on" in asking.do(reconcile, "reconcile")
        assert debugged() == ["always", "t"] and lines() > 0
        task = TaskContext.of_prefix("DEMO_", walk.context)
        check_structure.body(task)
        assert debugged() == ["always", "t"], "its hour is not over"
        Debugged(task.redis, task.prefix).add([T], seconds=-1.0)
        check_structure.body(task)
        assert debugged() == ["always"] and lines() == 0
