"""DDL on replicated tables is queued in its place among the changes, with event triggers and without."""

from collections.abc import Callable
from itertools import pairwise

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.model import table_definition
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.sql.master import ORDERS, Master, Model, ddl


@pytest.fixture
def orders(master: Master) -> Master:
    master.sql(ORDERS)
    master.register("orders")
    master.sql("INSERT INTO orders VALUES (1, 'a', 10)")
    return master


def columns(text: str | None) -> dict[str, str]:
    return {column.name: column.type for column in table_definition.parse(text or "").shape.columns}


@pytest.mark.releases
@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE orders ADD w numeric(5,2)", {"id": "integer", "v": "text", "n": "integer", "w": "numeric(5,2)"}),
        ("ALTER TABLE orders DROP n", {"id": "integer", "v": "text"}),
        ('ALTER TABLE orders RENAME v TO "V v"', {"id": "integer", "V v": "text", "n": "integer"}),
        ("ALTER TABLE orders ALTER n TYPE text", {"id": "integer", "v": "text", "n": "text"}),
        ("ALTER TABLE orders ALTER v TYPE varchar(7)", {"id": "integer", "v": "character varying(7)", "n": "integer"}),
        ("ALTER TABLE orders ALTER v SET NOT NULL", {"id": "integer", "v": "text", "n": "integer"}),
        ("ALTER TABLE orders ALTER v SET DEFAULT 'x'", {"id": "integer", "v": "text", "n": "integer"}),
        ("ALTER TABLE orders DROP CONSTRAINT orders_pkey", {"id": "integer", "v": "text", "n": "integer"}),
        (
            "ALTER TABLE orders DROP v, ADD v int, ADD z text",
            {"id": "integer", "n": "integer", "v": "integer", "z": "text"},
        ),
    ],
)
def test_an_alter_stands_before_the_rows_it_is_about(
    any_master: Master, statement: str, expected: dict[str, str]
) -> None:
    after = any_master.last_key()
    before = columns(any_master.value("SELECT demo_describe('public', 'orders')"))
    any_master.sql(
        statement,
        "UPDATE orders SET id = id + 0",
        "INSERT INTO orders (id) VALUES (2)" if "NOT NULL" not in statement else "SELECT",
    )
    # Without event triggers a change that leaves the columns alone is found by the poll.
    any_master.sql("SELECT demo_check_structure()")
    alter, *rest = any_master.items(after, ddl=True)
    if alter.action != "ALTER":
        assert "DEFAULT" in statement
        rest = any_master.items(after)
        alter = ddl(any_master, after)[0]
    assert len(ddl(any_master, after)) == 1
    assert columns(alter.oldcontent) == before
    assert columns(alter.content) == expected
    assert all(set(item.new) == set(expected) for item in rest if item.action in ("INSERT", "UPDATE"))
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


EXCHANGES = {
    "names of columns": "RENAME a TO x; ALTER TABLE pairs RENAME b TO a; ALTER TABLE pairs RENAME x TO b",
    "NOT NULL": "ALTER a DROP NOT NULL, ALTER b SET NOT NULL",
    "types": "ALTER a TYPE mood USING 'sad', ALTER m TYPE text",
    "labels": """RENAME TO pairs2; ALTER TABLE pairs2 RENAME TO pairs; ALTER TYPE mood RENAME VALUE 'sad' TO 'x';
        ALTER TYPE mood RENAME VALUE 'happy' TO 'sad'; ALTER TYPE mood RENAME VALUE 'x' TO 'happy'""",
}


@pytest.mark.one_in(12)
@pytest.mark.releases
@pytest.mark.parametrize("exchanged", EXCHANGES)
def test_exchanged_columns_or_labels_are_noticed(any_master: Master, exchanged: str) -> None:
    any_master.sql(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE TABLE pairs (id int PRIMARY KEY, a text NOT NULL, b text, m mood)",
    )
    any_master.register("pairs")
    any_master.sql("INSERT INTO pairs VALUES (1, 'a', 'b', 'sad')")
    after = any_master.last_key()
    for statement in f"ALTER TABLE pairs {EXCHANGES[exchanged]}".split(";"):
        any_master.sql(statement)
    any_master.sql("INSERT INTO pairs (id, a, b) VALUES (2, 'sad', 'y')")
    any_master.sql("SELECT demo_check_structure()")
    found = ddl(any_master, after)
    assert found and found[-1].content == any_master.value("SELECT demo_describe('public', 'pairs')")
    actions = [item.action for item in any_master.items(after, ddl=True)]
    assert actions.index("INSERT") > len(actions) - 1 - actions[::-1].index("ALTER"), "it stands before the row"


