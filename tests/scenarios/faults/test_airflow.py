"""The same traffic and the same verdict where Airflow keeps the apply: its components, its task, the job and the
servers are killed, and all of Airflow is frozen.

Everything is as in production here: the DAG `cdc_apply`, the query on a real Spark, the supervisor.
"""

import contextlib
import os
import re
import shutil
import signal
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from random import Random

import psutil
import pytest

from devstack.account import new_folder
from devstack.demo.strikes import process_of
from devstack.process import ProcessId, await_true, descendants
from devstack.stack import Stack
from sluice import config
from sluice.airflow import applies
from sluice.airflow.applies import QueryJob
from sluice.airflow.job import JobState
from sluice.cli.airflow_api import AirflowApi
from sluice.pair import Pair
from spark_jobs import apply_query
from spark_jobs.apply_query import SparkAway
from spark_jobs.endpoint import Endpoint
from spark_jobs.server import FEWEST_SLOTS, SLOTS_A_CORE
from tests.rig.rig import Rig
from tests.scenarios.faults import audit, verdict
from tests.scenarios.faults.audit import Point
from tests.scenarios.faults.reader import PostgresReader
from tests.scenarios.faults.writer import HistoryWriter
from workload import tables
from workload.faults.freezer import Freezer
from workload.faults.proxy import Proxy
from workload.writer import BULK, SHORT, SLOW, TABLE_DDL

SEED = 1
OF_A_TASK = re.compile(r"airflow worker -- [0-9a-f-]{36}")
"""How the process of a task is called; those that wait for one bear the executor's name."""
SLOT = "audit"
SLOTS_SECONDS = 300
"""How long the work of others would take."""
SERVICES = ("airflow-scheduler", "airflow-triggerer", "airflow-dag-processor", "master", "slave-dr1", "redis", "spark")
DRIVER, FROZEN, SESSION = "the worker of the apply", "the worker of the apply, frozen", "the session of the apply"
SLOTS, NETWORK = "no free slot in Spark", "no way to Spark's endpoint"
FROZEN_AIRFLOW, KILLED_AIRFLOW = "all of Airflow, frozen", "all of Airflow, killed"
TASK = "the task of the apply"
STRIKES = {
    "Airflow": (*SERVICES[:3], TASK, *(FROZEN_AIRFLOW, KILLED_AIRFLOW) * 2),
    "servers": (*SERVICES[3:], *(SESSION, "spark") * 2),
    "Spark": (DRIVER, FROZEN, SLOTS, NETWORK) * 2,
}
"""What strikes in each test; what strikes the apply itself, twice."""
AIRFLOW = tuple(service for service in SERVICES if service.startswith("airflow-"))
CONFIG = """
prefix: DEMO_
master: {conn_id: demo_master, schema: public}
slaves:
  dr1: {conn_id: demo_dr1, schema: public}
tables:
  public.*: {}
apply: {lease: 2.0, checkpoint_interval: 1.0, stage_above: 1000}
"""


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """The servers and Airflow with its own configuration; the slave's log can be decoded."""
    # Not under pytest's own folder: that is closed to the account that runs PostgreSQL.
    folder = new_folder("sluice-test-airflow-faults-")
    replications = folder / "replications"
    replications.mkdir()
    (replications / "DEMO.yaml").write_text(CONFIG)
    monkeypatch.setenv("SLUICE_HOME", str(folder / "home"))
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(replications))
    made = Stack(folder / "home", replications=replications)
    try:
        made.up()
        monkeypatch.setenv("SLUICE_REDIS_URL", made.redis_url)
        with made.slaves["dr1"].connect() as admin:
            admin.execute("ALTER SYSTEM SET wal_level = logical")
        made.await_running("slave-dr1", after=made.kill("slave-dr1"))
        yield made
    finally:
        made.down()
        shutil.rmtree(folder)


@pytest.fixture
def rig(stack: Stack) -> Rig:
    infos = {f"demo_{place}": stack.connection(place) for place in ("master", "dr1")}
    made = Rig.between(Pair.of(config.load("DEMO_"), "dr1", infos), stack.redis_url)
    made.begin(tables.LOG + tables.DDL)
    return made


