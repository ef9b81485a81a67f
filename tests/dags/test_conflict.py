"""A change that does not match the slave's row, in a real job of a real run: the task's log, the gate and the page show
it to the person who must act."""

import html
import re
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient

from sluice.airflow import applies
from sluice.coordination import redis_store
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.records import Status
from sluice.model.names import Prefix
from tests.dags.resyncing import dag_of, pair
from tests.dags.test_pages import application
from tests.rig.loaders import Background
from tests.rig.rig import Rig
from tests.waiting import until

__all__ = ["application", "pair"]
REASON = re.compile(r"public\.people.*id.*7", re.DOTALL)
PASSWORD = "of a person, hidden7"


@pytest.mark.long
def test_a_conflict_is_shown_in_the_log_of_the_task_at_the_gate_and_on_the_page(
    application: TestClient, pair: Rig, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    client = redis_store.connect(pair.redis_url)
    status = Status(client, Prefix("DEMO_"), "dr1")

    def strict() -> bool:
        """Whether the apply is in normal mode, in which changes must match the slave's rows."""
        said = status.read()
        return bool(said) and said.get("epoch") == pair.checkpoint.epoch and said.get("safe_mode") == "off"

    def conflict() -> None:
        pair.await_current()
        until(strict, 300)
        pair.slave.execute("UPDATE public.people SET name = 'by another hand' WHERE id = 7")
        pair.master.execute("UPDATE public.people SET name = 'newer', password = %s WHERE id = 7", [PASSWORD])

    background = Background(conflict)
    run = dag_of("cdc_apply").test(
        run_conf={"prefix": "DEMO_", "slave": "dr1"}, logical_date=datetime.now(UTC), use_executor=False
    )
    assert background.end() is None
    assert str(run.state) == "failed"
    assert applies.live("DEMO_", "dr1") is None

    (closure,) = Gate(client, Prefix("DEMO_"), "dr1").closures()
    assert closure.name == ERROR
    captured = capfd.readouterr()
    log = captured.out + captured.err + caplog.text
    token = application.post("/auth/token", json={"username": "otto", "password": "a-secret"}).json()["access_token"]
    answer = application.get("/sluice/", headers={"Authorization": f"Bearer {token}"})
    page = html.unescape(re.sub(r"<[^>]*>", " ", answer.text))
    told = {"gate": closure.with_remedy, "log": log, "page": page}
    for place, text in told.items():
        assert REASON.search(text), f"{place}: {text}"
        assert ("use Restart apply" if place == "page" else "clear the task apply") in text, (place, text)
        assert PASSWORD not in text and "hidden7" not in text, place
    assert pair.slave.execute("SELECT name FROM public.people WHERE id = 7").fetchone() == ("by another hand",)
