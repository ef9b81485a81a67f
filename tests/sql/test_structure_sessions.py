"""Structure and sessions: waits, settings, and DDL that was replicated to this master."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model import table_definition
from sluice.model.connection import ConnectionInfo
from tests.sql.master import ORDERS, Master, ddl, wanted
from tests.waiting import until


@pytest.fixture
def orders(master: Master) -> Master:
    master.sql(ORDERS)
    master.register("orders")
    master.sql("INSERT INTO orders VALUES (1, 'a', 10)")
    return master


def test_concurrent_transactions_after_an_alter_wait_for_nobody(database: Callable[..., ConnectionInfo]) -> None:
    master = Master(database(role=True))
    master.sql(ORDERS)
    master.install()
    master.register("orders")
    master.sql("ALTER TABLE orders ADD w text")
    after = master.last_key()
    first, second = (master.session(autocommit=False, lock_timeout="2s") for _ in range(2))
    first.execute("INSERT INTO orders VALUES (1, 'a', 1, 'first')")
    second.execute("INSERT INTO orders VALUES (2, 'b', 2, 'second')")
    second.commit()
    # The one that commits first brought its own ALTER.
    assert [item.action for item in master.items(after, ddl=True)] == ["ALTER", "INSERT"]
    first.commit()
    assert [item.action for item in master.items(after, ddl=True)] == ["ALTER", "INSERT", "ALTER", "INSERT"]
    master.sql("INSERT INTO orders VALUES (3, 'c', 3, 'third')")
    assert len(ddl(master, after)) == 2
    assert [item.new["w"] for item in master.items(after)] == ["first", "second", "third"]


PASSING = ("ALTER TABLE orders ADD passing int", "ALTER TABLE orders DROP passing", "ALTER TABLE orders ADD w text")


def test_a_column_that_came_and_went_hides_none_that_comes_later(any_master: Master) -> None:
    after = any_master.last_key()
    any_master.sql(*PASSING, "INSERT INTO orders VALUES (7, 'a', 1, 'x')", "UPDATE orders SET w = 'y' WHERE id = 7")
    assert [item.new["w"] for item in any_master.items(after)] == ["x", "y"]


@pytest.mark.parametrize("changes", [PASSING[2:], PASSING])
def test_a_transaction_with_an_older_snapshot_is_told_to_try_again(
    database: Callable[..., ConnectionInfo], changes: tuple[str, ...]
) -> None:
    master = Master(database(role=True))
    master.sql(ORDERS)
    master.install()
    master.register("orders")
    old = master.session(autocommit=False)
    old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    old.execute("SELECT 1")
    master.sql(*changes)
    with pytest.raises(psycopg.errors.SerializationFailure, match="altered after"):
        old.execute("INSERT INTO orders VALUES (1, 'a', 1, 'x')")


def test_a_definition_stays_from_when_it_is_read_until_it_is_queued(database: Callable[..., ConnectionInfo]) -> None:
    """Else a newer definition, told by a statement, would get the lower key, and be taken back."""
    master = Master(database(role=True))
    master.sql(ORDERS)
    master.install()
    master.register("orders")
    master.sql("ALTER TABLE orders RENAME v TO w")
    comparing, application = (master.session(autocommit=False, lock_timeout="200ms") for _ in range(2))
    assert comparing.execute("SELECT demo_check_alone('public', 'orders')").fetchone() == (True,)
    application.execute("INSERT INTO orders VALUES (1, 'a', 1)")
    application.commit()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        application.execute("ALTER TABLE orders RENAME w TO x")
    application.rollback()
    comparing.commit()
    application.execute("ALTER TABLE orders RENAME w TO x")
    application.commit()


def test_the_poll_takes_no_lock_when_nothing_changed(any_master: Master) -> None:
    writer = any_master.session(autocommit=False)
    writer.execute("UPDATE orders SET n = 5")
    poller = any_master.session(lock_timeout="1s")
    assert poller.execute("SELECT demo_check_structure()").fetchone() == (0,)
    writer.rollback()


@pytest.mark.parametrize(("table", "partition"), [("parted", "p0"), ("p1", "p1a")])
def test_a_partition_may_be_dropped_while_a_comparison_waits_for_its_table(
    database: Callable[..., ConnectionInfo], table: str, partition: str
) -> None:
    master = Master(database(role=True))
    master.sql(
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p0 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p1 PARTITION OF parted FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)",
        "CREATE TABLE p1a PARTITION OF p1 FOR VALUES FROM (10) TO (15)",
        "CREATE TABLE p2 PARTITION OF parted FOR VALUES FROM (20) TO (30)",
    )
    master.install()
    master.register("parted")
    master.sql("INSERT INTO parted VALUES (1), (11), (21)", "DROP TABLE p2")
    after = master.last_key()
    application, comparing = master.session(autocommit=False), master.session(lock_timeout="30s")
    application.execute(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE".encode())
    found: list[object] = []
    with ThreadPoolExecutor(1) as pool:
        comparison = pool.submit(lambda: found.append(comparing.execute("SELECT demo_check_structure()").fetchone()))
        waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = %s AND NOT granted AND relation = %s::regclass)"
        until(lambda: master.value(waiting, [comparing.info.backend_pid, table]))
        application.execute(f"DROP TABLE {partition}".encode())
        application.commit()
        comparison.result(30)
    master.sql("SELECT demo_check_structure()")
    assert {item.action for item in master.items(after, ddl=True)} == {"DELETE WHERE"}
    assert len(master.items(after, ddl=True)) == 2


def in_two_partitions(database: Callable[..., ConnectionInfo]) -> Master:
    """A master without event triggers whose table `parted` is captured."""
    master = Master(database(role=True))
    master.sql(
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p0 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p1 PARTITION OF parted FOR VALUES FROM (10) TO (20)",
    )
    master.install()
    master.register("parted")
    return master


def test_a_partition_may_be_dropped_while_the_comparison_of_an_altered_table_waits_for_it(
    database: Callable[..., ConnectionInfo],
) -> None:
    master = in_two_partitions(database)
    master.sql("INSERT INTO parted VALUES (1), (11)", "ALTER TABLE parted ADD v text")
    after = master.last_key()
    application, comparing = master.session(autocommit=False), master.session()
    application.execute("LOCK TABLE ONLY parted IN ACCESS EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as pool:
        # As in check_structure, but for its lock_timeout: the deadlock shows.
        comparison = pool.submit(comparing.execute, "SELECT demo_check_table('public', 'parted')")
        waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = %s AND NOT granted AND relation = 'parted'::regclass)"
        until(lambda: master.value(waits, [comparing.info.backend_pid]))
        application.execute("DROP TABLE p0")
        application.commit()
        assert comparison.result(30).fetchone() == ("altered",)
    assert [item.action for item in master.items(after, ddl=True)] == ["ALTER", "DELETE WHERE"]


def test_a_comparison_of_partitions_locks_their_table_first_as_writers_do(
    database: Callable[..., ConnectionInfo],
) -> None:
    master = in_two_partitions(database)
    # So that it waits until the writer is through.
    master.sql("ALTER FUNCTION demo_check_structure() SET lock_timeout = '60s'")
    after = master.last_key()
    master.sql("CREATE TABLE p2 PARTITION OF parted FOR VALUES FROM (20) TO (30)", "DROP TABLE p1")
    writer, comparing = master.session(autocommit=False, lock_timeout="2s"), master.session()
    writer.execute("INSERT INTO parted VALUES (1)")
    with ThreadPoolExecutor(1) as pool:
        comparison = pool.submit(lambda: comparing.execute("SELECT demo_check_structure()").fetchone())
        waiting = (
            "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = %s AND NOT granted AND relation = 'parted'::regclass)"
        )
        until(lambda: master.value(waiting, [comparing.info.backend_pid]))
        try:
            writer.execute("INSERT INTO parted VALUES (21)")
            writer.commit()
        finally:
            writer.close()
            found = comparison.result(60)
    assert found == (1,)
    assert [item.action for item in master.items(after, ddl=True)] == ["INSERT", "INSERT", "DELETE WHERE"]


def test_event_triggers_that_were_made_later_end_the_guard(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    master = Master(database(role=True))
    master.sql(ORDERS)
    master.install()
    master.register("orders")
    guarded = "SELECT count(*) FROM pg_proc WHERE prosrc LIKE '%hash_record_extended%' AND proname LIKE 'demo_capture%'"
    assert master.value(guarded) > 0
    with postgres.connect(master.info.database) as administrator:
        administrator.execute(sql_files.render("postgres", "event_triggers", prefix="demo_", schema="public"))

    report = master.reconcile(wanted("orders"))
    assert "out of date" in str(report)
    assert master.value(guarded) == 0
    after = master.last_key()
    master.sql("ALTER TABLE orders ADD w int")
    assert [item.action for item in master.items(after, ddl=True)] == ["ALTER"]


def test_ddl_that_was_replicated_to_here_is_not_queued_again(orders: Master) -> None:
    after = orders.last_key()
    apply = orders.session(**{"sluice.origin": "OTHER_"})
    apply.execute("ALTER TABLE orders ADD w float8 DEFAULT random()")
    apply.execute("ALTER TABLE orders RENAME TO renamed")
    orders.sql("INSERT INTO renamed (id) VALUES (2)")
    apply.execute("DROP TABLE renamed")
    assert [(item.action, list(item.new)) for item in orders.items(after, ddl=True)] == [
        ("INSERT", ["id", "v", "n", "w"])
    ]
    assert orders.value("SELECT demo_check_structure()") == 0


def test_a_busy_table_holds_up_neither_the_poll_nor_its_writers(database: Callable[..., ConnectionInfo]) -> None:
    master = Master(database(role=True))
    master.sql(ORDERS, "CREATE TABLE others (id int PRIMARY KEY)")
    master.install()
    master.register("orders", "others")
    master.sql(
        "ALTER TABLE others ADD v int",
        "ALTER TABLE orders ADD w int DEFAULT random()",
        "INSERT INTO orders VALUES (1, 'a', 1, 1)",
    )
    writer = master.session(autocommit=False)
    writer.execute("INSERT INTO orders VALUES (2, 'a', 1, 1)")
    assert master.value("SELECT demo_check_structure()") == 1
    writer.commit()
    assert master.value("SELECT demo_check_structure()") == 1
    assert master.items()[-1].action == "UPDATE"


HOSTILE = {
    "DateStyle": "German, DMY",
    "TimeZone": "Asia/Kathmandu",
    "IntervalStyle": "sql_standard",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "bytea_output": "escape",
    "extra_float_digits": "0",
}


def test_two_sessions_that_renew_one_capture_follow_one_another(database: Callable[..., ConnectionInfo]) -> None:
    """PostgreSQL lets the second one that replaces a function fail: "tuple concurrently updated"."""
    master = Master(database(role=True))
    master.sql(ORDERS)
    master.install()
    master.register("orders")
    master.sql("ALTER TABLE orders ADD w text")
    comparing, reconciling = master.session(autocommit=False), master.session()
    comparing.execute("SELECT demo_check_alone('public', 'orders')")
    with ThreadPoolExecutor() as pool:
        renewed = pool.submit(reconciling.execute, "SELECT demo_create_trigger('public', 'orders')")
        blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
        until(lambda: master.rows(blocked, [reconciling.info.backend_pid]) == [(True,)])
        comparing.commit()
        renewed.result()
    master.sql("INSERT INTO orders VALUES (1, 'a', 1, 'x')")
    assert [item.new["w"] for item in master.items() if item.action == "INSERT"] == ["x"]


@pytest.mark.one_in(2)
def test_settings_of_the_session_decide_nothing_about_structure(any_master: Master) -> None:
    any_master.sql(
        "CREATE TYPE mood AS ENUM ('Sad')",
        "ALTER TABLE orders ADD d date DEFAULT '2024-12-31', ADD t timestamptz DEFAULT '2024-01-01 12:00+00'",
        "ALTER TABLE orders ADD b bytea DEFAULT '\\x00ff', ADD f float8 DEFAULT 0.1, ADD m mood",
        "SELECT demo_check_structure()",
    )
    after = any_master.last_key()
    application = any_master.session(**HOSTILE)
    assert application.execute("SELECT demo_check_structure()").fetchone() == (0,)
    application.execute("ALTER TABLE orders ADD made interval DEFAULT '1 year 2 days'")
    application.execute("INSERT INTO orders (id, v) VALUES (2, E'a\nb')")
    application.execute("UPDATE orders SET v = '<' || id")
    assert any_master.value("SELECT demo_check_structure()") == 0
    items = any_master.items(after, ddl=True)
    assert [item.action for item in items] == ["ALTER", "INSERT", "UPDATE", "UPDATE"]
    assert table_definition.parse(items[0].content or "").missing["made"] == "1 year 2 days"
    assert items[0].content == any_master.value("SELECT demo_describe('public', 'orders')")
    assert items[1].new["v"] == "a\nb"
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []
