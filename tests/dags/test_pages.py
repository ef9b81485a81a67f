"""The monitor inside Airflow: the real application with our plugin, requested by strangers and users of each role."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sluice import config, paths
from sluice.airflow import kept_rehearsals, state_paths
from sluice.airflow.pages import gathering, rehearsal_pages
from sluice.coordination import redis_store
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.lease import Lease
from sluice.coordination.records import Issues, Status
from sluice.coordination.verification_log import VerificationLog
from sluice.database.conflicts import Drift
from sluice.model.names import Prefix, TableName
from sluice.operate.actions import ACTIONS
from sluice.verify.findings import Outcome, TableFinding
from sluice.verify.page import page
from sluice.verify.rehearsal import Finding, Report, Side, Step
from sluice.verify.rehearsal import Outcome as Ended
from sluice.verify.report import as_dict
from sluice.verify.resync import TableResult

CONFIG = "prefix: DEMO_\nmaster: {conn_id: m}\nslaves: {dr1: {conn_id: s}}\ntables: {public.*: {}}\nbroadcast: true\n"
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
ENDED = Ended("<b>x 4711-secret", "23505", error="ERROR:  4711-secret")
REHEARSED = Report(
    "m.sql <b>", 18, [Step("m.sql <b>", 1, "SELECT '<b>x'", Side(0.0, ENDED), Side(0.0, ENDED))],
    findings=[Finding("fails", "m.sql:1", "SELECT fails: “4711-secret”"), Finding("reload", "dr1", "<b>x")],
    prefix="DEMO_", began="2026-12-01T12:00:00+02:00",
)  # fmt: skip
ROLES = {"anna": "viewer", "otto": "user", "olga": "op"}
"""Who reads, who operates, who administers."""
Head = dict[str, str]


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, airflow_database: None) -> Iterator[TestClient]:
    from airflow import plugins_manager
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from sluice_plugin import middlewares, pages

    users = tmp_path_factory.mktemp("users") / "passwords"
    users.write_text(json.dumps(dict.fromkeys(ROLES, "a-secret")))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(users),
            "AIRFLOW__API_AUTH__JWT_SECRET": "of-these-tests-and-long-enough-for-a-digest-of-512-bits-0123456789",
        }.items():
            patch.setenv(name, value)
        # Pages of their own: Airflow's, of this process, remember what the databases of other tests said.
        patch.setattr(plugins_manager, "get_fastapi_plugins", lambda: (pages(), middlewares()))
        purge_cached_app()
        with TestClient(create_app(apps="core")) as made:
            yield made
        purge_cached_app()


@pytest.fixture
def client(application: TestClient, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The application with configuration, home and Redis of its own."""
    (tmp_path / "DEMO.yaml").write_text(CONFIG)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    monkeypatch.setattr(gathering, "FRESH_SECONDS", 0.0)
    application.cookies.clear()
    return application


def head_of(client: TestClient, name: str) -> Head:
    """The headers of a user's request."""
    answer = client.post("/auth/token", json={"username": name, "password": "a-secret"})
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


@pytest.fixture
def anna(client: TestClient) -> Head:
    return head_of(client, "anna")


@pytest.fixture
def report() -> str:
    name = state_paths.report_name(RUN)
    folder = state_paths.report_folder(RUN)
    told: list[dict[str, Any]] = [
        {
            "prefix": "DEMO_",
            "slave": "dr1",
            "outcome": "different",
            "started": "2026-11-21T00:41:08",
            "action": "verify",
            "format": 1,
            "tables": [],
        }
    ]
    (folder / "report.json").write_text(json.dumps(told))
    (folder / "report.html").write_text("<p>the report</p>")
    (folder / "part-1.json").write_text("{}")
    kept_rehearsals.keep(REHEARSED, config.load("DEMO_"), "anna <i>")
    return name


