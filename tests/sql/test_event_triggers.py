"""The DDL that event triggers report, and event triggers of an older version."""

import pytest

from sluice import sql_files
from sluice.model import table_definition
from sluice.model.names import Prefix
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.sql.master import ORDERS, Master

TAKEN_ALONG = {
    "DROP TYPE mood CASCADE": ("CREATE TYPE mood AS ENUM ('a')", "ADD m mood"),
    "DROP DOMAIN word CASCADE": ("CREATE DOMAIN word AS text", "ADD m word"),
    "DROP COLLATION other CASCADE": ("CREATE COLLATION other (LOCALE = 'C')", "ADD m text COLLATE other"),
    "DROP SCHEMA away CASCADE": ("CREATE SCHEMA away CREATE TABLE row_type (a int)", "ADD m away.row_type"),
    "DROP VIEW shown CASCADE": ("CREATE VIEW shown AS SELECT 1 AS a", "ADD m shown"),
    "DROP FUNCTION twice CASCADE": (
        "CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1'",
        "ADD m int GENERATED ALWAYS AS (twice(id)) STORED",
    ),
}
"""What makes it, and what of ORDERS hangs on it."""


def columns(master: Master) -> list[str]:
    last = master.items(0, ddl=True)
    (alter, *_) = [item for item in reversed(last) if item.action == "ALTER"]
    return [column.name for column in table_definition.parse(alter.content or "").shape.columns]


@pytest.mark.releases
@pytest.mark.one_in(12)
@pytest.mark.parametrize("drop", TAKEN_ALONG)
def test_a_column_dropped_by_cascade_is_noticed_and_no_statement_fails(any_master: Master, drop: str) -> None:
    make, column = TAKEN_ALONG[drop]
    any_master.sql(make, f"ALTER TABLE orders {column}", "SELECT demo_check_structure()")
    after = any_master.last_key()
    any_master.sql(drop, "INSERT INTO orders VALUES (2, 'b', 20)", "UPDATE orders SET n = 21 WHERE id = 2")
    items = any_master.items(after, ddl=True)
    assert [item.action for item in items] == ["ALTER", "INSERT", "UPDATE"]
    assert columns(any_master) == ["id", "v", "n"]
    assert any_master.value("SELECT demo_check_structure()") == 0


def test_a_default_dropped_with_its_sequence_is_noticed(any_master: Master) -> None:
    any_master.sql("CREATE SEQUENCE numbers", "ALTER TABLE orders ALTER n SET DEFAULT nextval('numbers')")
    any_master.sql("SELECT demo_check_structure()")
    after = any_master.last_key()
    any_master.sql("DROP SEQUENCE numbers CASCADE", "INSERT INTO orders (id) VALUES (2)")
    any_master.sql("SELECT demo_check_structure()")
    assert sorted(item.action for item in any_master.items(after, ddl=True)) == ["ALTER", "INSERT"]


def test_a_table_of_a_type_follows_it_and_no_statement_fails(any_master: Master) -> None:
    any_master.sql("CREATE TYPE entry AS (id int, v text, n int)", "CREATE TABLE lines OF entry (PRIMARY KEY (id))")
    any_master.register("lines")
    for number, (change, column) in enumerate((("DROP", "n"), ("ADD", "w int"), ("RENAME", "v TO x")), 1):
        after = any_master.last_key()
        any_master.sql(
            f"ALTER TYPE entry {change} ATTRIBUTE {column} CASCADE", f"INSERT INTO lines (id) VALUES ({number})"
        )
        expected = {"DROP": ["id", "v"], "ADD": ["id", "v", "w"], "RENAME": ["id", "x", "w"]}[change]
        alter, insert = any_master.items(after, ddl=True)
        assert (alter.action, insert.action, list(insert.new)) == ("ALTER", "INSERT", expected)


def test_ddl_of_other_tables_queues_nothing(any_master: Master) -> None:
    any_master.sql("CREATE TYPE mood AS ENUM ('a')", "CREATE TABLE mine (id serial PRIMARY KEY, m mood)")
    after = any_master.last_key()
    any_master.sql("DROP TYPE mood CASCADE", "DROP TABLE mine", "CREATE TEMP TABLE t (id serial)", "DROP TABLE t")
    assert any_master.items(after, ddl=True) == []


@pytest.mark.parametrize("schema", ["public", "Odd Schema", "select"])
def test_the_apply_knows_whether_event_triggers_report_ddl(database, schema: str) -> None:  # type: ignore[no-untyped-def]
    master = Master(database(), schema=schema)
    master.sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    assert not PostgresQueue(master.connection, Prefix("DEMO_"), schema).has_event_triggers(), "nothing is installed"
    master.install()
    assert PostgresQueue(master.connection, Prefix("DEMO_"), schema).has_event_triggers()
    ((name,), *_) = master.rows("SELECT evtname FROM pg_event_trigger")
    master.sql(f"ALTER EVENT TRIGGER {name} DISABLE")
    assert not PostgresQueue(master.connection, Prefix("DEMO_"), schema).has_event_triggers()


