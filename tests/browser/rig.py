"""A real Airflow API server with the monitor in it, slaves in every state, people of three roles, and a browser."""

import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page

from sluice.airflow import state_paths
from sluice.coordination import redis_store
from sluice.coordination.gate import ADMIN, ERROR, Gate
from sluice.coordination.lease import Lease
from sluice.coordination.records import Events, History, LastChanges, QueueState, Status
from sluice.coordination.verification_log import VerificationLog
from sluice.model.event import Event, EventKind
from sluice.model.names import Prefix, TableName
from sluice.model.purging import Backlog
from sluice.model.sample import Sample
from sluice.verify.findings import Example, Kind, Outcome, TableFinding
from sluice.verify.page import page as report_page
from sluice.verify.report import as_dict
from sluice.verify.resync import TableResult
from tests.waiting import until

CONFIG = """
prefix: {prefix}
master: {{conn_id: {name}_master}}
slaves: {{{slaves}}}
tables: {{public.*: {{}}}}
broadcast: true
"""
SHOP, STOCK = Prefix("SHOP_"), Prefix("STOCK_")
SLAVES = {SHOP: ("berlin", "oslo", "tokyo", "lima"), STOCK: ("dr1", "dr2", "archive")}
ROLES = {"anna": "viewer", "otto": "user", "olga": "op"}
PASSWORD = "a-secret"
REPORT = "daily"
"""The name of a report of a comparison."""


