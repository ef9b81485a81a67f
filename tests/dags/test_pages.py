"""The pages inside Airflow: the real application with our plugin, asked by strangers and by those who may."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sluice.airflow import state_paths
from sluice.coordination import redis_store
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.lacks import Lacks
from sluice.coordination.lease import Lease
from sluice.coordination.status import Status
from sluice.coordination.verification_log import VerificationLog
from sluice.model.names import Prefix

CONFIG = "prefix: DEMO_\nmaster: {conn_id: m}\nslaves: {dr1: {conn_id: s}}\ntables: {public.*: {}}\n"
RUN = "manual__2026-11-21T00:41:08+00:00"
POSITION = {"snapshot": "811:815:812", "low": 1, "high": 2, "next": None, "floors": {}, "gap_floor": 0, "time": ""}
SEEN = {
    "outcome": "identical",
    "checked": "2026-11-21T00:41:12+00:00",
    "run": state_paths.report_name(RUN),
    "time": "2026-11-21T00:41:10.1Z",
    "position": json.dumps(POSITION),
    "rows": 1234,
}


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, airflow_database: None) -> Iterator[TestClient]:
    from airflow.api_fastapi.app import create_app, purge_cached_app

    users = tmp_path_factory.mktemp("users") / "passwords"
    users.write_text(json.dumps({"anna": "a-secret"}))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "anna:viewer",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(users),
            "AIRFLOW__API_AUTH__JWT_SECRET": "of-these-tests-and-long-enough-for-a-digest-of-512-bits-0123456789",
        }.items():
            patch.setenv(name, value)
        purge_cached_app()
        with TestClient(create_app(apps="core")) as made:
            yield made
        purge_cached_app()


@pytest.fixture
def client(application: TestClient, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The application with a configuration, a home and a Redis of this test alone."""
    (tmp_path / "DEMO.yaml").write_text(CONFIG)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    application.cookies.clear()
    return application


@pytest.fixture
def anna(client: TestClient) -> dict[str, str]:
    """The head of a request of hers."""
    answer = client.post("/auth/token", json={"username": "anna", "password": "a-secret"})
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


@pytest.fixture
def report() -> str:
    name = state_paths.report_name(RUN)
    folder = state_paths.report_folder(RUN)
    told: list[dict[str, Any]] = [
        {"prefix": "DEMO_", "slave": "dr1", "outcome": "different", "started": "2026-11-21T00:41:08"}
    ]
    (folder / "report.json").write_text(json.dumps(told))
    (folder / "report.html").write_text("<p>the report</p>")
    (folder / "part-1.json").write_text("{}")
    return name


def test_strangers_see_nothing(client: TestClient, report: str) -> None:
    ours = ("", f"reports/{report}/", f"reports/{report}/report.json")
    for path in (*ours, "docs", "openapi.json", "nothing"):
        answer = client.get(f"/sluice/{path}", follow_redirects=False)
        assert answer.status_code == (401 if path in ours else 404), path
        assert "the report" not in answer.text and "DEMO_" not in answer.text


def test_the_overview_says_through_when_each_table_is_verified(
    client: TestClient, anna: dict[str, str], report: str
) -> None:
    store = redis_store.connect()
    Status(store, Prefix("DEMO_"), "dr1").write({"state": "NORMAL", "current_as_of": "2026-11-21T00:45:10.1Z"})
    verified = VerificationLog(store, Prefix("DEMO_"), "dr1")
    verified.expect(["public.t", "public.<new>"], "2026-11-20T00:00:00+00:00")
    verified.write("public.t", SEEN)
    verified.write("public.t", {"outcome": "could not compare", "reason": "no <apply>", "run": SEEN["run"]})
    answer = client.get("/sluice/", headers=anna)
    assert answer.status_code == 200
    text = re.sub(r"<[^>]*>", " ", answer.text)
    assert "NORMAL, current as of 2026-11-21 00:45:10" in text
    row = re.search(r"public\.t .*", text)
    assert row and re.search(r"could not compare.*no &lt;apply&gt;.*2026-11-21 00:41:10 .*1,234", row[0])
    assert "811:815:812" not in text, "a position means nothing to people"
    assert re.search(r"public\.&lt;new&gt; .*never", text)
    assert f"<a href='reports/{report}/'><span class=different>" in answer.text
    assert "script" not in answer.headers["Content-Security-Policy"]


