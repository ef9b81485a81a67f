"""A feed of a MariaDB master, as a stream of Spark."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from devstack.spark import SparkServer
from sluice.feed.change_read import ChangeRead, begun, schema_of
from sluice.feed.master import Master as FeedMaster
from spark_jobs.sources import register
from tests.scenarios.binlog.beside import Beside, writing
from tests.scenarios.binlog.test_feed import T, folded, rig, rows_as_of, slowly
from tests.scenarios.feeds.reading import session_of

__all__ = ["rig"]
pytestmark = pytest.mark.long


def test_a_stream_of_spark_has_each_change_once_and_goes_on_where_it_ended(
    rig: Beside, spark: SparkServer, tmp_path: Path
) -> None:
    feed = FeedMaster.of(rig.pair.replication, rig.master.info)
    lake, checkpoint = str(tmp_path / "lake"), str(tmp_path / "checkpoint")

    def run(session: SparkSession) -> None:
        register(session, "REC_", {"m": rig.master.info})
        stream = session.readStream.format("sluice.changes").option("table", "public.t").option("feed", "lake")
        writer = stream.option("texts", "*").load().writeStream.format("parquet")
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(lake).awaitTermination()

    with rig.recording(), feed.session() as opened, session_of(spark.server) as session:
        first = rows_as_of(feed, opened, T, begun(feed, opened, "lake", str(T)))
        for _ in range(2):
            run(session)
            with writing(rig.master, slowly, 1):
                run(session)
        run(session)
        rows = session.read.format("sluice").option("table", "public.t").option("texts", "*").load()
        now = sorted((tuple(row) for row in rows.collect()), key=repr)
        changes = session.read.parquet(lake).orderBy("repl_key").toArrow()
        read = ChangeRead(feed, schema_of(feed, opened, T, ("*",)))
        assert changes.num_rows > 0 and folded(first, read, changes) == now
