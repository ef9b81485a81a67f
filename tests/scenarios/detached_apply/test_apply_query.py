"""The apply of a pair as a streaming query of Spark, with a real server."""

import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import sync_playwright

from devstack.machine import ensure_chromium, find_chromium
from devstack.spark import SparkServer
from sluice.airflow.query_trigger import QueryWatch
from sluice.coordination.apply_query import ApplyQuery, QueryRecord, QueryState
from sluice.coordination.redis_store import passwords
from sluice.errors import SluiceError
from sluice.exit_status import DONE, TERMINAL
from sluice.model.apply_status import StopRequest
from spark_jobs import apply_query
from spark_jobs.apply_task import ApplyTask
from spark_jobs.endpoint import Endpoint
from spark_jobs.reach import ReachTask, unreached
from tests.rig.endpoints import like_a_cluster
from tests.rig.rig import Rig
from tests.scenarios.detached_apply.test_spark_executor import pages
from tests.waiting import until

TABLES = "CREATE TABLE public.orders (id int PRIMARY KEY, note text)"


class Query:
    """A query of a rig, as Airflow's task starts it."""

    def __init__(self, rig: Rig, endpoint: Endpoint) -> None:
        self.rig, self.endpoint = rig, endpoint
        self.redis = ApplyQuery(rig.store, rig.pair.prefix, rig.name)
        self.number = 0
        self.record = QueryRecord("", {}, 0.0, "", "")

    @property
    def id(self) -> str:
        return f"apply-{self.number}"

    def start(self) -> None:
        self.number += 1
        session = apply_query.new_session()
        self.record = QueryRecord(self.id, {}, time.time(), session, str(self.endpoint))
        self.redis.write(self.record)
        task = ApplyTask(self.id, self.rig.pair, self.rig.redis_url, self.endpoint)
        self.record = apply_query.start(task, self.record)
        self.redis.write(self.record)

    @property
    def state(self) -> QueryState:
        return self.redis.state()

    def asks(self) -> str:
        return str(apply_query.look(self.endpoint, self.record)[0])

    def ask_to_stop(self) -> None:
        self.redis.request_stop(self.id, StopRequest("test", "it is over", time.time()))

    def stop(self) -> None:
        if self.record.query:
            self.ask_to_stop()
            until(lambda: self.asks() != "active")
            with suppress(SluiceError):
                apply_query.stop(self.endpoint, self.record)


