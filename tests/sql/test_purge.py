"""Positions of PostgreSQL bracket their snapshot; a purge needs positions. Tests of every vendor: tests/vendors."""

import shutil
from collections.abc import Callable

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.capture import resources
from sluice.model import items_limit
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source import queue
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.sql.master import Master

pytestmark = pytest.mark.releases


@pytest.fixture
def orders(master: Master) -> Master:
    master.sql("CREATE TABLE orders (id int PRIMARY KEY)")
    master.register("orders")
    return master


PREFIX = Prefix("DEMO_")


def now(master: Master) -> SnapshotPosition:
    with connect(master.info, application="test", autocommit=True) as connection:
        return PostgresQueue(connection, master.prefix, master.schema).take()


def test_a_purge_without_positions_is_refused(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1)")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        orders.sql("SELECT demo_purge('{}', 0, 1000, 10)")
    assert [item.guid for item in orders.items()] == ["1"]


def test_the_last_lines_of_debug_table_stay(orders: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "DEBUG_LINES", 3)
    for lines in (2, 9):
        orders.sql(f"SELECT demo_debug('line ' || g) FROM generate_series(1, {lines}) g")
        with connect(orders.info, application="test", autocommit=True) as connection:
            PostgresQueue(connection, orders.prefix, orders.schema).purge([now(orders)])
        left = [line for (line,) in orders.rows("SELECT line FROM demo_debug_table ORDER BY repl_key")]
        assert left == (["line 1", "line 2"] if lines == 2 else ["line 7", "line 8", "line 9"])


def test_position_brackets_the_snapshot(orders: Master) -> None:
    before = now(orders)
    orders.sql("INSERT INTO orders VALUES (1)")
    after = now(orders)
    (item,) = orders.items()
    assert before.low < item.repl_key <= after.high
    assert not before.covers(int(item.trans_key))
    assert after.covers(int(item.trans_key))


def test_the_first_position_lies_below_the_first_key(database) -> None:  # type: ignore[no-untyped-def]
    master = Master(database())
    master.install()
    first = now(master)
    assert first.high < master.value("SELECT demo_increment()")


def test_free_space_is_told_to_those_who_may_run_programs_and_the_database_bounds_the_rest(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    for info, readable in ((database(), True), (database(role=True), False)):
        with connect(info, application="test", autocommit=True) as master:
            resources.install(master, PREFIX, "sluice")
            room = PostgresQueue(master, PREFIX, "sluice").room()
        free = shutil.disk_usage(postgres.data).free
        assert 0 < room.items < room.database
        assert (room.free is not None) == readable
        assert room.free is None or 0.5 * free < room.free < 2 * free + 1e9
        limit, why = items_limit.default(room)
        assert limit.bytes is not None and limit.bytes >= 1 and why


def test_records_of_former_sessions_are_deleted_when_they_are_old_and_many(orders: Master) -> None:
    orders.sql(
        "INSERT INTO demo_info SELECT 'run ' || g, concat_ws(' ', g, 700, 16400, CASE WHEN g % 2 = 0 THEN 1000"
        " ELSE extract(epoch FROM now())::bigint - 86400 END, 'test') FROM generate_series(1, 1200) g",
        "INSERT INTO demo_info VALUES ('run other', '1 700 16400 1000 another reader')",
    )
    with connect(orders.info, application="test", autocommit=True) as connection:
        seen = PostgresQueue(connection, orders.prefix, orders.schema).take()
        PostgresQueue(connection, orders.prefix, orders.schema).secure(seen)
        PostgresQueue(connection, orders.prefix, orders.schema).expect_continued([seen])
    assert orders.value("SELECT count(*) FROM demo_info WHERE starts_with(name, 'run ')") == 602
    assert orders.value("SELECT count(*) FROM demo_info WHERE name = 'run other'") == 1
