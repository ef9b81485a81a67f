"""Each change of a row is queued once, with the right images, in the order in which it happened."""

import psycopg
import pytest

from tests.sql.master import Master, Model, wanted

pytestmark = pytest.mark.releases

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(12,2), note text)"


@pytest.fixture
def orders(master: Master) -> Master:
    master.sql(ORDERS)
    master.register("orders")
    return master


def test_an_insert_carries_the_new_row(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1, 'anna', 10, NULL), (2, '', 1.5, 'x')")
    first, second = orders.items()
    assert (first.action, first.guid, first.oldcontent) == ("INSERT", "1", None)
    assert first.new == {"id": "1", "customer": "anna", "amount": "10.00", "note": None}
    assert second.new == {"id": "2", "customer": "", "amount": "1.50", "note": "x"}


def test_a_delete_carries_the_whole_old_row(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1, 'anna', 10, NULL)", "DELETE FROM orders")
    item = orders.items()[-1]
    assert (item.action, item.guid, item.content) == ("DELETE", "1", None)
    assert item.old == {"id": "1", "customer": "anna", "amount": "10.00", "note": None}


def test_an_update_carries_the_new_row_the_key_and_what_changed(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1, 'anna', 10, NULL)", "UPDATE orders SET note = 'n', customer = 'anna'")
    item = orders.items()[-1]
    assert (item.action, item.guid) == ("UPDATE", "1")
    assert item.new == {"id": "1", "customer": "anna", "amount": "10.00", "note": "n"}
    assert item.old == {"id": "1", "note": None}


def test_a_change_of_the_key_has_no_guid(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1, 'anna', 10, NULL)", "UPDATE orders SET id = 7")
    item = orders.items()[-1]
    assert item.guid is None
    assert item.old == {"id": "1"}
    assert item.new["id"] == "7"


def test_an_update_of_nothing_leaves_no_item(orders: Master) -> None:
    orders.sql("UPDATE orders SET note = 'x'", "DELETE FROM orders", "INSERT INTO orders SELECT * FROM orders")
    assert orders.items() == []


@pytest.mark.one_in(8)
@pytest.mark.parametrize("rows", [1, 2, 3, 9_999, 10_000, 10_001, 25_000])
def test_an_update_pairs_every_old_row_with_its_new_one_in_order(orders: Master, rows: int) -> None:
    orders.sql(f"INSERT INTO orders SELECT g, 'c' || g, g, NULL FROM generate_series(1, {rows}) g")
    start = orders.contents("orders")
    with orders.captured() as items:
        # Keys change too, to values that other rows have had.
        orders.sql(f"UPDATE orders SET id = id + {rows}, note = 'was ' || id WHERE id % 3 <> 0")
    assert len(items) == rows - rows // 3
    assert all(item.new["note"] == f"was {item.old['id']}" for item in items)
    assert Model().start("orders", start).replay(items).contents("orders") == orders.contents("orders")


@pytest.mark.long
def test_a_cached_plan_for_one_row_serves_many_and_back(orders: Master) -> None:
    orders.sql("INSERT INTO orders SELECT g, 'c', 0, NULL FROM generate_series(1, 3000) g")
    model = Model().start("orders", orders.contents("orders"))
    with orders.captured() as items:
        for _ in range(8):
            orders.sql(
                "UPDATE orders SET amount = amount + 1 WHERE id = 5",
                "UPDATE orders SET amount = amount + 1",
                "UPDATE orders SET amount = amount + 1 WHERE id < 0",
                "UPDATE orders SET amount = amount + 1 WHERE id < 4",
            )
    assert len(items) == 8 * 3004
    assert model.replay(items).contents("orders") == orders.contents("orders")


def test_on_conflict_do_update_writes_inserts_and_updates(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1, 'a', 1, NULL), (2, 'b', 2, NULL)")
    model = Model().start("orders", orders.contents("orders"))
    with orders.captured() as items:
        orders.sql(
            "INSERT INTO orders SELECT g, 'new', 5, NULL FROM generate_series(1, 4) g "
            "ON CONFLICT (id) DO UPDATE SET customer = excluded.customer WHERE orders.id <> 2",
            "INSERT INTO orders VALUES (1, 'again', 0, NULL) ON CONFLICT DO NOTHING",
        )
    assert sorted((item.action, item.new["id"]) for item in items) == [
        ("INSERT", "3"),
        ("INSERT", "4"),
        ("UPDATE", "1"),
    ]
    assert model.replay(items).contents("orders") == orders.contents("orders")


@pytest.mark.since(15, "MERGE")
def test_merge_writes_each_of_its_actions(orders: Master) -> None:
    orders.sql("INSERT INTO orders SELECT g, 'c', g, NULL FROM generate_series(1, 6) g")
    model = Model().start("orders", orders.contents("orders"))
    with orders.captured() as items:
        orders.sql(
            "MERGE INTO orders o USING generate_series(4, 9) g ON o.id = g "
            "WHEN MATCHED AND g = 4 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET id = o.id + 100, note = 'merged' "
            "WHEN NOT MATCHED THEN INSERT VALUES (g, 'new', 0, NULL)"
        )
    assert sorted(item.action for item in items) == ["DELETE", *["INSERT"] * 3, *["UPDATE"] * 2]
    assert model.replay(items).contents("orders") == orders.contents("orders")