def test_no_statement_of_the_application_fails_or_slips_between_alter_and_poll(any_master: Master) -> None:
    any_master.sql("INSERT INTO orders SELECT g, 'x', g FROM generate_series(2, 50) g")
    after = any_master.last_key()
    # A session with cached plans of the old structure.
    application = any_master.session()
    for _ in range(7):
        application.execute("UPDATE orders SET n = n + 1 WHERE id = 3")
    any_master.sql("ALTER TABLE orders RENAME v TO w", "ALTER TABLE orders DROP n", "ALTER TABLE orders ADD big bytea")
    application.execute("INSERT INTO orders SELECT g, '<&', '\\x00ff' FROM generate_series(51, 70) g")
    application.execute("UPDATE orders SET id = id + 1000, w = 'moved' WHERE id <= 60")
    application.execute("UPDATE orders SET w = E'\\n' WHERE id = 70")
    application.execute("DELETE FROM orders WHERE id = 1002")
    application.execute("TRUNCATE orders")
    application.execute("INSERT INTO orders VALUES (1, NULL, NULL)")
    items = any_master.items(after, ddl=True)
    last_alter = max(number for number, item in enumerate(items) if item.action == "ALTER")
    assert [item.action for item in items[:7]] == ["UPDATE"] * 7
    assert all(
        list(item.new) == ["id", "w", "big"] for item in items[last_alter:] if item.action in ("INSERT", "UPDATE")
    )
    assert items[-1].new == {"id": "1", "w": None, "big": None}
    changed = [item for item in items[last_alter:] if item.action == "UPDATE" and item.guid is None]
    assert len(changed) == 60
    assert all(int(item.new["id"] or 0) == int(item.old["id"] or 0) + 1000 for item in changed)


def test_an_alter_that_is_rolled_back_leaves_nothing(any_master: Master) -> None:
    after = any_master.last_key()
    with any_master.connection.transaction() as transaction:
        any_master.sql("ALTER TABLE orders ADD w int", "INSERT INTO orders VALUES (2, 'b', 1, 5)")
        raise psycopg.Rollback(transaction)
    any_master.sql("INSERT INTO orders VALUES (2, 'b', 1)")
    assert [(item.action, list(item.new)) for item in any_master.items(after, ddl=True)] == [
        ("INSERT", ["id", "v", "n"])
    ]
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


@pytest.mark.releases
def test_several_alters_and_rows_in_one_transaction_stay_in_order(any_master: Master) -> None:
    after = any_master.last_key()
    with any_master.connection.transaction():
        any_master.sql(
            "INSERT INTO orders VALUES (2, 'b', 1)",
            "ALTER TABLE orders ADD w int",
            "INSERT INTO orders VALUES (3, 'b', 1, 5)",
            "ALTER TABLE orders DROP n",
            "INSERT INTO orders VALUES (4, 'b', 6)",
        )
    found = [(item.action, list(item.new)) for item in any_master.items(after)]
    assert found == [("INSERT", ["id", "v", "n"]), ("INSERT", ["id", "v", "n", "w"]), ("INSERT", ["id", "v", "w"])]
    assert [item.action for item in any_master.items(after, ddl=True)] == [
        "INSERT",
        "ALTER",
        "INSERT",
        "ALTER",
        "INSERT",
    ]


def test_a_default_for_old_rows_is_named(orders: Master) -> None:
    after = orders.last_key()
    orders.sql("ALTER TABLE orders ADD made timestamptz DEFAULT now()")
    (alter,) = ddl(orders, after)
    assert table_definition.parse(alter.content or "").missing == {
        "made": orders.value("SELECT (made AT TIME ZONE 'UTC')::text || '+00' FROM orders")
    }
    assert orders.items(after) == []