@pytest.mark.long
@pytest.mark.parametrize("struck", STRIKES)
def test_each_change_arrives_exactly_once_whatever_is_struck(stack: Stack, rig: Rig, struck: str) -> None:
    with stack.slaves["dr1"].connect(rig.pair.slave_info.database) as admin:
        audit.begin(admin, SLOT)
    checkpoint = rig.checkpoint
    assert checkpoint.position is not None
    start = Point(checkpoint.epoch, checkpoint.position, None, None)
    api = stack.airflow.api()
    api.await_dags(["cdc_apply"])
    run = api.trigger("cdc_apply", {"prefix": "DEMO_", "slave": "dr1"})
    cast = (SHORT, SHORT, SLOW, BULK, TABLE_DDL)
    info = rig.pair.master_info
    writers = [HistoryWriter(info, number, each, SEED, lazy=True) for number, each in enumerate(cast, 1)]
    reader = PostgresReader(rig.pair.slave_info)
    threads: list[HistoryWriter | PostgresReader] = [*writers, reader]
    for thread in threads:
        thread.start()
    try:
        strike_all(stack, STRIKES[struck], lambda: reader.looks[-1].position if reader.looks else None)
    except BaseException:
        print(what_the_run_says(api, run))
        raise
    finally:
        for writer in writers:
            writer.stop()
    for writer in writers:
        writer.join(30)
    rig = Rig.between(rig.pair, rig.redis_url)
    rig.await_current()
    reader.stop()
    reader.join(10)
    # Only a triggerer that watches the job can tell it to end, and the one that did was killed.
    now = datetime.now(UTC)
    assert await_true(lambda: watched_since(api, run, now), 300), "no triggerer took the job over"
    api.call("PATCH", f"dags/cdc_apply/dagRuns/{run}", {"state": "failed"})
    job = applies.live("DEMO_", "dr1")
    assert job is None or await_true(lambda: job.state() is JobState.ENDED, 300)

    assert [thread.failure for thread in threads if thread.failure] == []
    lines = rig.master.execute("SELECT writer, n, xid FROM public.log ORDER BY 1, 2").fetchall()
    history = verdict.of_history(lines)
    assert verdict.of_acknowledged({writer.number: writer.acknowledged for writer in writers}, history) == []
    assert verdict.of_looks(reader.looks, history) == []
    with stack.slaves["dr1"].connect(rig.pair.slave_info.database) as admin:
        commits = list(audit.commits(admin, SLOT))
        audit.end(admin, SLOT)
    assert verdict.of_order(reader.looks, {writer.number: writer.spans for writer in writers}) == []
    assert verdict.of_commits(commits, start, history) == []
    assert rig.differences() == {}
    assert len(lines) > 100 and len(commits) > 10 and reader.looks
    rig.close()


@pytest.mark.long
def test_an_apply_outlives_the_loss_of_airflows_metadata_and_is_adopted(stack: Stack, rig: Rig) -> None:
    api = stack.airflow.api()
    api.await_dags(["cdc_apply", "housekeeping"])
    api.trigger("cdc_apply", {"prefix": "DEMO_", "slave": "dr1"})
    writer = HistoryWriter(rig.pair.master_info, 1, SHORT, SEED, lazy=True)
    reader = PostgresReader(rig.pair.slave_info)
    for thread in (writer, reader):
        thread.start()
    try:
        await_arrival(lambda: reader.looks[-1].position if reader.looks else None, "metadata is lost")
        await_query()
        before = applies.live("DEMO_", "dr1")
        lose_metadata(stack)
        await_arrival(lambda: reader.looks[-1].position, "Airflow knows the apply again")
        api.await_dags(["cdc_apply", "housekeeping"])
        assert runs(api) == []
        api.trigger("housekeeping", {})
        assert isinstance(before, QueryJob)
        assert await_true(lambda: bool(query_of_another_run(before)), 300), "no run of cdc_apply adopts the apply"
        assert query_of_another_run(before) == before.record.query, "the query was started again"
        assert runs(api) == ["running"]
    finally:
        writer.stop()
    writer.join(30)
    rig = Rig.between(rig.pair, rig.redis_url)
    rig.await_current()
    reader.stop()
    reader.join(10)
    assert [thread.failure for thread in (writer, reader) if thread.failure] == []
    assert rig.differences() == {}
    rig.close()


