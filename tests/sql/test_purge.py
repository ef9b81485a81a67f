"""ITEMS loses what every slave has, and nothing else."""

import psycopg
import pytest
from master import Master

from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source import position
from sluice.vendors.postgres.source.purge import purge

pytestmark = pytest.mark.releases


@pytest.fixture
def orders(master: Master) -> Master:
    master.sql("CREATE TABLE orders (id int PRIMARY KEY)")
    master.register("orders")
    return master


def now(master: Master) -> SnapshotPosition:
    with connect(master.info, application="test", autocommit=True) as connection:
        return position.take(connection, master.prefix, master.schema)


def run(master: Master, *positions: SnapshotPosition, batch: int = 7) -> int:
    with connect(master.info, application="test") as connection:
        return purge(connection, master.prefix, master.schema, positions, batch=batch)


def guids(master: Master) -> list[str | None]:
    return [item.guid for item in master.items()]


def test_what_the_slowest_slave_lacks_stays(orders: Master) -> None:
    orders.sql("INSERT INTO orders SELECT generate_series(1, 50)")
    slow = now(orders)
    orders.sql("INSERT INTO orders SELECT generate_series(51, 100)")
    fast = now(orders)
    orders.sql("INSERT INTO orders VALUES (101)")
    assert run(orders, fast, slow) == 52  # with the CREATE items
    assert guids(orders) == [str(number) for number in range(51, 102)]
    assert run(orders, fast) == 50
    assert run(orders, fast) == 0
    assert guids(orders) == ["101"]


def test_a_late_commit_with_a_low_key_stays(orders: Master) -> None:
    late = orders.session(autocommit=False)
    late.execute("INSERT INTO orders VALUES (1)")
    orders.sql("INSERT INTO orders SELECT generate_series(2, 30)")
    taken = now(orders)
    late.commit()
    run(orders, taken)
    assert guids(orders) == ["1"]
    run(orders, now(orders))
    assert guids(orders) == []


def test_without_any_position_nothing_may_go(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1)")
    with pytest.raises(ValueError, match="every slave"):
        run(orders)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        orders.sql("SELECT demo_purge('{}', 0, 1000, 10)")
    assert guids(orders) == ["1"]


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
    assert (first.low, first.high) == (0, 0)
    assert master.value("SELECT demo_increment()") == 1