@pytest.mark.releases
@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE orders ADD r float8 DEFAULT random()",
        "ALTER TABLE orders ADD s serial",
        "ALTER TABLE orders ADD i int GENERATED BY DEFAULT AS IDENTITY",
        "ALTER TABLE orders ALTER n TYPE text USING 'was ' || n",
        "ALTER TABLE orders ALTER n TYPE bigint USING n * 2",
    ],
)
def test_rows_that_an_alter_rewrites_are_queued_again(any_master: Master, statement: str) -> None:
    any_master.sql("INSERT INTO orders SELECT g, 'x', g FROM generate_series(2, 20) g")
    after = any_master.last_key()
    any_master.sql(statement, "UPDATE orders SET v = 'y' WHERE id = 7", "SELECT demo_check_structure()")
    items = any_master.items(after)
    assert {item.action for item in items} == {"UPDATE"}
    assert any_master.items(after, ddl=True)[0].action == "ALTER"
    now = any_master.contents("orders")
    last = {item.guid: tuple(item.new.items()) for item in items}
    assert set(last.values()) == set(now)
    assert any_master.value("SELECT demo_check_structure()") == 0


def test_rewritten_rows_of_a_keyless_table_are_replaced(any_master: Master) -> None:
    any_master.sql("CREATE TABLE log (line text)")
    any_master.register("orders", "log")
    any_master.sql("INSERT INTO log VALUES ('a'), ('a'), ('b')")
    after = any_master.last_key()
    any_master.sql("ALTER TABLE log ALTER line TYPE int USING length(line)", "SELECT demo_check_structure()")
    items = any_master.items(after, ddl=True)
    assert [item.action for item in items] == ["ALTER", "TRUNCATE", "INSERT", "INSERT", "INSERT"]
    assert Model().replay(any_master.items()).contents("log") == any_master.contents("log")


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM FULL orders",
        "CLUSTER orders USING orders_pkey",
        "ALTER TABLE orders SET (fillfactor = 50)",
        "TRUNCATE orders",
        "ANALYZE orders",
        "ALTER TABLE orders ALTER n SET STATISTICS 200",
        "CREATE INDEX ON orders (v)",
        "COMMENT ON TABLE orders IS 'x'",
    ],
)
def test_ddl_without_a_change_of_the_definition_leaves_no_item(any_master: Master, statement: str) -> None:
    any_master.sql("ALTER TABLE orders ADD made int DEFAULT 5", "SELECT demo_check_structure()")
    any_master.sql("INSERT INTO orders VALUES (2, 'b', 1)")
    after = any_master.last_key()
    any_master.sql(statement, "SELECT demo_check_structure()", "DELETE FROM orders")
    # Its files are others than those that were noted, or not: a further change tells them apart.
    any_master.sql("INSERT INTO orders SELECT g, 'c', g FROM generate_series(3, 5) g")
    any_master.sql("ALTER TABLE orders ADD later int, ALTER v SET STATISTICS 300", "SELECT demo_check_structure()")
    rows = ["TRUNCATE"] if "TRUNCATE" in statement else ["DELETE"] * 2
    assert [item.action for item in any_master.items(after, ddl=True)] == [*rows, *["INSERT"] * 3, "ALTER"]


@pytest.mark.releases
def test_a_renamed_table_stays_registered_under_its_new_name(any_master: Master) -> None:
    after = any_master.last_key()
    any_master.sql(
        'ALTER TABLE orders RENAME TO "New Orders"',
        "INSERT INTO \"New Orders\" VALUES (2, 'b', 1)",
        "CREATE SCHEMA other",
        'ALTER TABLE "New Orders" SET SCHEMA other',
        'UPDATE other."New Orders" SET id = id + 10',
    )
    any_master.sql("SELECT demo_check_structure()")
    items = any_master.items(after, ddl=True)
    renames = [
        (item.table, table_definition.parse(item.content or "").table) for item in items if item.action == "ALTER"
    ]
    assert renames == [
        (TableName("public", "orders"), TableName("public", "New Orders")),
        (TableName("public", "New Orders"), TableName("other", "New Orders")),
    ]
    assert [(item.action, item.table.schema) for item in items] == [
        ("ALTER", "public"),
        ("INSERT", "public"),
        ("ALTER", "public"),
        ("UPDATE", "other"),
        ("UPDATE", "other"),
    ]
    assert any_master.rows("SELECT schemaname, tablename, status FROM demo_tables") == [("other", "New Orders", "OK")]
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


