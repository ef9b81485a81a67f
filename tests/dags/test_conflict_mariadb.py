"""A conflict on a MariaDB slave, in a real job: the task's log, the gate, the page and a notice show it."""

import html
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from sluice.airflow import applies
from sluice.coordination import redis_store
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.records import Status
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from tests.airflow_connections import connect_airflow
from tests.dags.resyncing import TABLES, dag_of
from tests.dags.test_notify import look
from tests.dags.test_pages import application
from tests.rig.loaders import Background
from tests.scenarios.mariadb.rig import Rig
from tests.waiting import until

__all__ = ["application"]


@pytest.fixture
def pair(
    database: Callable[..., ConnectionInfo],
    mariadb: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    airflow_database: None,
) -> Iterator[Rig]:
    """A slave that is NORMAL; notices go to the file `notices`."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    fill = "; INSERT INTO public.people SELECT i, 'n' || i, 'hidden' || i FROM generate_series(1, 100) i"
    made = Rig.build(database, mariadb, redis_url, tmp_path, TABLES + fill)
    for name, info in (("M", made.pair.master_info), ("S", made.pair.slave_info)):
        connect_airflow(monkeypatch, name, info)
    with (tmp_path / "DEMO.yaml").open("a") as file:
        file.write(f'notify: {{"tests.dags.notifying.ToFile": {{"path": "{tmp_path / "notices"}"}}}}\n')
    update = made.load()
    with made.apply():
        made.await_current()
        made.finish(update)
    yield made
    made.close()


@pytest.mark.long
def test_a_conflict_is_reported_with_table_key_column_and_both_values(
    application: TestClient,
    pair: Rig,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = redis_store.connect(pair.redis_url)
    before = pair.checkpoint.epoch
    status, gate = Status(client, Prefix("DEMO_"), "dr1"), Gate(client, Prefix("DEMO_"), "dr1")

    def strict() -> bool:
        """Whether the job's apply is in normal mode. The apply before it left the same message in the status."""
        said, epoch = status.read(), pair.checkpoint.epoch
        return bool(said) and said.get("epoch") == epoch > before and said.get("safe_mode") == "off"

    def conflict() -> None:
        pair.await_current()
        until(strict, 300)
        pair.slave.run("UPDATE people SET name = 'by another hand' WHERE id = 7")
        pair.master.execute("UPDATE public.people SET name = 'newer' WHERE id = 7")

    background = Background(conflict)
    dag = dag_of("cdc_apply")
    conf = {"prefix": "DEMO_", "slave": "dr1"}
    run = dag.test(run_conf=conf, logical_date=datetime.now(UTC), use_executor=False)
    assert background.end() is None
    assert str(run.state) == "failed"
    assert applies.live("DEMO_", "dr1") is None

    (closure,) = gate.closures()
    assert closure.name == ERROR
    captured = capfd.readouterr()
    token = application.post("/auth/token", json={"username": "anna", "password": "a-secret"}).json()["access_token"]
    answer = application.get("/sluice/", headers={"Authorization": f"Bearer {token}"})
    look()
    page = html.unescape(re.sub(r"<[^>]*>", " ", answer.text))
    log = captured.out + captured.err + caplog.text
    told = {
        "gate": closure.with_remedy,
        "notice": "".join(json.loads(line)["text"] for line in (tmp_path / "notices").read_text().splitlines()),
    }
    found = "public.people, row id = '7': UPDATE expected name = 'n7' on the slave and found name = 'by another hand'"
    assert [place for place, text in told.items() if found not in text] == []
    hidden = "expected name = ••• on the slave and found name = •••"
    assert hidden in page and hidden in log, "who may only read sees no values"
    assert [place for place, text in {**told, "log": log}.items() if "clear the task apply" not in text] == []
    assert "use Restart apply" in page
    assert pair.slave.run("SELECT name FROM people WHERE id = 7").fetchall() == [("by another hand",)]
