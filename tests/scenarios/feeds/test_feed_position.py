"""A feed's place on the master: it holds the purge, shows its lag, and is dropped; without a server of Spark."""

import pyarrow as pa

from sluice.cli import status
from sluice.database import registry
from sluice.feed.change_read import begun, spans
from sluice.feed.master import Master
from sluice.feed.table_rows import plan
from sluice.model.feed import FeedPosition
from sluice.model.names import TableName
from sluice.model.row_condition import Operator, RowCondition
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.direct_work import housekeeping, purge
from tests.errors import raises_code
from tests.rig.rig import Rig
from tests.scenarios.feeds.conftest import MakeRig

ORDERS = "CREATE TABLE public.orders (id int PRIMARY KEY)"


def insert(rig: Rig, first: int, last: int) -> None:
    rig.master.execute(f"INSERT INTO public.orders SELECT generate_series({first}, {last})".encode())


def purged(rig: Rig) -> int:
    return purge(housekeeping(rig.replication, {"m": rig.master_info, "s": rig.slave_info}, rig.redis_url))


def lines(rig: Rig) -> list[str]:
    """The lines of `./sluice status` about feeds."""
    found = PostgresQueue(rig.master, rig.pair.prefix, "public").feeds()
    return [line.strip() for line in status.feeds(rig.replication, found, rig.master_info)]


def read_ids(rig: Rig, table: str, position: str, *conditions: RowCondition) -> list[int]:
    """The ids of a table's rows as of a position."""
    lake = Master.of(rig.replication, rig.master_info)
    read = plan(lake, rig.master, TableName("public", table), registry.parse_position(position), 100)
    wanted = pa.schema([("id", pa.int32())])
    return [row["id"] for batch in read.read(0, wanted, conditions) for row in batch.to_pylist()]


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
    PostgresQueue(rig.master, lake.prefix, "public").note_feed(FeedPosition("lake", "public.orders", rig.now()))
    insert(rig, 11, 11)
    assert purged(rig) == 5
    with raises_code("feed-changes-purged", match="changes since that position were purged"):
        read_ids(rig, "orders", first.text())
    rig = rig.with_options(feeds=())
    assert lines(rig) == ["feed lake, public.orders: not configured any more; the next purge drops it"]
    assert purged(rig) == 1
    assert lines(rig) == []


def test_conditions_leave_out_no_row_that_meets_them(master: MakeRig) -> None:
    """Also if the value of the condition has more digits than the column's type."""
    rig = master(
        "CREATE DOMAIN public.small AS int CHECK (VALUE < 10);"
        "CREATE TABLE public.visits (id int PRIMARY KEY, at timestamp(0), n numeric(6,1), s public.small);"
        "INSERT INTO public.visits VALUES (1, '2024-01-01 12:00:01', 1.1, 9), (2, '2023-01-01', 0, NULL)"
    )
    for condition, found in (
        (RowCondition("at", Operator.GREATER, ("2024-01-01 12:00:00.6",)), [1]),
        (RowCondition("n", Operator.GREATER, ("1.06",)), [1]),
        (RowCondition("n", Operator.EQUAL, ("1.14",)), []),
        (RowCondition("n", Operator.EQUAL, ("1.1", "7")), [1]),
        (RowCondition("s", Operator.LESS, ("20",)), [1, 2]),
        (RowCondition("s", Operator.IS_NULL), [2]),
    ):
        assert read_ids(rig, "visits", rig.now().text(), condition) == found, condition


def test_only_feeds_of_the_configuration_are_feeds(master: MakeRig) -> None:
    rig = master(ORDERS)
    with raises_code("unknown-feed", match="has no feed 'pond'; it has lake"):
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