@pytest.mark.one_in(8)
@pytest.mark.releases
@pytest.mark.parametrize("change", ["RENAME TO latest", "DROP v", "RENAME v TO w", "ADD w int DEFAULT 7"])
def test_a_partition_that_is_emptied_after_a_change_of_its_table_loses_its_rows(
    any_master: Master, change: str
) -> None:
    any_master.sql(
        "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_0 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (10) TO (20)",
    )
    any_master.register("parts")
    any_master.sql("INSERT INTO parts VALUES (1, 'a'), (2, 'b'), (11, 'c')")
    after = any_master.last_key()
    now = "latest" if change == "RENAME TO latest" else "parts"
    with any_master.connection.transaction():
        any_master.sql(f"ALTER TABLE parts {change}", "TRUNCATE parts_0")
        any_master.sql(f"TRUNCATE {now}", f"INSERT INTO {now} (id) VALUES (3)", "TRUNCATE parts_0")
    found = any_master.items(after, ddl=True)
    assert [(item.table.name, item.action) for item in found] == [
        ("parts", "ALTER"), (now, "DELETE"), (now, "DELETE"), (now, "TRUNCATE"), (now, "INSERT"), (now, "DELETE"),
    ]  # fmt: skip
    assert [item.old["id"] for item in found if item.action == "DELETE"] == ["1", "2", "3"]
    assert {tuple(item.old) for item in found if item.action == "DELETE"} == {
        tuple(name for (name,) in any_master.rows(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
            "ORDER BY attnum", [now],
        ))
    }  # fmt: skip


def test_rows_come_with_a_partitioned_table_that_is_attached(any_master: Master) -> None:
    any_master.sql(
        "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE half (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE half_0 PARTITION OF half FOR VALUES FROM (0) TO (10)",
    )
    any_master.register("parts")
    any_master.sql("INSERT INTO half VALUES (1, 'a')", "SELECT demo_check_structure()")
    after = any_master.last_key()
    any_master.sql(
        "ALTER TABLE parts ATTACH PARTITION half FOR VALUES FROM (0) TO (20)", "SELECT demo_check_structure()"
    )
    # The comparison empties the bounds first.
    come = [(item.table.name, item.action, item.guid) for item in any_master.items(after)]
    assert come[-1:] == [("parts", "INSERT", "1")]
    assert {action for _, action, _ in come[:-1]} <= {"DELETE WHERE"}


TYPES = """
CREATE SCHEMA other;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE other.state AS ENUM ('on', 'off');
CREATE DOMAIN feeling AS mood CHECK (VALUE <> 'sad');
CREATE TYPE place AS (street text, mood mood);
CREATE TYPE span AS RANGE (subtype = time);
CREATE COLLATION fold (locale = 'C');
"""