def test_those_of_an_older_version_are_made_anew_and_disabled_ones_stay_disabled(master: Master) -> None:
    def found() -> dict[str, tuple[str, list[str] | None]]:
        rows = master.rows("SELECT evtname, evtenabled, evttags FROM pg_event_trigger")
        return {name.rsplit("_", 1)[0]: (enabled, tags) for name, enabled, tags in rows}

    new = found()
    assert set(new) == {"demo_ddl_end", "demo_ddl_drop", "demo_ddl_rewrite"}
    assert {enabled for enabled, _ in new.values()} == {"A"}
    full = {name.rsplit("_", 1)[0]: name for (name,) in master.rows("SELECT evtname FROM pg_event_trigger")}
    for name, event in (("demo_ddl_end", "ddl_command_end"), ("demo_ddl_drop", "sql_drop")):
        tag = "ALTER TABLE" if event == "ddl_command_end" else "DROP TABLE"
        master.sql(
            f"DROP EVENT TRIGGER {full[name]}",
            f"CREATE EVENT TRIGGER {full[name]} ON {event} WHEN TAG IN ('{tag}') EXECUTE FUNCTION {name}()",
        )
    master.sql(f"ALTER EVENT TRIGGER {full['demo_ddl_drop']} DISABLE")
    master.sql(sql_files.render("postgres", "event_triggers", prefix="demo_", schema='"public"'))
    assert found() == {**new, "demo_ddl_drop": ("D", ["DROP TABLE"])}


@pytest.mark.releases
def test_values_that_a_rewrite_changed_are_queued_though_the_definition_is_the_same(master: Master) -> None:
    master.sql(ORDERS, "INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', NULL)")
    master.register("orders")
    after = master.last_key()
    master.sql("ALTER TABLE orders ALTER n TYPE int USING n * 100")
    items = master.items(after, ddl=True)
    assert [(item.action, item.new["id"], item.new["n"]) for item in items] == [
        ("UPDATE", "1", "1000"),
        ("UPDATE", "2", None),
    ]
    after = master.last_key()
    master.sql("ALTER TABLE orders SET UNLOGGED", "ALTER TABLE orders SET LOGGED", "VACUUM FULL orders")
    master.sql("ALTER TABLE orders ADD g int GENERATED ALWAYS AS (id * 2) STORED")
    assert [item.action for item in master.items(after, ddl=True)] == ["ALTER"], "no row looks different to a slave"


def test_disabling_our_triggers_gives_a_warning(master: Master) -> None:
    master.sql(ORDERS)
    master.register("orders")
    heard: list[str] = []
    master.connection.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    master.sql("ALTER TABLE orders DISABLE TRIGGER ALL")
    assert heard == [
        "The triggers that capture public.orders are disabled: no slave gets what changes until they are enabled again"
    ]
    heard.clear()
    master.sql("ALTER TABLE orders ENABLE TRIGGER ALL", "ALTER TABLE orders ADD w int", "INSERT INTO orders VALUES (1)")
    assert heard == [] and [item.action for item in master.items(0, ddl=True)][-1] == "INSERT"


def test_an_added_attribute_of_a_composite_type_is_captured_exactly(any_master: Master) -> None:
    any_master.sql("CREATE TYPE pair AS (a int, b int)", "ALTER TABLE orders ADD p pair")
    any_master.sql("SELECT demo_check_structure()")
    any_master.sql("ALTER TYPE pair ADD ATTRIBUTE t text", "ALTER TYPE pair ADD ATTRIBUTE d date")
    any_master.sql("SELECT demo_check_structure()", "SET datestyle = 'SQL, DMY'")
    hostile = '</col><col name="id">666'
    any_master.sql(f"INSERT INTO orders VALUES (3, 'c', 30, ROW(1, 2, '{hostile}', DATE '2024-02-01'))")
    assert any_master.items()[-1].new == {
        "id": "3", "v": "c", "n": "30", "p": '(1,2,"' + hostile.replace('"', '""') + '",2024-02-01)',
    }  # fmt: skip


def test_values_that_come_from_a_domain_are_queued(any_master: Master) -> None:
    any_master.sql("CREATE DOMAIN guid AS uuid DEFAULT gen_random_uuid()")
    after = any_master.last_key()
    any_master.sql("ALTER TABLE orders ADD g guid", "SELECT demo_check_structure()")
    alter, update = any_master.items(after, ddl=True)
    assert (alter.action, update.action) == ("ALTER", "UPDATE")
    assert update.new["g"] == str(any_master.value("SELECT g FROM orders"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("change", ["ALTER TYPE mood RENAME TO humour", "ALTER TYPE mood SET SCHEMA other"])
def test_a_renamed_type_fails_no_statement(any_master: Master, change: str) -> None:
    any_master.sql("CREATE SCHEMA other", "CREATE TYPE mood AS ENUM ('a', 'b')", "ALTER TABLE orders ADD m mood")
    any_master.sql("SELECT demo_check_structure()", "INSERT INTO orders VALUES (2, 'b', 20, 'a'), (3, 'c', 30, 'b')")
    after = any_master.last_key()
    any_master.sql(change, "UPDATE orders SET n = n + 1", "DELETE FROM orders")
    changes = [item for item in any_master.items(after, ddl=True) if item.action != "ALTER"]
    assert [item.action for item in changes] == ["UPDATE"] * 3 + ["DELETE"] * 3
    assert [item.new["m"] for item in changes[:3]] == [None, "a", "b"]