@dataclass
class Monitor:
    """The server, and what its pages show."""

    url: str
    redis_url: str
    tokens: dict[str, str] = field(default_factory=dict)

    def page(self, browser: Browser, who: str = "olga", **options: Any) -> Page:
        """A page of the browser, logged in as a user."""
        context: BrowserContext = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        page = context.new_page()
        context.add_cookies([{"name": "_token", "value": self.token(who), "url": self.url}])
        return page

    def token(self, who: str) -> str:
        """The API token of a user."""
        if who in self.tokens:
            return self.tokens[who]
        answer = httpx.post(f"{self.url}/auth/token", json={"username": who, "password": PASSWORD}, timeout=60)
        self.tokens[who] = str(answer.json()["access_token"])
        return self.tokens[who]

    def say(self, prefix: Prefix, slave: str, behind: float = 0.4, **values: Any) -> None:
        """Writes the status of a slave's apply."""
        now = datetime.now(UTC)
        status = {
            "state": "NORMAL", "activity": "applying", "safe_mode": "off", "changes": 1_234_567, "message": "",
            "current_as_of": (now - timedelta(seconds=behind)).isoformat(), "at": now.isoformat(),
            "since": (now - timedelta(hours=31)).isoformat(), "rate": 0.0, "memory": 212_000_000, "pid": 4711,
            "host": "apply1", "spark": "http://spark.example.com:4040", "windows": [[now.timestamp(), 120, 0.012]],
        }  # fmt: skip
        with redis_store.connect(self.redis_url) as client:
            Status(client, prefix, slave).write({**status, **values})

    def write_everything(self) -> list[Lease]:
        """Writes a slave in every state. Returns the leases of the running applies; they are renewed until they are
        released."""
        client = redis_store.connect(self.redis_url)
        client.flushdb()
        forget_runs()
        leases = []
        for prefix, names in SLAVES.items():
            QueueState(client, prefix).measure(lambda: Backlog(48_213, 9_400_000))
            for number, name in enumerate(names):
                self._remember(prefix, name, number)
                if name not in ("tokyo", "archive"):
                    leases.append(Lease(client, prefix, name, 60.0))
                    leases[-1].acquire()
        _write_report()
        self.say_everything()
        Gate(client, SHOP, "tokyo").close(ERROR, "apply", "public.orders: the row with id = 7 is not on the slave")
        Gate(client, STOCK, "dr1").close(ADMIN, "otto", "disk is replaced")
        return leases

    def say_everything(self) -> None:
        """Writes the current status of all applies."""
        self.say(SHOP, "berlin", rate=1_240.0)
        self.say(SHOP, "oslo", 74.0, rate=310.0, set_aside=["public.orders"])
        self.say(SHOP, "tokyo", 4_000.0)
        self.say(SHOP, "lima", 12.0, state="TRANSITION", activity="applying")
        self.say(
            STOCK, "dr1", 40.0, activity="waiting: the gate is closed", safe_mode="on after the start, for 12 s more"
        )
        self.say(STOCK, "dr2", 3.0, state="INCONSISTENT", message="Initial Update interrupted by the ADMIN")

    def _remember(self, prefix: Prefix, name: str, number: int) -> None:
        """Writes an hour of samples of a slave, and its tables."""
        client = redis_store.connect(self.redis_url)
        minute = int(time.time() // 60)
        told = [
            (26_000, EventKind.START, "The apply has started, epoch 7, safe mode on after the start"),
            (25_900, EventKind.APPLY, "Safe mode is over"),
            (
                17_000,
                EventKind.DEFINITION,
                "ALTER public.orders (id integer, placed date, total numeric)",
            ),
            (9_400, EventKind.OUTAGE, "Waits: the master does not answer"),
            (9_310, EventKind.OUTAGE, "The apply continues"),
            (4_200, EventKind.VERIFICATION, "Compared: 3 tables identical"),
        ]
        Events(client, prefix, name).add(Event(time.time() - ago, kind, text) for ago, kind, text in told)
        changed = {TableName("public", table): time.time() - ago for table, ago in (("orders", 2.0), ("lines", 31.0))}
        LastChanges(client, prefix, name).note(changed)
        for back in range(55, 0, -1):
            wave = 1.2 + math.sin(back / (3 + number)) + math.sin(back * (1.7 + number)) / 5
            History(client, prefix, name).add(Sample(minute - back, wave / (1 + number % 3), int(30_000 * wave)))
        if name == "archive":
            return
        verified = VerificationLog(client, prefix, name)
        now = datetime.now(UTC)
        verified.expect(["public.customers", "public.orders", "public.lines"], now.isoformat())
        for table, rows in (("customers", 1_200), ("orders", 48_000), ("lines", 310_000)):
            seen = {"outcome": "identical", "checked": now.isoformat(), "run": "daily", "rows": rows}
            verified.write(f"public.{table}", {**seen, "time": (now - timedelta(hours=5)).isoformat(), "position": ""})


def beat(at: datetime | None = None) -> None:
    """A scheduler is seen."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session

    with create_session() as session:
        session.query(Job).delete()
        session.add(Job(job_type="SchedulerJob", state="running", latest_heartbeat=at or datetime.now(UTC)))


@contextmanager
def serving(folder: Path, redis_url: str) -> Iterator[Monitor]:
    """Runs Airflow's API server in a thread of this process, with our DAGs."""
    with pytest.MonkeyPatch.context() as patch:
        (folder / "replications").mkdir()
        for prefix, names in SLAVES.items():
            name = prefix.lower.rstrip("_")
            slaves = ", ".join(f"{one}: {{conn_id: {name}_{one}}}" for one in names)
            text = CONFIG.format(prefix=prefix, name=name, slaves=slaves)
            (folder / "replications" / f"{name}.yaml").write_text(text)
        passwords = folder / "passwords"
        passwords.write_text(json.dumps(dict.fromkeys(ROLES, PASSWORD)))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        for variable, value in {
            "SLUICE_REPLICATIONS": str(folder / "replications"),
            "SLUICE_HOME": str(folder / "home"),
            "SLUICE_REDIS_URL": redis_url,
            "AIRFLOW__API__BASE_URL": url,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__API_AUTH__JWT_SECRET": "of-these-tests-and-long-enough-for-a-digest-of-512-bits-0123456789",
        }.items():
            patch.setenv(variable, value)
        _store_dags()
        from airflow.api_fastapi.app import create_app, purge_cached_app

        purge_cached_app()
        server = uvicorn.Server(uvicorn.Config(create_app(apps="core"), "127.0.0.1", port, log_level="error"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            until(lambda: server.started)
            yield Monitor(url, redis_url)
        finally:
            server.should_exit = True
            thread.join(30)
            purge_cached_app()


def forget_runs() -> None:
    """Deletes all runs of Airflow."""
    from airflow.models.dagrun import DagRun, DagRunNote
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.taskinstancehistory import TaskInstanceHistory
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        # Their questions, XComs and notes refer to them.
        for kind in (HITLDetail, XComModel, DagRunNote, TaskInstanceHistory, TaskInstance, DagRun):
            session.query(kind).delete()


def _write_report() -> None:
    """Writes the report of a run that found different rows, a table that could not be compared, and equal ones."""
    odd = {"id": "7", "note": '<b>"a" & b</b> ' + "long" * 60, "empty": "", "none": None}
    rows = [Example(kind, {"id": "7"}, odd, {**odd, "note": "x"}) for kind in Kind]
    found = TableFinding(TableName("public", "orders"), Outcome.DIFFERENT, examples=rows, rows_master=7, rows_slave=6)
    for kind in Kind:
        found.found[kind].count = 1
    lost = TableFinding(TableName("public", "lines"), Outcome.COULD_NOT_COMPARE, reason="the slave does not answer")
    same = TableFinding(TableName("public", "x" * 63))
    tables = [TableResult(one) for one in (found, lost, same)]
    started = datetime.now(UTC).isoformat()
    told = [as_dict(str(SHOP), slave, "verify", started, tables) for slave in ("tokyo", "lima")]
    folder = state_paths.report_folder(REPORT)
    (folder / "report.json").write_text(json.dumps(told))
    (folder / "report.html").write_text(report_page(told))


def _store_dags() -> None:
    """Stores the DAGs as Airflow's DAG processor does: the API starts only runs of stored DAGs."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    from tests.airflow_home import ROOT

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(str(ROOT / "dags"), bundle_path=ROOT / "dags", bundle_name="dags-folder")
    assert not bag.import_errors, bag.import_errors
    sync_bag_to_db(bag, "dags-folder", None)