@pytest.mark.parametrize(
    ("column", "statement", "named"),
    [
        ("mood", "ALTER TYPE mood RENAME TO humor", "humor"),
        pytest.param("mood", "ALTER TYPE mood SET SCHEMA other", "other.mood", marks=pytest.mark.long),
        ("mood[]", "ALTER TYPE mood RENAME TO humor", "humor[]"),
        ("feeling", "ALTER DOMAIN feeling RENAME TO well", "well"),
        ("feeling", "ALTER TYPE mood RENAME TO humor", "humor"),
        pytest.param("place", "ALTER TYPE place RENAME TO address", "address", marks=pytest.mark.long),
        ("place", "ALTER TYPE mood RENAME TO humor", "humor"),
        pytest.param("span", "ALTER TYPE span RENAME TO hours", "hours", marks=pytest.mark.long),
        ("text COLLATE fold", "ALTER COLLATION fold RENAME TO folded", "folded"),
        ("other.state", "ALTER SCHEMA other RENAME TO theirs", "theirs.state"),
    ],
)
def test_another_name_of_a_type_changes_the_tables_that_use_it(
    any_master: Master, column: str, statement: str, named: str
) -> None:
    any_master.sql(TYPES, "CREATE SCHEMA rest", f"CREATE TABLE rest.typed (id int PRIMARY KEY, v {column})")
    any_master.register(TableName("rest", "typed"))
    after = any_master.last_key()
    any_master.sql(statement)
    any_master.sql("SELECT demo_check_structure()")
    (item,) = any_master.items(after, ddl=True)
    assert item.action == "ALTER" and named in item.content  # type: ignore[operator]
    assert any_master.value("SELECT demo_check_structure()") == 0


def test_a_renamed_schema_takes_its_tables_along(orders: Master) -> None:
    orders.sql("CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY)")
    orders.register("orders", TableName("s", "t"))
    orders.sql("ALTER SCHEMA s RENAME TO z", "INSERT INTO z.t VALUES (1)")
    assert orders.items()[-1].table == TableName("z", "t")


@pytest.mark.one_in(2)
@pytest.mark.releases
def test_columns_that_swap_their_names_keep_their_key_and_what_is_null(any_master: Master) -> None:
    any_master.sql(
        "CREATE TABLE pairs (id int PRIMARY KEY, other int, v text NOT NULL, w text)",
        "INSERT INTO pairs VALUES (1, 10, 'one', NULL)",
    )
    any_master.register("pairs")
    for one, two in (("id", "other"), ("v", "w")):
        any_master.sql(
            f"ALTER TABLE pairs RENAME {one} TO third",
            f"ALTER TABLE pairs RENAME {two} TO {one}",
            f"ALTER TABLE pairs RENAME third TO {two}",
        )
    after = any_master.last_key()
    any_master.sql(
        "INSERT INTO pairs (id, other, v, w) VALUES (20, 2, NULL, 'two')",
        "UPDATE pairs SET v = 'was null'",
        "DELETE FROM pairs WHERE other = 2",
    )
    inserted, *updated, deleted = any_master.items(after)
    assert [item.guid for item in (inserted, *updated, deleted)] == ["2", "1", "2", "2"]
    assert '<col name="v" type="null"></col>' in (inserted.content or "")
    for item in updated:
        assert '<col name="v" type="null"></col>' in (item.oldcontent or ""), item
    assert any_master.value("SELECT demo_check_structure()") is not None
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


def test_tables_that_swap_their_names_stay_apart(orders: Master) -> None:
    orders.sql("CREATE TABLE news (id int PRIMARY KEY, v text, n int)")
    orders.register("orders", "news")
    after = orders.last_key()
    orders.sql(
        "ALTER TABLE orders RENAME TO tmp",
        "ALTER TABLE news RENAME TO orders",
        "ALTER TABLE tmp RENAME TO news",
        "INSERT INTO news VALUES (7, 'was orders', 0)",
    )
    assert [
        (item.table.name, table_definition.parse(item.content or "").table.name) for item in ddl(orders, after)
    ] == [
        ("orders", "tmp"),
        ("news", "orders"),
        ("tmp", "news"),
    ]
    assert orders.items()[-1].table.name == "news"
    assert orders.rows("SELECT * FROM demo_capture_faults()") == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", ["SELECT demo_check_structure()", "INSERT INTO orders VALUES (8, 'was news', 0)"])