def words(text: str) -> str:
    """The text of a page, without tags."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


def rehearsal() -> str:
    """The name of the rehearsal that was kept last."""
    return kept_rehearsals.latest(Prefix("DEMO_"), 1)[0].name


def pages(report: str) -> list[str]:
    """Every readable address."""
    return [
        "", "overview.json", "metrics", "topology/", "slaves/DEMO_/dr1/", "slaves/DEMO_/dr1/state.json",
        "slaves/DEMO_/dr1/waiting/", "masters/DEMO_/", "masters/DEMO_/queries/", "new/",
        "masters/DEMO_/rehearsals/", f"masters/DEMO_/rehearsals/{rehearsal()}/",
        "reports/", f"reports/{report}/", f"reports/{report}/report.json", "static/monitor.css", "static/monitor.js",
        "static/icon.svg",
    ]  # fmt: skip


def addresses() -> set[str]:
    from sluice_plugin import SluicePlugin

    return {route.path for route in SluicePlugin.fastapi_apps[0]["app"].routes}


@pytest.mark.long
def test_the_address_without_a_slash_at_its_end_leads_to_the_monitor(client: TestClient, anna: Head) -> None:
    answer = client.get("/sluice?find=dr1", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "sluice/?find=dr1")
    assert client.get("/sluice", headers=anna).url.path == "/sluice/"
    assert client.get("/sluices", headers=anna, follow_redirects=False).status_code != 307


def test_strangers_see_nothing(client: TestClient, report: str) -> None:
    ours = [*pages(report), *(f"actions/{name}?prefix=DEMO_&slave=dr1" for name in ACTIONS)]
    for path in (*ours, "docs", "openapi.json", "nothing"):
        answer = client.get(f"/sluice/{path}", follow_redirects=False)
        assert answer.status_code == (401 if path in ours else 404), path
        assert "the report" not in answer.text and "DEMO_" not in answer.text
    for name in ACTIONS:
        assert client.post(f"/sluice/actions/{name}", data={"prefix": "DEMO_", "slave": "dr1"}).status_code == 401


@pytest.mark.long
def test_each_role_gets_every_page_and_the_actions_of_its_rights(client: TestClient, report: str) -> None:
    tried = set()
    for name, role in ROLES.items():
        head = head_of(client, name)
        for path in pages(report):
            answer = client.get(f"/sluice/{path}", headers=head)
            refused = path == "new/" and role != "op"
            assert answer.status_code == (403 if refused else 200), (role, path, answer.text[:300])
            assert "nosniff" in answer.headers["X-Content-Type-Options"], path
            tried.add(path)
        for action in ACTIONS.values():
            may = role == "op" or (role == "user" and not action.administer)
            path = f"/sluice/actions/{action.name}"
            shown = client.get(f"{path}?prefix=DEMO_&slave=dr1", headers=head)
            assert shown.status_code == (200 if may else 403), (role, action.name)
            # Without the key of its own page nothing is done, whoever asks.
            done = client.post(path, data={"prefix": "DEMO_", "slave": "dr1", "why": "x"}, headers=head)
            assert done.status_code == (400 if may else 403), (role, action.name)
            assert (f"/sluice/actions/{action.name}?" in client.get("/sluice/masters/DEMO_/", headers=head).text) is (
                may
                and action.name not in ("put_aside", "send_test")
                and (action.scope == "master" or action.name == "initiate")
            )
    templates = [re.sub(r"\{\w+\}", r"[^/]+", address) for address in addresses()]
    missed = [one for one in templates if not any(re.fullmatch(one, f"/{path}") for path in tried)]
    assert missed == ["/actions/[^/]+"], "every route is tried, actions above"


def test_pages_forbid_what_they_do_not_need(client: TestClient, anna: Head) -> None:
    policy = client.get("/sluice/", headers=anna).headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'self'" in policy


def test_a_form_needs_the_key_that_its_page_has_for_this_person(client: TestClient) -> None:
    otto, olga = head_of(client, "otto"), head_of(client, "olga")
    asked = client.get("/sluice/actions/hold?prefix=DEMO_&slave=dr1", headers=otto).text
    (key,) = re.findall(r'name="key" value="([0-9a-f]+)"', asked)
    form = {"prefix": "DEMO_", "slave": "dr1", "why": "disk", "key": key}
    for head, more in ((olga, {}), (otto, {"Sec-Fetch-Site": "cross-site"})):
        answer = client.post("/sluice/actions/hold", data=form, headers={**head, **more})
        assert answer.status_code == 400 and "nothing was done" in answer.text
    json_body = client.post("/sluice/actions/hold", json=form, headers=otto)
    assert json_body.status_code == 415
    unknown = client.post("/sluice/actions/hold", data={**form, "slave": "dr9"}, headers=otto)
    assert unknown.status_code == 404
    without = client.post("/sluice/actions/hold", data={**form, "why": "  "}, headers=otto)
    assert without.status_code == 400 and "Say why" in without.text


def test_the_page_of_a_slave_says_through_when_each_table_is_verified(
    client: TestClient, anna: Head, report: str
) -> None:
    store = redis_store.connect()
    Status(store, Prefix("DEMO_"), "dr1").write({"state": "NORMAL", "current_as_of": "2026-11-21T00:45:10.1Z"})
    verified = VerificationLog(store, Prefix("DEMO_"), "dr1")
    verified.expect(["public.t", "public.<new>"], "2026-11-20T00:00:00+00:00")
    verified.write("public.t", SEEN)
    verified.write("public.t", {"outcome": "could not compare", "reason": "no <apply>", "run": SEEN["run"]})
    answer = client.get("/sluice/slaves/DEMO_/dr1/", headers=anna)
    assert answer.status_code == 200
    text = words(answer.text)
    assert "Current as of 2026-11-21 00:45:10 UTC" in text
    assert re.search(r"public\.t ready not seen could not compare.*no <apply> 2026-11-21 00:41:10 1,234", text)
    assert "811:815:812" not in text, "a position means nothing to people"
    assert "public.<new> ready not seen – never" in text and "<new>" not in answer.text
    assert f'href="/sluice/reports/{report}/"' in answer.text
    assert "Its database cannot be read: Airflow has no connection 's'" in text
    assert text.count("Airflow has no connection 's'") == 1


def test_safe_mode_says_why_it_is_on_and_when_it_ends(client: TestClient, anna: Head) -> None:
    store = redis_store.connect()
    mode = "on after the start, for 12 s more and until everything up to <2026> is applied"
    Status(store, Prefix("DEMO_"), "dr1").write({"state": "NORMAL", "safe_mode": mode})
    assert "does not run" in words(client.get("/sluice/", headers=anna).text)
    lease = Lease(store, Prefix("DEMO_"), "dr1", 10.0)
    lease.acquire()
    try:
        text = client.get("/sluice/slaves/DEMO_/dr1/", headers=anna).text
        assert "safe mode" in client.get("/sluice/", headers=anna).text
    finally:
        lease.release()
    assert f"Safe mode {mode}" in words(text)


def test_a_replication_with_mistakes_is_named_with_them(client: TestClient, anna: Head, tmp_path: Path) -> None:
    (tmp_path / "BAD.yaml").write_text("prefix: BAD_\nmaster: {conn_id: m}\nslavs: {}\n")
    (tmp_path / "nameless.yaml").write_text("<&>: {\n")
    text = words(client.get("/sluice/", headers=anna).text)
    assert "BAD.yaml:3: slavs: is not known; did you mean slaves?" in text
    assert "A file without a prefix that can be read" in text and "nameless.yaml" in text
    assert "DEMO_ from postgres, m" in text, "the others stay"
    assert client.get("/sluice/masters/BAD_/", headers=anna).status_code == 404


def test_an_apply_that_stopped_says_why_and_what_to_press(client: TestClient, anna: Head) -> None:
    store = redis_store.connect()
    Gate(store, Prefix("DEMO_"), "dr1").close(ERROR, "apply", "public.t: a row <is> not there.")
    Status(store, Prefix("DEMO_"), "dr1").write({"state": "NORMAL"})
    page = client.get("/sluice/", headers=anna).text
    found = "The apply has stopped: public.t: a row <is> not there. Fix that, then use Restart apply."
    assert found in words(page)
    assert "actions/restart" not in page, "anna only reads"
    assert (
        "/sluice/actions/restart?prefix=DEMO_&amp;slave=dr1"
        in client.get("/sluice/", headers=head_of(client, "otto")).text
    )


def test_a_report_is_served_and_nothing_else_of_the_folder(client: TestClient, anna: Head, report: str) -> None:
    whole = client.get(f"/sluice/reports/{report}/", headers=head_of(client, "otto"))
    assert whole.status_code == 200 and "the report" in whole.text
    assert client.get(f"/sluice/reports/{report}/report.json", headers=anna).json()[0]["prefix"] == "DEMO_"
    assert report in client.get("/sluice/reports/", headers=anna).text
    (paths.home() / "report.html").write_text("outside")
    for path in (f"{report}/part-1.json", "%2e%2e/", "..%2f/", "nothing/", ".hidden/", "../"):
        answer = client.get(f"/sluice/reports/{path}", headers=anna)
        assert "outside" not in answer.text
        assert answer.status_code == 404 or path == "../", path
    for path in ("%2e%2e%2ftemplates.py", "templates.py", "nothing.css", ".css"):
        assert client.get(f"/sluice/static/{path}", headers=anna).status_code == 404, path


def test_the_link_of_a_run_leads_to_its_report(client: TestClient, report: str) -> None:
    from sluice.airflow.steps_resync import ReportLink

    class Key:
        run_id = RUN

    link = ReportLink().get_link(None, ti_key=Key())
    assert "the report" in client.get(link, headers=head_of(client, "otto")).text


def test_without_redis_the_page_says_so_and_what_was_known_before(
    client: TestClient, anna: Head, report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Status(redis_store.connect(), Prefix("DEMO_"), "dr1").write({"state": "INCONSISTENT", "message": "of before"})
    assert "of before" in client.get("/sluice/", headers=anna).text
    monkeypatch.setenv("SLUICE_REDIS_URL", "redis://127.0.0.1:1/0")
    for path in ("", "slaves/DEMO_/dr1/"):
        answer = client.get(f"/sluice/{path}", headers=anna)
        assert answer.status_code == 200 and "Redis does not answer" in answer.text and "of before" in answer.text
    assert report in client.get("/sluice/reports/", headers=anna).text


def test_lacks_of_slave_and_master_are_shown_with_the_remedy(client: TestClient, anna: Head) -> None:
    store, prefix = redis_store.connect(), Prefix("DEMO_")
    Status(store, prefix, "dr1").write({"state": "NORMAL", "differing": ["public.<p> differs: load it."]})
    Issues(store, prefix, "dr1").write([("index i on public.t: the master has it", 'CREATE INDEX "<i>" ON t (a)')], "")
    Issues(store, prefix).write([("public.new: it is not captured", "")], "")
    text = words(client.get("/sluice/", headers=anna).text)
    assert "public.<p> differs: load it." in text
    assert 'run there: CREATE INDEX "<i>" ON t (a);' in text
    assert "public.new: it is not captured. Use Reconcile tables." in text


def test_programs_get_the_same_content_as_data(client: TestClient, anna: Head) -> None:
    Status(redis_store.connect(), Prefix("DEMO_"), "dr1").write({"state": "INCONSISTENT", "message": "<disk>"})
    found = client.get("/sluice/overview.json", headers=anna).json()
    (slave,) = found["masters"][0]["slaves"]
    assert (slave["slave"], slave["state"], slave["sentence"]) == ("dr1", "INCONSISTENT", "<disk>")
    assert slave["messages"][0]["remedy"] == "initiate"
    whole = client.get("/sluice/slaves/demo_/dr1/state.json", headers=anna).json()
    assert whole["prefix"] == "DEMO_" and "has no connection" in whole["trouble"]


def test_a_rehearsal_is_kept_by_its_form_shown_as_text_and_refused_with_the_reason(
    client: TestClient, anna: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, otto = "/sluice/masters/DEMO_/rehearsals/", head_of(client, "otto")
    assert "No report is kept yet" in client.get(address, headers=anna).text
    assert 'type="file"' not in client.get(address, headers=anna).text, "anna only reads"
    (key,) = re.findall(r'name="key" value="([0-9a-f]+)"', client.get(address, headers=otto).text)

    def send(told: str, head: Head = otto, **more: str) -> Any:
        file = {"report": ("../<b>.json", told, "text/html")}
        return client.post(address, data={"key": key, **more}, files=file, headers=head, follow_redirects=False)

    told = json.dumps(REHEARSED.as_dict())
    for answer, status, said in (
        (send(told, anna), 403, "trigger the DAG resync"),
        (send(told, key="0"), 400, "nothing was kept"),
        (send(told, {**otto, "Sec-Fetch-Site": "cross-site"}), 400, "nothing was kept"),
        (send('{"<b>": 1}'), 400, "report.format is not 1"),
        (send(told.replace('"DEMO_"', '"SHOP_"')), 400, "The report is of SHOP_"),
        (send(""), 400, "The file is no JSON"),
        (client.post(address, data={"key": key}, headers=otto), 415, "multipart/form-data"),
        (client.post(address, content="x", headers={**otto, "Content-Type": "multipart/form-data"}), 400, "Choose"),
    ):
        assert (answer.status_code, said in words(answer.text), "<b>" in answer.text) == (status, True, False), said
    with monkeypatch.context() as patch:
        patch.setattr(rehearsal_pages, "LARGEST_UPLOAD", 1_000)
        assert send(told).status_code == 413
    assert not (paths.home() / "rehearsals").exists()

    answer = send(told)
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    listed = client.get(address, headers=anna).text
    assert "m.sql <b> otto 2 findings" in words(listed).replace("2026-12-01 10:00:00 ", "") and "<b>" not in listed
    assert "2026-12-01 10:00:00 UTC, m.sql <b>: 2 findings" in words(
        client.get("/sluice/masters/DEMO_/", headers=anna).text
    )
    for head, seen in ((otto, True), (anna, False)):
        page = client.get(f"{address}{rehearsal()}/", headers=head)
        assert "script-src" not in page.headers["Content-Security-Policy"] and "<b>x" not in page.text
        assert ("4711-secret" in page.text) is seen and "kept by otto" in page.text
    for name in ("nothing", "..%2f", "%2e%2e", f"{rehearsal()}.json"):
        assert client.get(f"{address}{name}/", headers=anna).status_code == 404, name


def test_readers_never_see_a_value_of_a_row(client: TestClient, anna: Head, report: str) -> None:
    store, prefix = redis_store.connect(), Prefix("DEMO_")
    drift = str(Drift(TableName("public", "t"), {"id": "4711-secret"}, "UPDATE", "one", "none"))
    Gate(store, prefix, "dr1").close(ERROR, "apply", drift)
    Status(store, prefix, "dr1").write({"state": "NORMAL", "message": drift, "differing": [drift]})
    VerificationLog(store, prefix, "dr1").write(
        "public.t", {"outcome": "could not compare", "reason": drift, "run": "x"}
    )
    folder = state_paths.report_folder(RUN)
    values = {"kind": "missing", "copies": 1, "cause": "", "key": {"id": "4711-secret"}, "master": None, "slave": None}
    finding = TableResult(TableFinding(TableName("public", "t"), Outcome.COULD_NOT_COMPARE, reason=drift))
    told = as_dict("DEMO_", "dr1", "verify", "2026-11-21T00:41:08", [finding])
    told["tables"][0]["examples"] = [values]  # type: ignore[list-item]
    (folder / "report.json").write_text(json.dumps([told]))
    (folder / "report.html").write_text(page([told]))
    otto, shown = head_of(client, "otto"), set()
    for path in pages(report):
        assert "4711-secret" not in client.get(f"/sluice/{path}", headers=anna).text, path
        shown |= {path} if "4711-secret" in client.get(f"/sluice/{path}", headers=otto).text else set()
    assert {"", "overview.json", "slaves/DEMO_/dr1/", "slaves/DEMO_/dr1/state.json", f"reports/{report}/"} <= shown


def test_a_fragment_of_a_page_refreshes_alone(client: TestClient, anna: Head) -> None:
    text = client.get("/sluice/?part=live", headers=anna).text
    assert "DEMO_" in text and "<html" not in text and 'id="find"' not in text


def test_a_refused_request_gets_an_error_page(client: TestClient, anna: Head) -> None:
    answer = client.get("/sluice/slaves/DEMO_/nobody/", headers={**anna, "Accept": "text/html"})
    assert answer.status_code == 404 and "DEMO_ has no slave nobody. Its slaves: dr1." in words(answer.text)
    assert "To the overview" in answer.text and "Content-Security-Policy" in answer.headers


def test_a_form_that_is_sent_after_the_session_is_over_is_not_lost(client: TestClient) -> None:
    html = {"Accept": "text/html"}
    sent = client.post("/sluice/actions/hold", data={"prefix": "DEMO_", "why": "disk"}, headers=html)
    assert sent.status_code == 401 and "reload this page: the browser sends the form again" in words(sent.text)
    assert 'target="_blank"' in sent.text and "next=/sluice/" in sent.text
    seen = client.get("/sluice/actions/hold?prefix=DEMO_&slave=dr1", headers=html)
    assert seen.status_code == 401 and "next=/sluice/actions/hold%3Fprefix%3DDEMO_%26slave%3Ddr1" in seen.text


def test_a_refused_form_points_at_the_field_and_offers_the_tables_of_all_slaves(client: TestClient) -> None:
    otto = head_of(client, "otto")
    asked = client.get("/sluice/actions/verify?prefix=DEMO_&slave=dr1", headers=otto).text
    (key,) = re.findall(r'name="key" value="([0-9a-f]+)"', asked)
    form = {"prefix": "DEMO_", "slave": "dr1", "sample": "many", "key": key}
    answer = client.post("/sluice/actions/verify", data=form, headers=otto)
    assert answer.status_code == 400
    assert re.findall(r'name="(\w+)"[^>]*aria-invalid="true" autofocus', answer.text) == ["sample"]
    with redis_store.connect() as client_of_redis:
        Status(client_of_redis, Prefix("DEMO_"), "dr1").write({"not_ready": {"public.orders": "absent"}})
    for address in ("initiate?prefix=DEMO_", "debug?prefix=DEMO_"):
        assert 'name="tables" value="public.' in client.get(f"/sluice/actions/{address}", headers=otto).text, address
    asked = words(client.get("/sluice/actions/initiate?prefix=DEMO_", headers=otto).text)
    assert "Why (may stay empty if nothing is lost)" in asked


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("nothing/", 404, "The monitor has no page at this address."),
        ("masters/NO_/", 404, "NO_ is not configured.* These are configured: DEMO_."),
        ("actions/jump?prefix=DEMO_", 404, "There is no action 'jump'."),
        ("actions/hold", 422, "The address is not complete. prefix: field required."),
        ("actions/hold?prefix=DEMO_&slave=nobody", 404, "DEMO_ has no slave nobody"),
        ("actions/uninstall?prefix=DEMO_", 403, "Uninstall needs the right to administer"),
        ("reports/nothing/", 404, "There is no such report"),
    ],
)
def test_errors_are_pages_for_people_and_data_for_programs(
    client: TestClient, path: str, status: int, said: str
) -> None:
    otto = head_of(client, "otto")
    page = client.get(f"/sluice/{path}", headers={**otto, "Accept": "text/html"})
    data = client.get(f"/sluice/{path}", headers=otto)
    assert page.status_code == data.status_code == status
    assert re.search(said, words(page.text)) and re.search(said, data.json()["detail"])
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_an_internal_error_is_shown_without_details(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a value of a row")

    monkeypatch.setattr("sluice.airflow.pages.report_pages.latest", broken)
    otto = head_of(client, "otto")
    calm = TestClient(client.app, raise_server_exceptions=False)
    page = calm.get("/sluice/reports/", headers={**otto, "Accept": "text/html"})
    assert page.status_code == 500 and "The monitor has failed" in page.text
    assert "ZeroDivisionError at /sluice/reports/" in words(page.text) and "a value of a row" not in page.text
    assert "a value of a row" in caplog.text


def test_two_tables_whose_names_differ_in_case_alone_are_two(client: TestClient, anna: Head) -> None:
    store = redis_store.connect()
    Status(store, Prefix("DEMO_"), "dr1").write({"state": "NORMAL"})
    VerificationLog(store, Prefix("DEMO_"), "dr1").expect(['public."Items"', 'public."ITEMS"'], SEEN["checked"])
    text = words(client.get("/sluice/slaves/DEMO_/dr1/", headers=anna).text)
    assert 'public."Items"' in text and 'public."ITEMS"' in text


def test_queries_are_offered_where_the_configuration_allows_them(client: TestClient, tmp_path: Path) -> None:
    olga = head_of(client, "olga")
    pages = ("masters/DEMO_/", "masters/DEMO_/queries/")
    assert all("actions/broadcast?" in client.get(f"/sluice/{path}", headers=olga).text for path in pages)
    (tmp_path / "DEMO.yaml").write_text(CONFIG.replace("broadcast: true", ""))
    assert not any("actions/broadcast?" in client.get(f"/sluice/{path}", headers=olga).text for path in pages)