def lose_metadata(stack: Stack) -> None:
    """Airflow ends, with its database, and begins with an empty one."""
    mains = {service: stack.await_running(service).process for service in AIRFLOW}
    with stack.services.metadata.connect() as admin:
        admin.execute("DROP DATABASE airflow WITH (FORCE)")
    (stack.services.metadata.directory / "airflow-version").unlink()
    stack.services.airflow.migrate()
    for process in components(stack, *AIRFLOW):
        process.send(signal.SIGKILL)
    for service, process in mains.items():
        stack.await_running(service, 180, after=process)
    stack.services.register_connections()


def query_of_another_run(before: QueryJob) -> str:
    """Spark's id of the query that applies now; empty while the run of before watches it."""
    now = applies.live("DEMO_", "dr1")
    return now.record.query if isinstance(now, QueryJob) and now.owner.run_id != before.owner.run_id else ""


def runs(api: AirflowApi) -> list[str]:
    """The states of all runs of `cdc_apply`."""
    return [run["state"] for run in api.get("dags/cdc_apply/dagRuns")["dag_runs"]]


def what_the_run_says(api: AirflowApi, run: str) -> str:
    """The states of the run and its task, and the end of the task's log."""
    ((task, _, state),) = api.task_states("cdc_apply", run)
    path = f"dags/cdc_apply/dagRuns/{urllib.parse.quote(run, safe='')}/taskInstances/{task}"
    log = api.task_log("cdc_apply", run, task, api.get(path)["try_number"])
    return f"{run}: {api.run_state('cdc_apply', run)}, {task}: {state}\n" + "\n".join(log.splitlines()[-100:])


def watched_since(api: AirflowApi, run: str, moment: datetime) -> bool:
    """Whether a triggerer that started before that time still watches the task of a run."""
    path = f"dags/cdc_apply/dagRuns/{urllib.parse.quote(run, safe='')}/taskInstances"
    for entry in api.get(path)["task_instances"]:
        triggerer = entry["triggerer_job"]
        if entry["state"] == "deferred" and triggerer and triggerer["latest_heartbeat"]:
            return datetime.fromisoformat(triggerer["latest_heartbeat"]) > moment
    return False


def strike_all(stack: Stack, strikes: Iterable[str], applied: Callable[[], object]) -> None:
    """Strikes in an order of the seed; waits for new changes after each."""
    chance, strikes = Random(SEED), list(strikes)
    chance.shuffle(strikes)
    way = Proxy(stack.services.spark.port)
    point_to(stack, way.port)
    for strike in strikes:
        await_arrival(applied, strike)
        print(f"{datetime.now(UTC):%H:%M:%S} {strike}")
        time.sleep(chance.uniform(0.0, 1.0))
        if strike in SERVICES:
            killed = stack.kill(strike)
            stack.await_running(strike, 180, after=killed)
        elif strike == TASK:
            kill_task(stack)
        elif strike == FROZEN_AIRFLOW:
            freeze_airflow(stack, applied)
        elif strike == KILLED_AIRFLOW:
            kill_airflow(stack, applied)
        elif strike == SLOTS:
            take_all_slots(stack, applied)
        elif strike == NETWORK:
            cut_off(way, applied)
        elif strike == FROZEN:
            freeze_worker(stack, applied)
        elif strike == SESSION:
            end_session(stack)
        else:
            worker().send(signal.SIGKILL)
    await_arrival(applied, "the last strike")
    point_to(stack, stack.services.spark.port)
    way.close()


def await_arrival(applied: Callable[[], object], before: str) -> None:
    last = applied()
    assert await_true(lambda: applied() != last, 600, 0.05), f"nothing arrives any more before {before}"


def kill_task(stack: Stack) -> None:
    """SIGKILL to the process of the task, which lives only while it starts a query: so the query is ended first."""
    end_session(stack)
    found: list[ProcessId] = []

    def there() -> bool:
        for process in components(stack, "airflow-scheduler"):
            with contextlib.suppress(psutil.Error):
                if OF_A_TASK.match(" ".join(psutil.Process(process.pid).cmdline())):
                    found.append(process)
        return bool(found)

    assert await_true(there, 180, 0.01), "no process of a task to kill"
    found[0].send(signal.SIGKILL)
    assert await_true(lambda: not found[0].alive(), 10)


