"""Executors that are separate processes, of clusters, apply, stage and compare."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from devstack.process import kill_family
from devstack.spark_cluster import SparkCluster
from sluice.model.names import TableName
from sluice.verify.resync import Action
from spark_jobs import apply_query, session
from spark_jobs.comparison import Comparison
from spark_jobs.endpoint import Endpoint
from spark_jobs.session import SparkExecutor
from tests.rig.endpoints import CLUSTER, like_a_cluster
from tests.rig.rig import Rig
from tests.scenarios.detached_apply.test_apply_query import TABLES, Query, insert
from tests.waiting import until

PATIENT_SECONDS = 600.0
"""For the first executors, on a busy machine."""


@contextmanager
def local_cluster(_folder: Path) -> Iterator[Endpoint]:
    with like_a_cluster(master=CLUSTER["master"], conf=CLUSTER["conf"]) as server:
        yield Endpoint(server.url)


@contextmanager
def standalone(folder: Path) -> Iterator[Endpoint]:
    """A master and two workers of one core."""
    with SparkCluster(folder) as cluster, like_a_cluster(master=cluster.url, conf=cluster.conf) as server:
        yield Endpoint(server.url)


def executor_of(pid: int) -> psutil.Process:
    """The JVM below which a Python worker runs."""
    return next(each for each in psutil.Process(pid).parents() if "CoarseGrained" in " ".join(each.cmdline()))


@pytest.fixture
def start(
    rig: Callable[..., Rig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[Path], AbstractContextManager[Endpoint]]], Query]]:
    """Starts a cluster, and the apply of a new rig there."""
    for module, name in ((apply_query, "EXECUTOR_SECONDS"), (session, "LOOK_SECONDS"), (session, "ATTACH_SECONDS")):
        monkeypatch.setattr(module, name, PATIENT_SECONDS)
    with ExitStack() as stack:

        def started(cluster: Callable[[Path], AbstractContextManager[Endpoint]]) -> Query:
            endpoint = stack.enter_context(cluster(tmp_path))
            pair = rig(TABLES, stage=500)
            monkeypatch.setenv("SLUICE_REDIS_URL", pair.redis_url)
            query = Query(pair, endpoint)
            query.start()
            stack.callback(query.stop)
            insert(pair, 1)
            pair.await_current(PATIENT_SECONDS)
            return query

        yield started


@pytest.mark.parametrize("cluster", [local_cluster, pytest.param(standalone, marks=pytest.mark.long)])
def test_an_executor_that_is_killed_is_replaced(
    cluster: Callable[[Path], AbstractContextManager[Endpoint]],
    start: Callable[[Callable[[Path], AbstractContextManager[Endpoint]]], Query],
) -> None:
    query = start(cluster)
    pair, before = query.rig, query.state.begun
    assert before is not None
    kill_family(executor_of(before.pid).pid)
    insert(pair, 1000)
    pair.await_current(PATIENT_SECONDS)
    assert pair.differences() == {}
    assert query.asks() == "active" and query.state.begun != before


@pytest.mark.long
@pytest.mark.parametrize("cluster", [local_cluster, standalone])
def test_executors_of_a_cluster_stage_large_windows_and_compare(
    cluster: Callable[[Path], AbstractContextManager[Endpoint]],
    start: Callable[[Callable[[Path], AbstractContextManager[Endpoint]]], Query],
) -> None:
    query = start(cluster)
    pair, rows = query.rig, 100

    def staged() -> bool:
        nonlocal rows
        insert(pair, rows + 1, 2000)
        rows += 2000
        pair.await_current(PATIENT_SECONDS)
        return any(" of Spark in " in line for line in query.redis.last_lines(5000))

    until(staged, PATIENT_SECONDS)
    executor = SparkExecutor(f"sluice {pair.pair}", query.endpoint)
    try:
        table = TableName("public", "orders")
        comparison = Comparison(pair.pair, pair.redis_url, query.endpoint, table, "IUD", Action.VERIFY, None, 0, "")
        (done,) = executor.map(comparison, 1, "verify public.orders")
    finally:
        executor.stop()
    assert done.report is not None, done.failure
    assert done.report["outcome"] == "identical" and done.report["tables"][0]["rows_slave"] == rows