@pytest.mark.parametrize("names", [("orders", "news"), ("orders", "news", "third")])
def test_names_swapped_between_two_polls_are_distinguished(
    database: Callable[..., ConnectionInfo], names: tuple[str, ...], first: str
) -> None:
    master = Master(database(role=True))
    master.sql(*(f"CREATE TABLE {name} (id int PRIMARY KEY, v text, n int)" for name in names))
    master.install()
    master.register(*names)
    after = master.last_key()
    ring = ["tmp", *names]
    with master.connection.transaction():
        master.sql(*(f"ALTER TABLE {was} RENAME TO {now}" for now, was in pairwise(ring)))
        master.sql(f"ALTER TABLE tmp RENAME TO {names[-1]}")
    master.sql(first, f"INSERT INTO {names[-1]} VALUES (7, 'was orders', 0)")
    called = {name: name for name in names}
    for item in ddl(master, after):
        assert item.action == "ALTER"
        new = table_definition.parse(item.content or "").table.name
        assert new not in called
        called[new] = called.pop(item.table.name)
    assert called == {names[-1]: names[0]} | dict(pairwise(names))
    assert {item.table.name for item in master.items(after)} <= {"orders", names[-1]}
    assert master.value("SELECT demo_check_structure()") == 0
    assert master.rows("SELECT * FROM demo_capture_faults()") == []


def test_a_registered_table_takes_the_name_of_a_dropped_one(any_master: Master) -> None:
    any_master.sql("CREATE TABLE news (id int PRIMARY KEY, v text, n int)")
    any_master.register("orders", "news")
    after = any_master.last_key()
    any_master.sql("DROP TABLE orders", "ALTER TABLE news RENAME TO orders")
    any_master.sql("INSERT INTO orders VALUES (2, 'was news', 0)", "SELECT demo_check_structure()")
    items = any_master.items(after, ddl=True)
    assert [(item.action, item.table.name) for item in items] == [
        ("DROP", "orders"),
        ("ALTER", "news"),
        ("INSERT", "orders"),
    ]
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "drop",
    ["", "DROP TABLE orders_old before", "DROP TABLE orders_old"],
    ids=["the old one stays", "the old one is dropped first", "the old one is dropped"],
)
@pytest.mark.parametrize("together", [True, False], ids=["in one transaction", "one by one"])
def test_a_table_built_anew_under_another_name_is_captured_as_the_former_one(
    any_master: Master, drop: str, together: bool
) -> None:
    after = any_master.last_key()
    first = drop.endswith("before")
    statements = [
        "CREATE TABLE orders_new (LIKE orders INCLUDING ALL)",
        "INSERT INTO orders_new SELECT id, v, n + 100 FROM orders",
        "ALTER TABLE orders RENAME TO orders_old",
        *([drop.removesuffix(" before")] if first else []),
        "ALTER TABLE orders_new RENAME TO orders",
        "UPDATE orders SET n = n + 1",
        *([drop] if drop and not first else []),
    ]
    if together:
        with any_master.connection.transaction():
            any_master.sql(*statements)
    else:
        for statement in statements:
            any_master.sql(statement)
    any_master.sql("SELECT demo_check_structure()", "INSERT INTO orders VALUES (2, 'b', 5)")
    if not drop:
        any_master.sql("UPDATE orders_old SET n = 0")
    items = any_master.items(after, ddl=True)
    assert [item.table.name for item in items if item.action == "CREATE"] == ["orders"]
    names: dict[str, dict[str | None, dict[str, str | None]]] = {"orders": {"1": {"id": "1", "v": "a", "n": "10"}}}
    for item in items:
        if item.action == "ALTER":
            names[table_definition.parse(item.content or "").table.name] = names.pop(item.table.name)
        elif item.action == "CREATE":
            assert item.table.name not in names
            names[item.table.name] = {}
        elif item.action == "DROP":
            del names[item.table.name]
        else:
            names[item.table.name][item.guid] = item.new
    assert names["orders"] == {
        "1": {"id": "1", "v": "a", "n": any_master.value("SELECT n::text FROM orders WHERE id = 1")},
        "2": {"id": "2", "v": "b", "n": "5"},
    }
    assert names.get("orders_old") == (None if drop else {"1": {"id": "1", "v": "a", "n": "0"}})
    assert any_master.value("SELECT status FROM demo_tables WHERE tablename = 'orders'") == "OK"
    assert any_master.value("SELECT demo_check_structure()") == 0