def test_the_overview_says_why_safe_mode_is_on_and_when_it_ends(client: TestClient, anna: dict[str, str]) -> None:
    store = redis_store.connect()
    mode = "on after the start, for 12 s more and until everything up to <2026> is applied"
    Status(store, Prefix("DEMO_"), "dr1").write({"state": "NORMAL", "safe_mode": mode})
    assert "; no apply runs<" in client.get("/sluice/", headers=anna).text
    lease = Lease(store, Prefix("DEMO_"), "dr1", 10.0)
    lease.acquire()
    try:
        text = client.get("/sluice/", headers=anna).text
    finally:
        lease.release()
    assert f"; safe mode {mode}<".replace("<2026>", "&lt;2026&gt;") in text


def test_a_replication_with_mistakes_is_named_with_them(
    client: TestClient, anna: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "BAD.yaml").write_text("prefix: BAD_\nmaster: {conn_id: m}\nslavs: {}\n")
    (tmp_path / "nameless.yaml").write_text("<&>: {\n")
    text = client.get("/sluice/", headers=anna).text
    assert "<h2>BAD_</h2>" in text and "BAD.yaml:3: slavs: is not known; did you mean slaves?" in text
    assert "A file of which no prefix is known" in text and "nameless.yaml" in text
    assert "<h2>DEMO_ → dr1</h2>" in text, "the others stay"


def test_an_apply_that_stopped_says_why_and_what_to_press(client: TestClient, anna: dict[str, str]) -> None:
    store = redis_store.connect()
    Gate(store, Prefix("DEMO_"), "dr1").close(ERROR, "apply", "public.t: a row <is> not there.")
    text = client.get("/sluice/", headers=anna).text
    assert (
        "The apply has stopped: public.t: a row &lt;is&gt; not there. Mend that, then clear the task apply of" in text
    )


def test_a_report_is_served_and_nothing_else_of_the_folder(
    client: TestClient, anna: dict[str, str], report: str
) -> None:
    page = client.get(f"/sluice/reports/{report}/", headers=anna)
    assert page.status_code == 200 and "the report" in page.text
    assert client.get(f"/sluice/reports/{report}/report.json", headers=anna).json()[0]["prefix"] == "DEMO_"
    (state_paths.home() / "report.html").write_text("outside")
    for path in (f"{report}/part-1.json", "%2e%2e/", "..%2f/", "nothing/", ".hidden/", "../"):
        answer = client.get(f"/sluice/reports/{path}", headers=anna)
        assert "outside" not in answer.text
        assert answer.status_code == 404 or path == "../", path


def test_the_link_of_a_run_leads_to_its_report(client: TestClient, anna: dict[str, str], report: str) -> None:
    from sluice.airflow.report_link import ReportLink

    class Key:
        run_id = RUN

    link = ReportLink().get_link(None, ti_key=Key())
    assert "the report" in client.get(link, headers=anna).text


def test_without_redis_the_reports_are_there_all_the_same(
    client: TestClient, anna: dict[str, str], report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_REDIS_URL", "redis://127.0.0.1:1/0")
    answer = client.get("/sluice/", headers=anna)
    assert answer.status_code == 200 and "Redis does not answer" in answer.text and report in answer.text


def test_what_the_slave_and_the_master_lack_is_named_with_what_mends_it(
    client: TestClient, anna: dict[str, str]
) -> None:
    store, prefix = redis_store.connect(), Prefix("DEMO_")
    Status(store, prefix, "dr1").write({"state": "NORMAL", "differing": ["public.<p> differs: load it."]})
    Lacks(store, prefix, "dr1").write([("index i on public.t: the master has it", 'CREATE INDEX "<i>" ON t (a)')], "")
    Lacks(store, prefix).write([("public.new: it is not captured", "")], "")
    text = client.get("/sluice/", headers=anna).text
    assert "public.&lt;p&gt; differs: load it." in text
    assert "Run there: CREATE INDEX &quot;&lt;i&gt;&quot; ON t (a);" in text
    assert "public.new: it is not captured. Start the DAG reconcile_tables with prefix DEMO_." in text
