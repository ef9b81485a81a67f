"""The purge deletes what every slave has, and nothing else; positions cover what was seen."""

import pytest

from sluice.model.position import Position, Window
from tests.vendors.contender import PREFIX, Contender


@pytest.fixture
def orders(source: Contender) -> Contender:
    source.install()
    source.change(f"CREATE TABLE {source.place('orders')} (id {source.whole_number} PRIMARY KEY)")
    source.capture("orders")
    return source


def insert(source: Contender, first: int, last: int) -> None:
    session = source.session()
    for number in range(first, last + 1):
        session.execute(f"INSERT INTO {source.place('orders')} VALUES ({number})".encode())


def now(source: Contender, previous: Position | None = None) -> Position:
    return source.vendor.queue(source.session(), PREFIX, source.schema).take(previous)


def purge(source: Contender, *positions: Position) -> int:
    session = source.session(autocommit=False)
    return source.vendor.queue(session, PREFIX, source.schema).purge(positions, batch=7)


def rows(source: Contender, after: Position) -> list[str]:
    """The rows inserted since, in the order of the queue."""
    with source.vendor.reader(source.info, PREFIX, source.schema) as reader:
        items = reader.items(Window(after, now(source, after)))
    read = source.vendor.images.row
    inserted = [read(item["content"]) for item in items.to_pylist() if item["action"] == "INSERT"]
    return ["".join(map(str, row.values())) for row in inserted]


def test_changes_that_the_slowest_slave_lacks_stay(orders: Contender) -> None:
    start = now(orders)
    insert(orders, 1, 15)
    slow = now(orders, start)
    insert(orders, 16, 30)
    fast = now(orders, slow)
    insert(orders, 31, 31)
    assert purge(orders, fast, slow) >= 15  # with the items of the definition
    assert rows(orders, slow) == [str(number) for number in range(16, 32)]
    assert purge(orders, fast) == 15
    assert purge(orders, fast) == 0
    assert rows(orders, fast) == ["31"]


def test_a_late_commit_with_a_low_key_stays_and_is_in_the_next_window(orders: Contender) -> None:
    start, late = now(orders), orders.writer()
    late.begin()
    late.do(f"INSERT INTO {orders.place('orders')} VALUES (1)")
    insert(orders, 2, 20)
    taken = now(orders, start)
    late.commit()
    purge(orders, taken)
    assert rows(orders, taken) == ["1"]
    assert purge(orders, now(orders, taken)) == 1


def test_a_purge_without_positions_is_refused(orders: Contender) -> None:
    start = now(orders)
    insert(orders, 1, 1)
    with pytest.raises(ValueError, match="every slave"):
        purge(orders)
    assert rows(orders, start) == ["1"]


def test_a_position_survives_its_text_and_covers_what_came_before_it(orders: Contender) -> None:
    before = now(orders)
    insert(orders, 1, 3)
    after = now(orders, before)
    for position in (before, after):
        again = orders.vendor.position(position.text())
        assert again == position and again.text() == position.text() and again.time == position.time
    assert after.covers_all_of(before) and not before.covers_all_of(after)
    assert rows(orders, before) == ["1", "2", "3"] and rows(orders, after) == []


def test_a_window_has_no_change_of_open_or_rolled_back_transactions(orders: Contender) -> None:
    start, undone = now(orders), orders.writer()
    undone.begin()
    undone.do(f"INSERT INTO {orders.place('orders')} VALUES (1)")
    insert(orders, 2, 2)
    middle = now(orders, start)
    assert rows(orders, start) == ["2"]
    undone.rollback()
    insert(orders, 3, 3)
    assert rows(orders, middle) == ["3"]