def test_a_renamed_table_leaves_its_first_name_alone_until_it_is_taken(any_master: Master) -> None:
    for name in ("second", "third", "orders", "second"):
        former = any_master.value("SELECT tablename FROM demo_tables")
        any_master.sql(f"ALTER TABLE {former} RENAME TO {name}", "SELECT demo_check_structure()")
    any_master.sql("CREATE TABLE third (id int PRIMARY KEY)", "SELECT demo_check_structure()")
    assert any_master.rows("SELECT tablename, status FROM demo_tables") == [("second", "OK")]
    any_master.sql("CREATE TABLE orders (id int PRIMARY KEY)", "SELECT demo_check_structure()")
    assert sorted(any_master.rows("SELECT tablename, status FROM demo_tables")) == [("orders", "OK"), ("second", "OK")]
    any_master.sql("INSERT INTO orders VALUES (5)", "INSERT INTO second VALUES (6)")
    assert [(item.table.name, item.guid) for item in any_master.items()[-2:]] == [("orders", "5"), ("second", "6")]
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


def test_a_table_that_is_a_partition_for_a_while_says_afterwards_what_it_was(any_master: Master) -> None:
    after = any_master.last_key()
    any_master.sql(
        "BEGIN; ALTER TABLE orders RENAME TO part; "
        "CREATE TABLE orders (LIKE part) PARTITION BY RANGE (id); "
        "ALTER TABLE orders ATTACH PARTITION part DEFAULT; "
        "DELETE FROM part WHERE id = 5; "
        "ALTER TABLE orders DETACH PARTITION part; DROP TABLE orders; "
        "ALTER TABLE part ADD w int; ALTER TABLE part RENAME TO orders; COMMIT",
        "SELECT demo_check_structure()",
    )
    named = [
        (table_definition.parse(item.oldcontent or "").table.name, table_definition.parse(item.content).table.name)
        for item in ddl(any_master, after)
        if item.action == "ALTER" and item.content
    ]
    assert ("orders", "part") in named
    assert ("part", "orders") in named
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


def test_changes_before_a_key_is_noticed_are_those_of_a_table_without_it(
    database: Callable[..., ConnectionInfo],
) -> None:
    info = database(role=True)
    master = Master(info)
    master.sql("CREATE TABLE orders (id int NOT NULL, n int)")
    master.install()
    master.register("orders")
    with connection.connect(info, application="test", autocommit=True) as session:
        queue = PostgresQueue(session, Prefix("DEMO_"), "public")

        def key(seen: Position) -> list[str]:
            table = TableName("public", "orders")
            return [column.name for column in queue.definitions([table], seen, 0)[table].key]

        seen = queue.take()
        master.sql("INSERT INTO orders VALUES (1, 1)", "ALTER TABLE orders ADD PRIMARY KEY (id)")
        assert master.items()[-1].guid == ""
        assert key(seen) == []
        master.sql("SELECT demo_check_structure()")
        assert (key(seen), key(queue.take())) == ([], ["id"])


@pytest.mark.releases
def test_a_dropped_table_is_queued_and_one_of_its_name_is_captured_again(any_master: Master) -> None:
    after = any_master.last_key()
    any_master.sql("DROP TABLE orders")
    any_master.sql("SELECT demo_check_structure()")
    (drop,) = ddl(any_master, after)
    assert (drop.action, drop.content) == ("DROP", None)
    assert columns(drop.oldcontent) == {"id": "integer", "v": "text", "n": "integer"}
    assert any_master.rows("SELECT tablename, status FROM demo_tables") == [("orders", "CREATING")]
    assert any_master.rows("SELECT relname FROM demo_current_tables") == []

    any_master.sql("CREATE TABLE orders AS SELECT g AS id, 'x' AS w FROM generate_series(1, 3) g")
    any_master.sql("SELECT demo_check_structure()", "DELETE FROM orders WHERE id = 1")
    items = any_master.items(drop.repl_key, ddl=True)
    assert [item.action for item in items] == ["CREATE", "INSERT", "INSERT", "INSERT", "DELETE"]
    assert any_master.rows("SELECT tablename, status FROM demo_tables") == [("orders", "OK")]
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


