"""Everything works for an account that has only the privileges of grants.sql."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.capture import uninstall
from sluice.database.capture import TablesUnfit
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import connect
from tests.sql.master import Master, Model, wanted

pytestmark = pytest.mark.releases

ORDERS = TableName("app", "orders")


@pytest.fixture
def granted(database: Callable[..., ConnectionInfo], postgres: PostgresServer) -> Iterator[tuple[Master, Master]]:
    """The administrator, and the account of the replication; tables are in schema app, resources in schema sluice."""
    administrator = Master(database(), schema="sluice")
    account = database(role=True).user
    administrator.sql(
        "CREATE SCHEMA app",
        "CREATE SCHEMA sluice",
        "CREATE TABLE app.orders (id int PRIMARY KEY, v text)",
        "DROP ROLE IF EXISTS application",
        "CREATE ROLE application LOGIN",
        "GRANT USAGE ON SCHEMA app TO application",
        "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA app TO application",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        sql_files.render("postgres", "grants", role=account, schema="sluice", tables="app", owner="postgres"),
    )
    yield administrator, Master(postgres.info(administrator.info.database, account), schema="sluice")
    administrator.sql("DROP OWNED BY application", "DROP ROLE application")


def test_the_whole_life_of_a_replication_as_that_account(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    assert master.install().changed
    master.register(ORDERS)
    application = administrator.session()
    application.execute("SET ROLE application")
    application.execute("INSERT INTO app.orders VALUES (1, 'a'), (2, '<b>')")
    application.execute("UPDATE app.orders SET v = 'c'")
    application.execute("DELETE FROM app.orders WHERE id = 1")
    assert Model().replay(master.items()).contents(ORDERS) == administrator.contents(ORDERS)
    application.execute("TRUNCATE app.orders")
    assert master.items()[-1].action == "TRUNCATE"

    administrator.sql("ALTER TABLE app.orders ADD w int")
    application.execute("INSERT INTO app.orders VALUES (3, 'x', 7)")
    assert [item.action for item in master.items(ddl=True)][-2:] == ["ALTER", "INSERT"]
    # TRUNCATE made other files, as an ALTER that rewrites values does: the row follows once more.
    assert [master.value("SELECT sluice.demo_check_structure()") for _ in range(2)] == [1, 0]

    administrator.sql("ALTER TABLE app.orders DISABLE TRIGGER ALL")
    assert len(master.reconcile(wanted(ORDERS)).steps) == 1
    application.execute("DELETE FROM app.orders")
    assert master.items()[-1].action == "DELETE"

    after = master.last_key()
    master.reconcile(wanted(ORDERS, "D"))
    application.execute("INSERT INTO app.orders VALUES (3, 'x', 7)")
    master.reconcile()
    application.execute("DELETE FROM app.orders")
    assert master.items(after) == []
    with connect(master.info, application="test") as connection:
        assert uninstall.uninstall(connection, master.prefix, master.schema)
    assert administrator.value("SELECT count(*) FROM pg_class WHERE relnamespace = 'sluice'::regnamespace") == 0
    assert administrator.value("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.orders'::regclass") == 0


def test_types_that_the_account_may_not_use_fail_no_statement(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    master.install()
    administrator.sql("CREATE SCHEMA types", "CREATE TYPE types.mood AS ENUM ('a', 'b')")
    administrator.sql("ALTER TABLE app.orders ADD m types.mood")
    master.register(ORDERS)
    administrator.sql("INSERT INTO app.orders VALUES (1, 'x', 'a'), (2, 'y', 'b')", "UPDATE app.orders SET v = 'z'")
    administrator.sql("DELETE FROM app.orders")
    changes = [(item.action, item.new.get("m")) for item in master.items() if item.action == "UPDATE"]
    assert changes == [("UPDATE", "a"), ("UPDATE", "b")]
    assert Model().replay(master.items()).contents(ORDERS) == administrator.contents(ORDERS)


def test_a_table_dropped_and_made_again_is_captured_again(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    master.install()
    master.register(ORDERS)
    administrator.sql("DROP TABLE app.orders")
    assert master.value("SELECT sluice.demo_check_structure()") == 1
    # Default privileges of grants.sql cover tables that the same administrator makes.
    administrator.sql("CREATE TABLE app.orders (id int PRIMARY KEY)", "INSERT INTO app.orders VALUES (1)")
    assert master.value("SELECT sluice.demo_check_structure()") == 1
    administrator.sql("INSERT INTO app.orders VALUES (2)")
    # A table that was empty when it joined is told so by a second CREATE.
    actions = [item.action for item in master.items(ddl=True)]
    assert actions == ["CREATE", "CREATE", "DROP", "CREATE", "INSERT", "INSERT"]


def test_event_triggers_made_by_an_administrator_work_for_the_account(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    master.install()
    administrator.sql(sql_files.render("postgres", "event_triggers", prefix="demo_", schema="sluice"))
    master.register(ORDERS)
    after = master.last_key()
    administrator.sql(
        "ALTER TABLE app.orders ADD w int",
        "INSERT INTO app.orders VALUES (1, 'a', 5)",
        "ALTER TABLE app.orders ALTER w TYPE text",
        "DROP TABLE app.orders",
    )
    assert [item.action for item in master.items(after, ddl=True)] == ["ALTER", "INSERT", "ALTER", "UPDATE", "DROP"]
    # A table it has no privileges on must not make the owner's statement fail.
    administrator.sql(
        "ALTER DEFAULT PRIVILEGES IN SCHEMA app REVOKE ALL ON TABLES FROM " + master.info.user,
        "CREATE TABLE app.orders (id int PRIMARY KEY)",
    )
    with pytest.raises(TablesUnfit, match=r"GRANT SELECT, TRIGGER ON app\.orders TO"):
        master.reconcile(wanted(ORDERS))
    administrator.sql(f"GRANT SELECT, TRIGGER ON app.orders TO {master.info.user}")
    master.reconcile(wanted(ORDERS))
    administrator.sql("INSERT INTO app.orders VALUES (1)")
    assert master.items()[-1].action == "INSERT"


def test_missing_privileges_are_named_with_the_grant_to_run(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    master.install()
    user = master.info.user
    administrator.sql(f"REVOKE TRIGGER ON app.orders FROM {user}")
    with pytest.raises(TablesUnfit, match=f"GRANT SELECT, TRIGGER ON app.orders TO {user}"):
        master.reconcile(wanted(ORDERS))
    administrator.sql(f"REVOKE USAGE ON SCHEMA app FROM {user}")
    with pytest.raises(TablesUnfit, match=f"GRANT USAGE ON SCHEMA app TO {user}"):
        master.reconcile(wanted(ORDERS))


def test_an_application_can_neither_write_to_the_queue_nor_forge_changes(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    master.install()
    master.register(ORDERS)
    administrator.sql("GRANT USAGE ON SCHEMA sluice TO application", "GRANT CREATE ON SCHEMA app TO application")
    f = administrator.value("SELECT oid::regproc::text FROM pg_proc WHERE proname LIKE 'demo_capture_orders_%_i'")
    application = administrator.session()
    application.execute("SET ROLE application")
    application.execute("CREATE TABLE app.mine (id int, v text)")
    for statement in (
        "INSERT INTO sluice.demo_items (tablename, db_action) VALUES ('orders', 'DELETE')",
        f"CREATE TRIGGER forge AFTER INSERT ON app.mine REFERENCING NEW TABLE AS sluice_new EXECUTE FUNCTION {f}()",
        "SELECT sluice.demo_purge('{1:1:}', 0, 100, 10)",
        "SELECT sluice.demo_create_trigger('app', 'orders')",
        "SELECT sluice.demo_ddl_item('DROP', 'app', 'orders', NULL, NULL)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            application.execute(statement)  # type: ignore[call-overload]


PARTITIONED = (
    "CREATE TABLE app.events (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE app.events_1 PARTITION OF app.events FOR VALUES FROM (0) TO (10)",
)


def test_capture_functions_that_partitions_need_do_nothing_for_other_tables(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    master.install()
    administrator.sql(*PARTITIONED, f"GRANT ALL ON ALL TABLES IN SCHEMA app TO {master.info.user}")
    master.register(TableName("app", "events"))
    administrator.sql(
        "GRANT USAGE ON SCHEMA sluice TO application",
        "GRANT CREATE ON SCHEMA app TO application",
        "SET ROLE application",
        "CREATE TABLE app.mine (id int, v text)",
        "CREATE TABLE app.parted (id int, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE app.parted_1 PARTITION OF app.parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE app.heir () INHERITS (app.mine)",
    )
    functions = [
        f for (f,) in administrator.rows("SELECT oid::regproc::text FROM pg_proc WHERE proname ~ '_capture_.*_[iud]$'")
    ]
    assert len(functions) == 3
    for number, (table, function) in enumerate((t, f) for t in ("mine", "parted", "heir") for f in functions):
        event = {"i": "INSERT", "u": "UPDATE", "d": "DELETE"}[function[-1]]
        administrator.sql(
            f"CREATE TRIGGER t{number} AFTER {event} ON app.{table} FOR EACH ROW EXECUTE FUNCTION {function}()",
            f"CREATE TRIGGER s{number} AFTER {event} ON app.{table} FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
        )
    with master.captured() as found:
        for table in ("mine", "parted", "heir"):
            administrator.sql(f"INSERT INTO app.{table} VALUES (1, 'x'), (2, 'y')", f"UPDATE app.{table} SET v = 'z'")
            administrator.sql(f"DELETE FROM app.{table}")
        administrator.sql("RESET ROLE", "INSERT INTO app.events VALUES (1, 'true')")
    assert [(item.table.name, item.new["v"]) for item in found] == [("events", "true")]


def test_a_lost_right_to_make_partitions_is_found_and_given_back(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    master.install()
    administrator.sql(*PARTITIONED, f"GRANT ALL ON ALL TABLES IN SCHEMA app TO {master.info.user}")
    events = TableName("app", "events")
    master.register(events)
    assert master.reconcile(wanted(events)).steps == ()
    master.sql(
        "DO $$ BEGIN EXECUTE (SELECT format('REVOKE EXECUTE ON FUNCTION %s() FROM PUBLIC', oid::regproc) "
        "FROM pg_proc WHERE proname ~ '_capture_.*_i$'); END $$"
    )
    (step,) = master.reconcile(wanted(events)).steps
    assert "nobody may make partitions" in str(step)
    assert master.reconcile(wanted(events)).steps == ()


def test_partitions_need_the_same_privileges_and_new_ones_never_fail(granted: tuple[Master, Master]) -> None:
    administrator, master = granted
    master.install()
    administrator.sql(
        sql_files.render("postgres", "event_triggers", prefix="demo_", schema="sluice"),
        "CREATE TABLE app.events (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE app.events_1 PARTITION OF app.events FOR VALUES FROM (0) TO (10)",
        f"REVOKE ALL ON app.events_1 FROM {master.info.user}",
    )
    events = TableName("app", "events")
    with pytest.raises(TablesUnfit, match=r"GRANT SELECT, TRIGGER ON app\.events_1 TO"):
        master.reconcile(wanted(events))
    administrator.sql(f"GRANT SELECT, TRIGGER ON app.events_1 TO {master.info.user}")
    master.reconcile(wanted(events))
    administrator.sql(
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA app REVOKE ALL ON TABLES FROM {master.info.user}",
        "CREATE TABLE app.events_2 PARTITION OF app.events FOR VALUES FROM (10) TO (20)",
        "INSERT INTO app.events VALUES (1), (11)",
    )
    assert [item.guid for item in master.items()] == ["1", "11"]