def test_update_from_a_join_writes_each_row_once(orders: Master) -> None:
    orders.sql("INSERT INTO orders SELECT g, 'c', g, NULL FROM generate_series(1, 50) g")
    model = Model().start("orders", orders.contents("orders"))
    with orders.captured() as items:
        orders.sql("UPDATE orders o SET note = g::text FROM generate_series(1, 200) g WHERE o.id = g % 50")
    assert len(items) == 49
    assert model.replay(items).contents("orders") == orders.contents("orders")


def test_copy_is_captured(orders: Master) -> None:
    with orders.connection.cursor() as cursor, cursor.copy("COPY orders FROM STDIN") as copy:
        for number in range(500):
            copy.write_row((number, "a<b&c", number, None))
    assert len(orders.items()) == 500
    assert Model().replay(orders.items()).contents("orders") == orders.contents("orders")


def test_a_rolled_back_change_leaves_no_item(orders: Master) -> None:
    with orders.connection.transaction() as outer:
        orders.sql("INSERT INTO orders VALUES (1, 'kept', 1, NULL)")
        with orders.connection.transaction() as inner:
            orders.sql("INSERT INTO orders VALUES (2, 'undone', 1, NULL)", "UPDATE orders SET note = 'undone'")
            raise psycopg.Rollback(inner)
        orders.sql("UPDATE orders SET note = 'kept'")
        assert outer is not None
    with orders.connection.transaction() as whole:
        orders.sql("DELETE FROM orders")
        raise psycopg.Rollback(whole)
    assert [item.action for item in orders.items()] == ["INSERT", "UPDATE"]
    assert Model().replay(orders.items()).contents("orders") == orders.contents("orders")


def test_savepoints_share_the_transaction_of_their_changes(orders: Master) -> None:
    with orders.connection.transaction():
        orders.sql("INSERT INTO orders VALUES (1, 'a', 1, NULL)")
        with orders.connection.transaction():
            orders.sql("INSERT INTO orders VALUES (2, 'b', 1, NULL)")
            with orders.connection.transaction():
                orders.sql("INSERT INTO orders VALUES (3, 'c', 1, NULL)")
        now = orders.value("SELECT pg_current_xact_id()::text")
    assert {item.trans_key for item in orders.items()} == {now}


def test_a_prepared_transaction_shows_when_it_is_committed(orders: Master) -> None:
    orders.sql("BEGIN", "INSERT INTO orders VALUES (1, 'a', 1, NULL)", "PREPARE TRANSACTION 'two'")
    assert orders.items() == []
    orders.sql("COMMIT PREPARED 'two'")
    assert [item.guid for item in orders.items()] == ["1"]


def test_truncate_is_captured_and_restart_identity_with_it(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1, 'a', 1, NULL)", "TRUNCATE orders RESTART IDENTITY")
    item = orders.items()[-1]
    assert (item.action, item.guid, item.content, item.oldcontent) == ("TRUNCATE", None, None, None)


def test_truncate_cascade_is_captured_on_every_table(orders: Master) -> None:
    orders.sql("CREATE TABLE lines (id int PRIMARY KEY, order_id int REFERENCES orders)")
    orders.register("orders", "lines")
    with orders.captured() as items:
        orders.sql("TRUNCATE orders CASCADE")
    assert sorted((item.table.name, item.action) for item in items) == [("lines", "TRUNCATE"), ("orders", "TRUNCATE")]


def test_cascades_of_foreign_keys_are_captured(orders: Master) -> None:
    orders.sql(
        "CREATE TABLE lines (id int PRIMARY KEY, order_id int REFERENCES orders ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE notes (id int PRIMARY KEY, order_id int REFERENCES orders ON DELETE SET NULL)",
    )
    orders.register("orders", "lines", "notes")
    orders.sql(
        "INSERT INTO orders SELECT g, 'c', 1, NULL FROM generate_series(1, 5) g",
        "INSERT INTO lines SELECT g, 1 + g % 5 FROM generate_series(1, 20) g",
        "INSERT INTO notes SELECT g, 1 + g % 2 FROM generate_series(1, 4) g",
        "UPDATE orders SET id = id + 10 WHERE id > 3",
        "DELETE FROM orders WHERE id IN (1, 2, 14)",
    )
    model = Model().replay(orders.items())
    for table in ("orders", "lines", "notes"):
        assert model.contents(table) == orders.contents(table)


