"""The notifiers of the configuration report once what needs a person."""

import json
import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow import kept_rehearsals, notify, state_paths
from sluice.airflow.steps_housekeeping import forget_reports, report_days, tell_people
from sluice.airflow.task_context import TaskContext
from sluice.configuration.options import NotifierConfig
from sluice.coordination import redis_store
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.records import Status
from sluice.coordination.verification_log import VerificationLog
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.paths import home
from tests.dags.resyncing import dag_of, pair, run
from tests.dags.smtp_server import MailServer
from tests.errors import raises_code
from tests.rig.rig import Rig

__all__ = ["pair"]


@pytest.fixture
def told(pair: Rig, tmp_path: Path) -> "Told":
    return Told(pair, tmp_path)


class Told:
    """A pair with a notifier that writes to a file."""

    def __init__(self, pair: Rig, folder: Path):
        self.pair = pair
        self.file, self.fail = folder / "notices", folder / "dead"
        self.configure({"tests.dags.notifying.ToFile": {"path": str(self.file), "fail": str(self.fail)}})

    def configure(self, notifiers: dict[str, Any], **options: Any) -> None:
        (file,) = (file for file in self.file.parent.glob("*.yaml"))
        text = file.read_text().split("\nnotify:")[0]
        file.write_text(f"{text}\nnotify: {json.dumps(notifiers)}\nverify: {json.dumps(options)}\n")

    @property
    def notices(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    @property
    def verified(self) -> VerificationLog:
        return VerificationLog(redis_store.connect(self.pair.redis_url), self.pair.pair.prefix, "dr1")


def look() -> str:
    """Runs the task of housekeeping once."""
    dag = dag_of("housekeeping")
    return str(tell_people.body(TaskContext.of_prefix("DEMO_", {"dag": dag})))


def test_a_difference_is_reported_once_with_its_report_until_it_is_fixed(told: Told) -> None:
    with told.pair.apply():
        told.pair.await_current()
        told.pair.slave.execute("UPDATE public.people SET name = 'seen' WHERE id < 4")
        state, _ = run(prefix="DEMO_", approve=True)
        assert state == "success"
        (notice,) = told.notices
        assert look() == "0 things need a person, 0 notices sent"
    assert notice["subject"] == "DEMO_ → dr1 differs from its master: 1 table"
    assert "public.people: 3 rows differ" in notice["text"] and "approve the repair" in notice["text"]
    (folder,) = state_paths.reports_folder().iterdir()
    assert notice["link"].endswith(f"/sluice/reports/{folder.name}/")


@pytest.mark.long
def test_a_run_that_could_not_compare_is_reported_with_the_reason(told: Told) -> None:
    told.pair.slave.execute("ALTER TABLE public.log RENAME line TO other")
    run(prefix="DEMO_")
    (notice,) = told.notices
    assert notice["subject"] == "DEMO_ → dr1 could not be compared with its master: 1 table"
    assert "public.log cannot hold on the slave what it holds on the master" in notice["text"]


def test_findings_of_a_run_are_reported_when_it_has_ended(told: Told) -> None:
    folder = state_paths.report_folder("scheduled__1")
    found = {"outcome": "different", "run": folder.name}
    told.verified.write("public.people", {**found, "differ": 1})
    assert look() == "0 things need a person, 0 notices sent", "there is no report yet"
    told.verified.write("public.log", {**found, "differ": 2})
    (folder / "report.html").touch()
    assert look() == "1 thing needs a person, 1 notice sent"
    assert told.notices[0]["subject"].endswith("2 tables")


def test_findings_of_a_run_without_a_report_are_reported_too(told: Told) -> None:
    folder = state_paths.report_folder("scheduled__1")
    told.verified.write("public.people", {"outcome": "different", "run": folder.name, "differ": 1})
    os.utime(folder, (time.time(), time.time() - 25 * 3600))
    assert look() == "1 thing needs a person, 1 notice sent"
    shutil.rmtree(folder)
    assert look() == "1 thing needs a person, 0 notices sent"


@pytest.mark.long
def test_a_notifier_that_fails_hides_nothing_and_is_tried_again(told: Told) -> None:
    told.fail.touch()
    told.pair.slave.execute("ALTER TABLE public.log RENAME line TO other")
    state, tasks = run(prefix="DEMO_")
    assert state == "failed" and tasks["write_report"] == "success" and tasks["verdict"] == "failed"
    with raises_code("notifiers-failed", match="the pager's line is dead"):
        look()
    told.fail.unlink()
    assert look() == "1 thing needs a person, 1 notice sent"
    assert look() == "1 thing needs a person, 0 notices sent"
    assert "public.log: public.log cannot hold" in told.notices[0]["text"]


def test_a_notifier_that_cannot_be_made_says_why(told: Told) -> None:
    Gate(redis_store.connect(told.pair.redis_url), told.pair.pair.prefix, "dr1").close(ERROR, "apply", "drift")
    told.configure({"no_such_package.Pager": {}})
    with raises_code(
        "notifiers-failed", match=r"no_such_package\.Pager of the configuration cannot be used: No module"
    ):
        look()


def test_a_slave_that_was_not_verified_for_days_is_reported(told: Told) -> None:
    assert look() == "0 things need a person, 0 notices sent"
    assert set(told.verified.read()) == {"public.people", "public.log"}
    since = datetime.now(UTC) - timedelta(days=9)
    told.verified.client.hset(told.verified.key, "public.log", json.dumps({"since": since.isoformat()}))
    look()
    look()
    (notice,) = told.notices
    assert notice["subject"] == "DEMO_ → dr1 has not been verified for 8 days: 1 table"
    assert "public.log: never verified" in notice["text"]


def test_a_slave_that_is_inconsistent_and_an_apply_that_stopped_are_reported(told: Told) -> None:
    told.pair.checkpoints.move(SlaveState.INCONSISTENT, "the update was canceled")
    told.pair.slave.commit()
    Gate(redis_store.connect(told.pair.redis_url), told.pair.pair.prefix, "dr1").close(ERROR, "apply", "qty is 7")
    look()
    look()
    assert [notice["subject"] for notice in told.notices] == [
        "DEMO_ → dr1 is INCONSISTENT", "DEMO_ → dr1: the apply has stopped",
    ]  # fmt: skip
    assert "the update was canceled\nStart the DAG initial_update" in told.notices[0]["text"]
    assert "qty is 7. Fix that" in told.notices[1]["text"]
    assert told.verified.read() == {}, "there is nothing to verify"


def test_e_mail_needs_only_addresses_in_the_configuration(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    with MailServer() as server:
        values = {"conn_type": "smtp", "host": "127.0.0.1", "port": server.port,
                  "extra": {"disable_ssl": True, "disable_tls": True}}  # fmt: skip
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(values))
        smtp = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
        told.configure({smtp: {"to": ["dba@example.com", "anna@example.com"], "from_email": "sluice@example.com"}})
        Gate(redis_store.connect(told.pair.redis_url), told.pair.pair.prefix, "dr1").close(ERROR, "apply", "<qty> & 7")
        assert look() == "1 thing needs a person, 1 notice sent"
        (mail,) = server.mails
    assert mail["subject"] == "DEMO_ → dr1: the apply has stopped"
    assert mail["to"] == "dba@example.com, anna@example.com"
    body = mail.get_body(("html",))
    assert body is not None and "&lt;qty&gt; &amp; 7. Fix that" in body.get_content()


def test_reports_are_deleted_after_the_configured_days(told: Told) -> None:
    def report(name: str, days: float, *prefixes: str) -> Path:
        folder = state_paths.report_folder(name)
        (folder / "report.json").write_text(json.dumps([{"prefix": prefix} for prefix in prefixes]))
        os.utime(folder, (time.time(), time.time() - days * 24 * 3600))
        return folder

    def report_of(prefix: str, days: float) -> Path:
        kept_rehearsals.make(folder := kept_rehearsals.folder_in(home(), Prefix(prefix)))
        (file := folder / f"20261201T120000000000Z-{round(days):08x}.json").touch()
        os.utime(file, (time.time(), time.time() - days * 24 * 3600))
        return file

    told.configure({}, keep_reports_days=10)
    young, old = report("young", 9, "DEMO_"), report("old", 11, "DEMO_")
    foreign, older = report("foreign", 89, "DEMO_", "GONE_"), report("older", 91, "GONE_")
    rehearsals = [report_of(prefix, days) for prefix, days in (("DEMO_", 9), ("DEMO_", 11), ("GONE_", 11))]
    assert forget_reports.function() == 3
    assert [file.exists() for file in rehearsals] == [True, False, True]
    assert young.exists() and foreign.exists() and not old.exists() and not older.exists()


def test_the_longest_time_of_several_replications_counts() -> None:
    kept = {"A_": 5, "B_": 0, "C_": 100}
    assert report_days(["A_"], kept) == 5 and report_days(["A_", "C_"], kept) == 100
    assert report_days(["A_", "B_"], kept) == 0, "forever"
    assert report_days(["X_"], kept) == report_days([], kept) == 90


def test_a_slave_that_is_far_behind_is_reported_once_and_again_when_it_was_current_in_between(told: Told) -> None:
    def says(behind: float) -> None:
        now = datetime.now(UTC)
        as_of = (now - timedelta(seconds=behind)).isoformat()
        said = {"state": "NORMAL", "activity": "applying", "at": now.isoformat(), "current_as_of": as_of}
        Status(redis_store.connect(told.pair.redis_url), told.pair.pair.prefix, "dr1").write(said)

    for behind in (1.0, 4_000.0, 5_000.0, 1.0, 4_000.0):
        says(behind)
        look()
    subjects = [notice["subject"] for notice in told.notices]
    assert subjects == ["DEMO_ → dr1: the slave is far behind"] * 2
    assert "behind its master" in told.notices[0]["text"]


def test_a_test_goes_through_every_notifier_and_tells_which_one_did_not_take_it(tmp_path: Path) -> None:
    good, dead = tmp_path / "good", tmp_path / "dead"
    dead.touch()
    notifiers = [
        NotifierConfig("tests.dags.notifying.ToFile", {"path": str(tmp_path / "bad"), "fail": str(dead)}),
        NotifierConfig("tests.dags.notifying.ToFile", {"path": str(good)}),
        NotifierConfig("tests.dags.notifying.Gone", {}),
    ]
    task: Any = SimpleNamespace(
        prefix=Prefix("DEMO_"), context={}, person=lambda other: "anna",
        replication=SimpleNamespace(notify=notifiers, source="DEMO.yaml"),
    )  # fmt: skip
    with raises_code("test-notice-failed", match=r"the pager's line is dead; .*Gone.*It was sent through .*ToFile"):
        notify.send_test.body(task)
    assert "DEMO_: a test of notices" in good.read_text() and "anna asked for this test" in good.read_text()
    notifiers[:] = notifiers[1:2]
    assert notify.send_test.body(task) == "sent through tests.dags.notifying.ToFile"
    notifiers.clear()
    with raises_code("no-notifier", match=r"DEMO.yaml names no notifier"):
        notify.send_test.body(task)
