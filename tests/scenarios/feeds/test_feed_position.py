"""A feed's place on the master: it holds the purge, shows its lag, and is dropped; without a server of Spark."""

import pyarrow as pa
import pytest

from sluice.cli import status
from sluice.database import positions
from sluice.feed.change_read import begun, spans
from sluice.feed.master import Master, NotAFeed
from sluice.feed.table_rows import ChangesPurged, plan
from sluice.model.feed import FeedPosition
from sluice.model.names import TableName
from sluice.vendors.postgres.source import change_source
from tests.direct_work import housekeeping, purge
from tests.rig.rig import Rig
from tests.scenarios.feeds.conftest import MakeRig

ORDERS = "CREATE TABLE public.orders (id int PRIMARY KEY)"


def insert(rig: Rig, first: int, last: int) -> None:
    rig.master.execute(f"INSERT INTO public.orders SELECT generate_series({first}, {last})".encode())


def purged(rig: Rig) -> int:
    return purge(housekeeping(rig.replication, {"m": rig.master_info, "s": rig.slave_info}, rig.redis_url))


def lines(rig: Rig) -> list[str]:
    """What `./sluice status` says of feeds."""
    found = change_source.feeds(rig.master, rig.pair.prefix, "public")
    return [line.strip() for line in status.feeds(rig.replication, found, rig.master_info)]


def test_a_feed_holds_the_purge_shows_its_lag_and_is_dropped(master: MakeRig) -> None:
    rig = master(ORDERS)
    lake = Master.of(rig.replication, rig.master_info)
    insert(rig, 1, 5)
    assert lines(rig) == ["feed lake: not read yet"]
    assert purged(rig) >= 5
    first = begun(lake, rig.master, "lake", "public.orders")
    assert begun(lake, rig.master, "lake", "public.orders") == first
    assert lines(rig) == ["feed lake, public.orders: has all changes"]
    insert(rig, 6, 10)
    assert purged(rig) == 0
    assert lines(rig)[0].startswith("feed lake, public.orders: 5 changes behind, current as of ")
    change_source.note_feed(rig.master, lake.prefix, "public", FeedPosition("lake", "public.orders", rig.now()))
    insert(rig, 11, 11)
    assert purged(rig) == 5
    with pytest.raises(ChangesPurged, match="changes since that position were purged"):
        read_rows(rig, lake, first.text())
    rig = rig.with_options(feeds=())
    assert lines(rig) == ["feed lake, public.orders: not configured any more; the next purge drops it"]
    assert purged(rig) == 1
    assert lines(rig) == []


def read_rows(rig: Rig, lake: Master, position: str) -> None:
    """Reads the table as of a position."""
    read = plan(lake, rig.master, TableName("public", "orders"), positions.parse(position), 100)
    list(read.read(0, pa.schema([("id", pa.int32())])))


def test_only_feeds_of_the_configuration_are_feeds(master: MakeRig) -> None:
    rig = master(ORDERS)
    with pytest.raises(NotAFeed, match="has no feed 'pond'; it has lake"):
        Master.of(rig.replication, rig.master_info).check_feed("pond")


def test_a_window_is_divided_by_keys_and_an_empty_one_is_nothing(master: MakeRig) -> None:
    rig = master(ORDERS)
    before = rig.now()
    insert(rig, 1, 95)
    after = rig.now()
    found = spans(before, after, keys=10)
    assert len(found) >= 10
    assert [span.above for span in found[1:]] == [span.up_to for span in found[:-1]]
    assert spans(after, after) == []