@pytest.fixture
def query(rig: Callable[..., Rig], spark: SparkServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    made = Query(rig(TABLES), Endpoint(spark.server.url))
    monkeypatch.setenv("SLUICE_REDIS_URL", made.rig.redis_url)
    monkeypatch.setattr("sluice.airflow.connections.endpoint", lambda: made.endpoint)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def ports_of_sessions(rig: Rig) -> set[int]:
    """The client's ports of the apply's sessions on both databases."""
    sessions = "SELECT client_port FROM pg_stat_activity WHERE application_name LIKE 'sluice DEMO%'"
    found = {row[0] for database in (rig.master, rig.slave) for row in database.execute(sessions.encode())}
    assert len(found) >= 2
    return found


def ports_of(spark: SparkServer) -> set[int]:
    """The local ports of all processes of Spark."""
    ports = set()
    for each in spark.family():
        with suppress(psutil.Error):
            ports |= {one.laddr.port for one in psutil.Process(each.pid).net_connections() if one.laddr}
    return ports


def assert_rows_pass_through_spark(rig: Rig, spark: SparkServer) -> None:
    before = ports_of_sessions(rig)
    ports = ports_of(spark)
    # Some are for a moment only.
    assert before & ports_of_sessions(rig) <= ports, "rows pass through executors alone"


def insert(rig: Rig, first: int, count: int = 100) -> None:
    rig.master.execute(
        f"INSERT INTO public.orders SELECT n, 'row ' || n FROM generate_series({first}, {first + count - 1}) n".encode()
    )


def test_windows_are_applied_by_a_query_that_others_find_and_end(query: Query, spark: SparkServer) -> None:
    insert(query.rig, 1, 1000)
    query.rig.await_current()
    assert query.rig.differences() == {}
    assert query.asks() == "active"
    assert query.state.begun and query.state.runs
    assert query.record.session_seconds == 60 * 86_400, "as our own servers are set"
    assert_rows_pass_through_spark(query.rig, spark)
    other = replace(query.record, query="", run="")
    assert apply_query.look(query.endpoint, other)[0] == "active", "found by its session alone"
    query.ask_to_stop()
    until(lambda: not query.state.runs)
    end = query.state.end
    assert end is not None and end.rc == DONE
    until(lambda: query.asks() == "ended")
    log = query.redis.log_lines()
    assert any("epoch" in line for line in log) and query.redis.log_lines() == []


@pytest.mark.long
def test_a_killed_worker_is_followed_by_another_one(query: Query) -> None:
    insert(query.rig, 1)
    query.rig.await_current()
    begun = query.state.begun
    assert begun is not None
    os.kill(begun.pid, signal.SIGKILL)
    insert(query.rig, 1000)
    query.rig.await_current()
    assert query.rig.differences() == {}
    assert query.asks() == "active" and query.state.begun != begun


@pytest.mark.long
def test_a_query_that_needs_a_person_ends_once_with_its_text(query: Query) -> None:
    rig = query.rig
    insert(rig, 1)
    rig.await_current()
    until(lambda: query.state.status.get("safe_mode") == "off")
    rig.slave.execute("DELETE FROM public.orders WHERE id = 7")
    rig.master.execute("UPDATE public.orders SET note = 'newer' WHERE id = 7")
    until(lambda: not query.state.runs)
    state = query.state
    assert state.end is not None and state.end.rc == TERMINAL and "orders" in state.end.message
    until(lambda: query.asks() == "ended")
    assert sum("ERROR" in line for line in query.redis.last_lines(1000)) == 1, "Spark runs the task once"


@pytest.mark.long
def test_a_frozen_worker_is_followed_by_another_query_and_fenced_when_it_wakes(query: Query) -> None:
    rig = query.rig
    insert(rig, 1)
    rig.await_current()
    begun, epoch = query.state.begun, rig.checkpoint.epoch
    assert begun is not None
    os.kill(begun.pid, signal.SIGSTOP)
    try:
        watch = QueryWatch("DEMO_", "dr1", query.record)
        until(lambda: not watch.runs(lambda *_: None))
        assert query.state.lost is not None
        query.start()
        insert(rig, 1000)
        rig.await_current()
    finally:
        with suppress(ProcessLookupError):
            os.kill(begun.pid, signal.SIGCONT)
    insert(rig, 2000)
    rig.await_current()
    assert rig.differences() == {} and rig.checkpoint.epoch == epoch + 1


@pytest.mark.long
def test_a_query_whose_session_ends_is_found_to_be_lost_and_its_lease_is_free(query: Query) -> None:
    insert(query.rig, 1)
    query.rig.await_current()
    watch = QueryWatch("DEMO_", "dr1", query.record)
    assert watch.runs(lambda *_: None)
    apply_query.stop(query.endpoint, query.record)
    said: list[str] = []
    until(lambda: not watch.runs(lambda text, *values: said.append(text % values)))
    assert "Spark" in said[0] and query.state.holder is None


@pytest.mark.long
def test_the_page_of_streaming_queries_names_the_pair_and_nothing_shows_a_password(
    query: Query, spark: SparkServer, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """With `--pictures docs/img` its picture replaces the existing one."""
    ensure_chromium()
    insert(query.rig, 1)
    query.rig.await_current()
    read = dict(pages(spark.ui_url))
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=options)
        page = browser.new_page(viewport={"width": 1280, "height": 420})
        page.goto(f"{spark.ui_url}/StreamingQuery/")
        assert "sluice DEMO_ -> dr1: apply" in page.locator("body").inner_text()
        page.screenshot(path=Path(pytestconfig.option.pictures or tmp_path) / "spark-apply.png")
        browser.close()
    with urllib.request.urlopen(f"{spark.ui_url}/StreamingQuery/", timeout=60) as answer:
        read["/StreamingQuery/"] = answer.read().decode(errors="replace")
    assert "sluice DEMO_ -&gt; dr1: apply" in read["/StreamingQuery/"]
    for file in [*spark.directory.rglob("events_*"), spark.directory / "log"]:
        read[str(file)] = file.read_text(errors="replace")
    for process in spark.family():
        for name in ("cmdline", "environ"):
            with suppress(FileNotFoundError, ProcessLookupError):
                read[f"{name} of {process.pid}"] = Path(f"/proc/{process.pid}/{name}").read_text(errors="replace")
    read["the log in Redis"] = "\n".join(query.redis.last_lines(1000))
    pair = query.rig.pair
    secrets = {pair.master_info.password, pair.slave_info.password, spark.token} | passwords(query.rig.redis_url)
    for secret in secrets - {""}:
        assert [place for place, text in read.items() if secret in text] == []


@pytest.mark.long
def test_executors_that_do_not_reach_something_say_what_and_why(query: Query) -> None:
    pair = query.rig.pair
    reached = ReachTask([("master", pair.master_info)], query.rig.redis_url, query.endpoint)
    assert unreached("sluice test", reached) == []
    nowhere = replace(pair.slave_info, port=1)
    missed = unreached("sluice test", ReachTask([("slave dr1", nowhere)], "redis://127.0.0.1:1/0", query.endpoint))
    assert [one.side for one in missed] == ["Redis", "slave dr1"]


@pytest.mark.long
def test_executors_that_have_nothing_of_sluice_apply_and_stage(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions with their own files: executors get the library with the query, and a large window from the query's
    own client."""
    with ExitStack() as stack:
        url = stack.enter_context(like_a_cluster()).url
        pair = rig(TABLES, stage=500)
        monkeypatch.setenv("SLUICE_REDIS_URL", pair.redis_url)
        monkeypatch.setattr(apply_query, "EXECUTOR_SECONDS", 400.0)  # their first start, on a busy machine
        query = Query(pair, Endpoint(url))
        query.start()
        stack.callback(query.stop)
        insert(pair, 1)
        pair.await_current(300)

        def staged() -> bool:
            first = pair.master.execute("SELECT count(*) FROM public.orders").fetchone()
            assert first is not None
            insert(pair, first[0] + 1, 2000)
            pair.await_current(300)
            return any(" of Spark in " in line for line in query.redis.last_lines(5000))

        until(staged, 300)
        assert pair.differences() == {}