def components(stack: Stack, *services: str) -> list[ProcessId]:
    """All processes of some services."""
    mains = [stack.await_running(service).process for service in services]
    return [each for main in mains if main for each in descendants(main.pid)]


def freeze_airflow(stack: Stack, applied: Callable[[], object]) -> None:
    """SIGSTOP to all its components; changes arrive nevertheless, because the job needs none of them."""
    freezer = Freezer()
    assert freezer.freeze("Airflow", components(stack, *AIRFLOW))
    try:
        await_arrival(applied, "Airflow continues")
    finally:
        freezer.thaw_all()


def kill_airflow(stack: Stack, applied: Callable[[], object]) -> None:
    """SIGKILL to all its components at once; changes arrive before any of them is back."""
    mains = {service: stack.await_running(service).process for service in AIRFLOW}
    for process in components(stack, *AIRFLOW):
        process.send(signal.SIGKILL)
    await_arrival(applied, "Airflow is back")
    for service, process in mains.items():
        stack.await_running(service, 180, after=process)


def take_all_slots(stack: Stack, applied: Callable[[], object]) -> None:
    """Work of others takes every slot, then the apply ends: it continues as a process, and returns to Spark."""
    from pyspark.sql.connect.session import SparkSession

    await_query()  # it gets no slot any more
    other = SparkSession.builder.remote(stack.services.spark.server.url).create()
    slots = max(FEWEST_SLOTS, SLOTS_A_CORE * len(os.sched_getaffinity(0)))
    sleep = f"java_method('java.lang.Thread', 'sleep', {1000 * SLOTS_SECONDS}L)"
    threading.Thread(target=quietly(other.range(0, slots, 1, slots).selectExpr(sleep).collect), daemon=True).start()
    try:
        end_session(stack)
        await_arrival(applied, "a slot is free")
    finally:
        quietly(other.interruptAll)()
        quietly(other.stop)()


def cut_off(way: Proxy, applied: Callable[[], object]) -> None:
    """The endpoint cannot be reached for a while: the query continues."""
    await_query()
    way.stall()
    way.cut()
    try:
        await_arrival(applied, "there is a way to Spark")
    finally:
        way.heal()


def point_to(stack: Stack, port: int) -> None:
    """Lets Airflow reach Spark's endpoint at that port."""
    entry = {"connection_id": "spark_default", "conn_type": "spark_connect", "port": port}
    stack.airflow.api().call("PATCH", "connections/spark_default?update_mask=port", entry)


def quietly(call: Callable[[], object]) -> Callable[[], None]:
    """The call without its error."""

    def called() -> None:
        with contextlib.suppress(Exception):
            call()

    return called


def freeze_worker(stack: Stack, applied: Callable[[], object]) -> None:
    """SIGSTOP to the process of the apply: another one takes over, and fences it when it wakes."""
    freezer = Freezer()
    assert freezer.freeze("the worker", [worker()])
    try:
        await_arrival(applied, "another one takes over")
    finally:
        freezer.thaw_all()


def await_query() -> None:
    """Returns when the apply is a query of Spark: after a strike it may be a process for a while."""

    def there() -> bool:
        job = applies.live("DEMO_", "dr1")
        return isinstance(job, QueryJob) and job.record.query != "" and job.noted.state().begun is not None

    assert await_true(there, 300), "the apply does not go back to Spark"


def end_session(stack: Stack) -> None:
    """Ends the session of Spark that holds the apply, as its time-out would."""

    def ended() -> bool:
        job = applies.live("DEMO_", "dr1")
        if not isinstance(job, QueryJob) or not job.record.query:
            return False
        try:
            apply_query.stop(Endpoint(stack.services.spark.server.url), job.record)
        except SparkAway:  # it was struck before
            return False
        return True

    assert await_true(ended, 300), "no query to end"


def worker() -> ProcessId:
    """The Python worker of Spark in which the apply runs."""
    await_query()
    job = applies.live("DEMO_", "dr1")
    found = process_of(job) if job is not None else None
    assert found, "no apply to strike"
    return found
