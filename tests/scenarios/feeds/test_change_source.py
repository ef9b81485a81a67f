"""Changes as a Spark user reads them: between two positions, and as a stream."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from devstack.account import new_folder
from sluice.feed.change_read import begun
from sluice.feed.master import Master
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.rig.endpoints import like_a_cluster
from tests.rig.rig import Rig
from tests.scenarios.feeds.accounts import ACCOUNTS, folded, rows_of, run_to_end, transfer
from tests.scenarios.feeds.conftest import MakeRig
from tests.scenarios.feeds.reading import registered, session_of


def feed_is_at(rig: Rig) -> str:
    found = PostgresQueue(rig.master, rig.pair.prefix, "public").feeds()
    assert [(each.feed, each.table) for each in found] == [("lake", "public.accounts")]
    return found[0].position.text()


@pytest.fixture(params=["with the library", "without it"])
def session(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session on a server of this machine, and on one that has the library from its sessions alone."""
    with ExitStack() as stack:
        without = request.param == "without it"
        server = stack.enter_context(like_a_cluster()) if without else request.getfixturevalue("spark").server
        yield stack.enter_context(session_of(server))


@pytest.mark.long
def test_a_stream_into_parquet_is_the_master_whenever_it_ends_and_goes_on_where_it_ended(
    master: MakeRig, session: SparkSession
) -> None:
    rig = master(ACCOUNTS)
    registered(session, rig)
    folder = new_folder("sluice-test-lake-")
    first = begun(Master.of(rig.replication, rig.master_info), rig.master, "lake", "public.accounts")
    rig.master.execute("INSERT INTO public.accounts VALUES (1, 100, NULL), (2, 100, '')")
    for number in range(1, 7):
        transfer(rig, number)
    run_to_end(session, folder)
    rows, changes = folded(session, folder)
    assert rows == rows_of(rig)
    for number in range(7, 10):
        transfer(rig, number)
    run_to_end(session, folder)
    again, more = folded(session, folder)
    assert again == rows_of(rig)
    assert more == changes + 3 * 3 + 1
    assert feed_is_at(rig) != first.text()
    batch = session.read.format("sluice.changes").options(table="public.accounts").option("from", first.text()).load()
    assert batch.count() == more