def test_a_table_replaced_between_two_polls_is_dropped_and_created(database: Callable[..., ConnectionInfo]) -> None:
    master = Master(database(role=True))
    master.sql(ORDERS)
    master.install()
    master.register("orders")
    after = master.last_key()
    master.sql("DROP TABLE orders", "CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    assert master.value("SELECT demo_check_structure()") == 1
    assert [item.action for item in master.items(after, ddl=True)] == ["DROP", "CREATE", "INSERT"]


def test_another_object_of_the_name_is_left_alone(orders: Master) -> None:
    after = orders.last_key()
    orders.sql(
        "DROP TABLE orders",
        "CREATE VIEW orders AS SELECT 1 AS id",
        "DROP VIEW orders",
        "CREATE UNLOGGED TABLE orders (id int)",
    )
    assert [item.action for item in orders.items(after, ddl=True)] == ["DROP"]


def test_ddl_on_other_tables_is_no_concern(orders: Master) -> None:
    after = orders.last_key()
    orders.sql(
        "CREATE TABLE others (id int PRIMARY KEY)",
        "ALTER TABLE others ADD v int",
        "CREATE TEMP TABLE orders (id int)",
        "ALTER TABLE pg_temp.orders ADD z int",
        "DROP TABLE pg_temp.orders, others",
        "CREATE TABLE many AS SELECT 1 AS one",
    )
    assert orders.items(after, ddl=True) == []
    assert orders.rows("SELECT * FROM demo_capture_faults()") == []


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE parent ADD z int DEFAULT 4", ["id", "v", "w", "x", "z"]),
        ("ALTER TABLE parent DROP v", ["id", "w", "x"]),
        ("ALTER TABLE parent RENAME v TO y", ["id", "y", "w", "x"]),
    ],
)
def test_an_alter_of_a_parent_is_one_of_all_that_inherit_from_it(
    any_master: Master, statement: str, expected: list[str]
) -> None:
    any_master.sql(
        "CREATE TABLE parent (id int, v text)",
        "CREATE TABLE child (w int) INHERITS (parent)",
        "CREATE TABLE grandchild (x int, PRIMARY KEY (id)) INHERITS (child)",
    )
    any_master.register("grandchild")
    any_master.sql("INSERT INTO grandchild VALUES (1, 'a', 2, 3)")
    after = any_master.last_key()
    any_master.sql(statement, "UPDATE grandchild SET w = 5", "INSERT INTO grandchild (id, w) VALUES (2, 6)")
    items = any_master.items(after, ddl=True)
    assert [item.action for item in items] == ["ALTER", "UPDATE", "INSERT"]
    assert all(sorted(item.new) == sorted(expected) for item in items[1:])
    assert any_master.rows("SELECT * FROM demo_capture_faults()") == []


def test_a_key_that_comes_or_goes_changes_guid_at_once(any_master: Master) -> None:
    any_master.sql("ALTER TABLE orders DROP CONSTRAINT orders_pkey", "UPDATE orders SET n = 1")
    assert any_master.items()[-1].guid == ""
    any_master.sql(
        "CREATE UNIQUE INDEX k ON orders (v)", "ALTER TABLE orders ALTER v SET NOT NULL", "UPDATE orders SET n = 2"
    )
    assert any_master.items()[-1].guid == "a"
    any_master.sql("DROP INDEX k", "UPDATE orders SET n = 3")
    assert any_master.items()[-1].guid == ""


def test_a_publication_of_all_tables_keeps_no_definition_from_changing(
    any_master: Master, postgres: PostgresServer
) -> None:
    with postgres.connect(any_master.info.database) as admin:
        admin.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    after = any_master.last_key()
    any_master.sql(
        "ALTER TABLE orders ADD w int",
        "UPDATE orders SET w = 5",
        "ALTER TABLE orders DROP n",
        "INSERT INTO orders VALUES (2, 'b', 6)",
        "SELECT demo_check_structure()",
    )
    actions = [item.action for item in any_master.items(after, ddl=True)]
    assert actions == ["ALTER", "UPDATE", "ALTER", "INSERT"]
    any_master.register()
