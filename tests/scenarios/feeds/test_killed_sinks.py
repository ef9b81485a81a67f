"""A stream of changes whose server of Spark is killed again and again."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from devstack.account import new_folder
from devstack.spark import SparkServer
from sluice.feed.change_read import begun
from sluice.feed.master import Master
from tests.rig.rig import Rig
from tests.scenarios.feeds import delta_sink
from tests.scenarios.feeds.accounts import ACCOUNTS, LAKE, folded, rows_of, state_after, transfer
from tests.scenarios.feeds.conftest import MakeRig
from tests.scenarios.feeds.reading import registered, session_of
from tests.waiting import until


@pytest.mark.long
@pytest.mark.parametrize("sink", ["parquet", "delta"])
def test_killed_again_and_again_the_sink_is_a_state_of_the_master_at_each_of_its_commits(
    master: MakeRig, redis_url: str, sink: str
) -> None:
    """Spark's server is killed while the stream runs and the master is written to, three times."""
    rig = master(ACCOUNTS)
    folder, place = new_folder("sluice-test-lake-"), new_folder("sluice-test-spark-")
    begun(Master.of(rig.replication, rig.master_info), rig.master, "lake", "public.accounts")
    rig.master.execute("INSERT INTO public.accounts VALUES (1, 100, NULL), (2, 100, '')")
    if sink == "delta":
        delta_sink.create(folder)
    server, transfers = SparkServer(place), 0
    try:
        for kill in (True, True, True, False):
            server.start()
            with session_of(server.server) as session:
                registered(session, rig)
                query = started(session, folder, sink)
                for _ in range(2):
                    seen = commits(folder, sink)
                    transfers = transferred(rig, transfers, 4)
                    until(lambda seen=seen, query=query: running(query) and commits(folder, sink) > seen)
                transfers = transferred(rig, transfers, 3)
                if kill:
                    server.kill()
                    continue
                query.processAllAvailable()
                query.stop()
                if sink == "parquet":
                    assert folded(session, folder)[0] == rows_of(rig) == state_after(transfers)
    finally:
        server.stop()
        shutil.rmtree(place, ignore_errors=True)
    if sink == "delta":
        last = DeltaTable(str(folder / "delta")).version()
        assert last >= 8
        for version in range(1, last + 1):
            rows = delta_sink.rows(folder, version)
            assert rows == state_after(max(rows) - 1000 if max(rows) > 2 else 0)
        assert delta_sink.rows(folder, last) == rows_of(rig)
    shutil.rmtree(folder)


def started(session: SparkSession, folder: Path, sink: str) -> StreamingQuery:
    changes = session.readStream.format("sluice.changes").options(**LAKE).load()
    writer = changes.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if sink == "delta":
        return writer.foreachBatch(delta_sink.merges_into(str(folder / "delta"))).start()
    return writer.format("parquet").partitionBy("action").start(str(folder / "changes"))


def transferred(rig: Rig, done: int, more: int) -> int:
    for number in range(done + 1, done + more + 1):
        transfer(rig, number)
    return done + more


def commits(folder: Path, sink: str) -> int:
    """The number of the sink's commits."""
    if sink == "delta":
        return DeltaTable(str(folder / "delta")).version()
    return len(list((folder / "changes" / "_spark_metadata").glob("[0-9]*")))


def running(query: StreamingQuery) -> bool:
    """Whether the stream runs; raises its error."""
    if (failure := query.exception()) is not None:
        raise failure
    return True