def test_a_row_changed_twice_by_one_statement_keeps_its_order(master: Master) -> None:
    # ON UPDATE CASCADE to the same table: the second row is changed by the statement and again by the cascade.
    master.sql(
        "CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree ON UPDATE CASCADE ON DELETE SET NULL)"
    )
    master.register("tree")
    master.sql("INSERT INTO tree SELECT g, nullif(g / 2, 0) FROM generate_series(1, 40) g")
    start = master.contents("tree")
    with master.captured() as items:
        master.sql("UPDATE tree SET id = id + 100", "DELETE FROM tree WHERE id IN (102, 103)")
    assert len(items) > 80
    assert Model().start("tree", start).replay(items).contents("tree") == master.contents("tree")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ("I", ["INSERT"]),
        ("U", ["UPDATE"]),
        ("D", ["DELETE", "TRUNCATE"]),
        ("ID", ["INSERT", "DELETE", "TRUNCATE"]),
        ("IUD", ["INSERT", "UPDATE", "DELETE", "TRUNCATE"]),
        ("", []),
    ],
)
def test_only_the_configured_actions_are_captured(master: Master, actions: str, expected: list[str]) -> None:
    master.sql(ORDERS)
    master.register("orders", actions=actions)
    master.sql(
        "INSERT INTO orders VALUES (1, 'a', 1, NULL)",
        "UPDATE orders SET note = 'x'",
        "DELETE FROM orders",
        "TRUNCATE orders",
    )
    assert [item.action for item in master.items()] == expected


def test_changes_of_an_apply_session_are_not_captured_again(orders: Master) -> None:
    apply = orders.session(**{"sluice.origin": "OTHER_"})
    apply.execute("INSERT INTO orders VALUES (1, 'a', 1, NULL)")
    apply.execute("UPDATE orders SET note = 'x'")
    apply.execute("TRUNCATE orders")
    assert orders.items() == []
    apply.execute("SET sluice.origin = ''")
    apply.execute("INSERT INTO orders VALUES (1, 'a', 1, NULL)")
    assert len(orders.items()) == 1


def test_the_origin_is_named(orders: Master) -> None:
    orders.sql("INSERT INTO orders VALUES (1, 'a', 1, NULL)")
    assert orders.rows(f"SELECT DISTINCT dbid, version FROM {orders.name('items')}") == [(orders.info.database, "1")]


def test_a_failure_to_capture_fails_the_statement(orders: Master) -> None:
    orders.sql("ALTER TABLE demo_items ADD CONSTRAINT full_disk CHECK (tablename <> 'orders') NOT VALID")
    with pytest.raises(psycopg.errors.CheckViolation):
        orders.sql("INSERT INTO orders VALUES (1, 'a', 1, NULL)")
    assert orders.value("SELECT count(*) FROM orders") == 0


def test_a_table_with_debug_writes_lines(master: Master) -> None:
    master.sql(ORDERS)
    master.reconcile(wanted("orders", debug=True))
    master.sql("INSERT INTO orders VALUES (1, 'a', 1, NULL)", "UPDATE orders SET note = 'x'", "TRUNCATE orders")
    lines = [line for (line,) in master.rows("SELECT line FROM demo_debug_table ORDER BY repl_key")]
    assert [line.split()[0] for line in lines] == ["INSERT", "UPDATE", "TRUNCATE"]
    assert all("public.orders" in line for line in lines)
    master.reconcile(wanted("orders"))
    master.sql("INSERT INTO orders VALUES (1, 'a', 1, NULL)")
    assert master.value("SELECT count(*) FROM demo_debug_table") == 3


def test_keys_of_several_columns_are_distinguished(master: Master) -> None:
    master.sql("CREATE TABLE pairs (b text, v int, a text, PRIMARY KEY (a, b))")
    master.register("pairs")
    master.sql("INSERT INTO pairs VALUES ('b', 1, 'a1'), ('1b', 2, 'a')", "UPDATE pairs SET v = 3 WHERE b = 'b'")
    assert [item.guid for item in master.items()] == ["2:a11:b", "1:a2:1b", "2:a11:b"]
    assert master.items()[-1].old == {"b": "b", "v": "1", "a": "a1"}


def test_without_a_primary_key_a_unique_not_null_index_is_the_key(master: Master) -> None:
    master.sql(
        "CREATE TABLE keyed (a int, b int NOT NULL UNIQUE, c int UNIQUE)",
        "CREATE TABLE keyless (a int, b int UNIQUE)",
        "CREATE TABLE deferrable_key (a int NOT NULL UNIQUE DEFERRABLE)",
    )
    master.register("keyed", "keyless", "deferrable_key")
    master.sql(
        "INSERT INTO keyed VALUES (1, 2, 3)",
        "INSERT INTO keyless VALUES (1, 2)",
        "INSERT INTO deferrable_key VALUES (1)",
    )
    assert [item.guid for item in master.items()] == ["2", "", ""]


def test_a_keyless_table_is_a_multiset(master: Master) -> None:
    master.sql("CREATE TABLE log (line text, n numeric)")
    master.register("log")
    master.sql(
        "INSERT INTO log SELECT 'same', 1 FROM generate_series(1, 4)",
        "UPDATE log SET n = 1.0 WHERE ctid IN (SELECT ctid FROM log LIMIT 2)",
        "DELETE FROM log WHERE ctid IN (SELECT ctid FROM log LIMIT 1)",
    )
    assert {item.guid for item in master.items()} == {""}
    assert Model().replay(master.items()).contents("log") == master.contents("log")
