"""A master that Spark's users read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from devstack.spark import SparkServer
from tests.rig.rig import Database, Rig
from tests.scenarios.feeds.reading import session_of

MakeRig = Callable[[str], Rig]


@pytest.fixture
def master(database: Database, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeRig]:
    """`master(ddl)`: a replication DEMO_ with these tables and the feed lake."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path / "replications"))
    made: list[Rig] = []

    def make(tables: str) -> Rig:
        rig = Rig.empty(database, redis_url, tmp_path / "replications")
        file = tmp_path / "replications" / "DEMO.yaml"
        file.write_text(file.read_text() + "feeds: lake\n")
        rig = rig.with_options(feeds=("lake",))
        rig.master.execute(tables.encode())
        rig.capture()
        made.append(rig)
        return rig

    yield make
    for rig in made:
        rig.master.close()
        rig.slave.close()


@pytest.fixture
def session(spark: SparkServer) -> Iterator[SparkSession]:
    with session_of(spark.server) as session:
        yield session
