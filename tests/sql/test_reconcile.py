"""TABLES and the triggers become those of the configuration, without blocking anybody."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from sluice.capture import reconcile
from sluice.capture.plan import Remove
from sluice.configuration.resolve import ResolvedTable
from sluice.database import lock_waits
from sluice.model.connection import ConnectionInfo
from sluice.model.joining import Rows
from sluice.model.names import LONGEST_TRIGGER, TableName
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.queue import COUNTED, PostgresQueue
from tests.errors import raises_code
from tests.sql.master import Master, wanted
from tests.waiting import until


@pytest.fixture
def two(master: Master) -> Master:
    master.sql("CREATE TABLE a (id int PRIMARY KEY, v text)", "CREATE TABLE b (id int PRIMARY KEY)")
    master.register("a", "b")
    return master


@pytest.fixture
def role_master(database: Callable[..., ConnectionInfo]) -> Master:
    made = Master(database(role=True))
    made.sql("CREATE SCHEMA IF NOT EXISTS public")
    made.install()
    return made


def state(master: Master) -> list[tuple[object, ...]]:
    return master.rows("SELECT tablename, trim(actions), status, debug FROM demo_tables ORDER BY repl_key")


def test_registration_announces_the_table_and_ends_in_ok(two: Master) -> None:
    assert state(two) == [("a", "IUD", "OK", 0), ("b", "IUD", "OK", 0)]
    # Each is announced when it is registered, and once more when it is captured from its first row on.
    assert [(item.action, item.table.name, "complete" in item.content) for item in two.items(ddl=True)] == [  # type: ignore[operator]
        ("CREATE", "a", False),
        ("CREATE", "a", True),
        ("CREATE", "b", False),
        ("CREATE", "b", True),
    ]
    assert two.rows("SELECT relname FROM demo_current_tables ORDER BY 1") == [("a",), ("b",)]
    assert two.value("SELECT bool_and(trigger_name = 'DEMO_' || repl_key) FROM demo_tables")


def test_the_status_is_creating_until_the_triggers_are_there(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    master.sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE blocked (id int PRIMARY KEY)")
    monkeypatch.setattr(lock_waits, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(lock_waits, "LOCK_TRIES", 2)
    writer = master.session(autocommit=False)
    writer.execute("INSERT INTO blocked VALUES (1)")
    with raises_code("tables-busy", match=r": public\.blocked could not be locked"):
        master.register("blocked", "a")
    assert sorted(state(master)) == [("a", "IUD", "OK", 0), ("blocked", "IUD", "CREATING", 0)]
    writer.rollback()
    report = master.reconcile(wanted("a"), wanted("blocked"))
    assert [str(step) for step in report.steps] == ["repair public.blocked: no trigger was made yet"]
    assert [row[2] for row in state(master)] == ["OK", "OK"]
    # Registered once, although it took two runs.
    assert [item.table.name for item in master.items(ddl=True) if "complete" not in item.content].count("blocked") == 1  # type: ignore[operator]


def test_two_runs_at_once_take_each_step_once(master: Master) -> None:
    """Initial updates of two slaves begin together: each has planned the same steps."""
    names = [f"t{number}" for number in range(20)]
    master.sql(*(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in names))

    def by_two(configured: list[ResolvedTable]) -> None:
        sessions = [connect(master.info, application="test") for _ in range(2)]
        plans = [reconcile.propose(one, master.prefix, master.schema, configured).steps for one in sessions]
        with ThreadPoolExecutor(2) as pool:
            taken = [
                pool.submit(reconcile.apply_plan, one, master.prefix, master.schema, steps)
                for one, steps in zip(sessions, plans, strict=True)
            ]
            assert [one.result() for one in taken] == [{}, {}]
        for one in sessions:
            one.close()

    by_two([wanted(name) for name in names])
    assert state(master) == [(name, "IUD", "OK", 0) for name in names]
    by_two([])
    assert state(master) == []
    told = Counter((item.action, item.table.name) for item in master.items(ddl=True) if item.action == "DROP")
    assert told == {("DROP", name): 1 for name in names}


def test_a_busy_table_is_tried_again_after_the_others(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    master.sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE busy (id int PRIMARY KEY)")
    monkeypatch.setattr(lock_waits, "LOCK_SECONDS", 0.05)
    writer = master.session(autocommit=False)
    writer.execute("INSERT INTO busy VALUES (1)")
    running = threading.Thread(target=lambda: master.register("busy", "a"))
    running.start()
    until(lambda: master.rows("SELECT 1 FROM demo_tables WHERE tablename = 'a' AND status = 'OK'"))
    writer.commit()
    running.join(30)
    assert [row[2] for row in state(master)] == ["OK", "OK"]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ('ALTER TABLE a DISABLE TRIGGER "{t}_u"', 'trigger "{t}_u" is disabled'),
        ('DROP TRIGGER "{t}_i" ON a', 'trigger "{t}_i" is missing'),
        ('ALTER TABLE a ENABLE REPLICA TRIGGER "{t}_d"', 'trigger "{t}_d" is disabled'),
        ("UPDATE demo_tables SET status = 'CREATING' WHERE tablename = 'a'", "status is CREATING"),
        ("DELETE FROM demo_captures WHERE tablename = 'a'", "no trigger was made yet"),
        ("UPDATE demo_captures SET basis = 'x' WHERE tablename = 'a'", "the triggers are out of date"),
    ],
)
def test_damaged_captures_are_reported_and_created_again(two: Master, damage: str, fault: str) -> None:
    trigger = two.value("SELECT trigger_name FROM demo_tables WHERE tablename = 'a'")
    two.sql(damage.format(t=trigger))
    report = two.reconcile(wanted("a"), wanted("b"))
    (step,) = report.steps
    assert fault.format(t=trigger) in str(step)
    two.sql("INSERT INTO a VALUES (1)", "UPDATE a SET v = 'x'", "DELETE FROM a")
    told = ["DIFFER"] if "disabled" in fault else []
    assert [item.action for item in two.items()] == [*told, "INSERT", "UPDATE", "DELETE"]
    assert two.reconcile(wanted("a"), wanted("b")).steps == ()


@pytest.mark.one_in(2)
@pytest.mark.since(17, "setting that turns event triggers off")
@pytest.mark.parametrize("how", ["repaired", "upgraded"])
def test_changes_since_the_last_comparison_are_queued_before_capture_is_renewed(role_master: Master, how: str) -> None:
    """For an account that may create no event triggers."""
    master = role_master
    master.sql("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE p (id int) PARTITION BY LIST (id)")
    master.sql("CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1)")
    master.register("t", "p")
    after = master.last_key()
    master.sql("ALTER TABLE t ADD COLUMN w int", "CREATE TABLE p_rest PARTITION OF p DEFAULT")
    if how == "repaired":
        report = master.reconcile(wanted("t"), wanted("p"))
        assert [str(step).split(":")[0] for step in report.steps] == ["repair public.t", "repair public.p"]
    else:
        master.sql("UPDATE demo_info SET value = 'older' WHERE name = 'functions'")
        master.install()
    master.sql("INSERT INTO t VALUES (1, 'v', 2)", "INSERT INTO p VALUES (2)", "DROP TABLE p_rest")
    master.sql("SELECT demo_check_structure()")
    assert [(item.table.name, item.action) for item in master.items(after, ddl=True)] == [
        ("t", "ALTER"), ("t", "INSERT"), ("p", "INSERT"), ("p", "DELETE WHERE"),
    ]  # fmt: skip


def test_a_renamed_table_stays_captured_under_its_new_name(role_master: Master) -> None:
    """For an account that may create no event triggers, and a person who triggers reconcile_tables right after it."""
    master = role_master
    master.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    master.register("t")
    after = master.last_key()
    master.sql("ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (1, 'v')")
    assert master.reconcile(wanted("u")).steps == ()
    items = [(item.table.name, item.action) for item in master.items(after, ddl=True)]
    assert items.count(("t", "ALTER")) == 1 and {action for _, action in items} == {"ALTER", "INSERT"}


def test_a_table_that_was_made_anew_is_another_table(role_master: Master) -> None:
    """For an account that may create no event triggers, and a person who triggers reconcile_tables right after it."""
    master = role_master
    master.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    master.register("t")
    after = master.last_key()
    master.sql("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, w int)", "INSERT INTO t VALUES (1, 2)")
    master.reconcile(wanted("t"))
    master.sql("INSERT INTO t VALUES (3, 4)")
    actions = [item.action for item in master.items(after, ddl=True)]
    assert actions == ["DROP", "CREATE", "INSERT", "INSERT"]


def test_a_dropped_table_is_dropped_and_not_only_left_out(role_master: Master) -> None:
    """For an account that may create no event triggers, and a person who triggers reconcile_tables right after it."""
    master = role_master
    master.sql("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    master.register("t", "u")
    after = master.last_key()
    master.sql("DROP TABLE t")
    master.reconcile(wanted("u"))
    assert [(item.table.name, item.action) for item in master.items(after, ddl=True)] == [("t", "DROP")]
    assert master.reconcile(wanted("u")).steps == ()


def test_a_trigger_on_the_wrong_table_is_made_on_the_right_one(two: Master) -> None:
    # As after a restore that made the tables again: same names, other tables.
    two.sql("SET event_triggers = off", "DROP TABLE a", "CREATE TABLE a (id int PRIMARY KEY)", "RESET event_triggers")
    (step,) = two.reconcile(wanted("a"), wanted("b")).steps
    assert "made again" in str(step)
    two.sql("INSERT INTO a VALUES (1)")
    assert len(two.items()) == 1


def test_a_removed_table_loses_triggers_and_row_and_has_a_last_item(two: Master) -> None:
    two.sql("INSERT INTO a VALUES (1)")
    before = two.items(ddl=True)
    report = two.reconcile(wanted("b"))
    assert [str(step) for step in report.steps] == ["remove public.a"]
    assert state(two) == [("b", "IUD", "OK", 0)]
    two.sql("INSERT INTO a VALUES (2)", "ALTER TABLE a ADD w int", "DROP TABLE a")
    *items, last = two.items(ddl=True)
    assert items == before
    assert (last.table.name, last.action, last.content) == ("a", "DROP", None) and 'table="a"' in str(last.oldcontent)
    assert two.value("SELECT count(*) FROM pg_proc WHERE proname LIKE 'demo_capture_a_%'") == 0
    assert two.rows(
        "SELECT tablename FROM demo_captures UNION SELECT tablename FROM demo_cols_table "
        "UNION SELECT relname FROM demo_current_tables"
    ) == [("b",)]


def test_a_row_deleted_by_hand_takes_the_triggers_along(two: Master) -> None:
    two.sql("DELETE FROM demo_tables WHERE tablename = 'a'", "INSERT INTO a VALUES (1)")
    assert two.items() == []


def test_changed_actions_trigger_and_order_are_carried_out(two: Master) -> None:
    two.reconcile(wanted("b", "ID", sequence=1), wanted("a", "I", sequence=2, trigger="MY_TRIGGER", debug=True))
    assert state(two) == [("b", "ID", "OK", 0), ("a", "I", "OK", 1)]
    triggers = two.rows("SELECT tgname FROM pg_trigger WHERE tgrelid = 'a'::regclass AND NOT tgisinternal")
    assert triggers == [("MY_TRIGGER_i",)]
    two.sql("INSERT INTO a VALUES (1)", "UPDATE a SET v = 'x'", "INSERT INTO b VALUES (1)", "UPDATE b SET id = 2")
    assert [(item.table.name, item.action) for item in two.items()] == [("a", "INSERT"), ("b", "INSERT")]


def test_a_plan_alone_changes_nothing(two: Master) -> None:
    before = state(two)
    with connect(two.info, application="test") as connection:
        report = reconcile.propose(connection, two.prefix, two.schema, [wanted("a", "D")])
    assert len(report.steps) == 2
    assert Remove(wanted("b").table) in report.steps
    assert state(two) == before


def test_a_keyless_table_is_pointed_out(master: Master) -> None:
    master.sql("CREATE TABLE log (line text)")
    (notice,) = master.reconcile(wanted("log")).notices
    assert "public.log has no primary key" in notice


def test_a_trigger_name_of_someone_else_is_not_taken(master: Master) -> None:
    master.sql(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        "CREATE TRIGGER mine_u AFTER UPDATE ON a FOR EACH STATEMENT EXECUTE FUNCTION f()",
    )
    with pytest.raises(psycopg.errors.DuplicateObject, match="mine_u"):
        master.reconcile(wanted("a", trigger="mine"))
    assert master.value("SELECT tgfoid::regproc::text FROM pg_trigger WHERE tgname = 'mine_u'") == "f"


def test_the_longest_trigger_name_that_may_be_configured_leaves_room_for_its_endings(master: Master) -> None:
    master.sql("CREATE TABLE a (id int PRIMARY KEY)")
    master.reconcile(wanted("a", trigger="x" * LONGEST_TRIGGER))
    names = {name for (name,) in master.rows("SELECT tgname FROM pg_trigger WHERE tgrelid = 'a'::regclass")}
    assert {f"{'x' * LONGEST_TRIGGER}{ending}" for ending in ("_i", "_u", "_d")} <= names


def test_a_table_whose_rows_are_hidden_from_the_account_is_refused(database, postgres) -> None:  # type: ignore[no-untyped-def]
    master = Master(database(role=True))
    master.install()
    with postgres.connect(master.info.database) as administrator:
        administrator.execute("CREATE TABLE secret (id int PRIMARY KEY); ALTER TABLE secret ENABLE ROW LEVEL SECURITY")
        administrator.execute(f"GRANT SELECT, TRIGGER ON secret TO {master.info.user}")
    with pytest.raises(Exception, match="row level security"):
        master.reconcile(wanted("secret"))


def test_a_joining_table_is_known_until_a_position_has_seen_it(master: Master) -> None:
    master.sql("CREATE TABLE filled AS SELECT 1 AS id", "CREATE TABLE empty (id int)", "CREATE TABLE parted (id int) "
               "PARTITION BY RANGE (id)", "CREATE TABLE p PARTITION OF parted FOR VALUES FROM (1) TO (9)",
               "INSERT INTO parted VALUES (1)")  # fmt: skip
    with connect(master.info, application="test", autocommit=True) as connection:
        before = PostgresQueue(connection, master.prefix, master.schema).take()
        master.register("filled", "empty", "parted")
        after = PostgresQueue(connection, master.prefix, master.schema).take(before)
        found = PostgresQueue(connection, master.prefix, master.schema).joining(before)
        assert {table.name: complete for table, complete in found.items()} == {
            "filled": False,
            "empty": True,
            "parted": False,
        }
        assert PostgresQueue(connection, master.prefix, master.schema).joining(after) == {}


def test_rows_are_counted_where_they_are_few_and_estimated_where_they_are_many(master: Master) -> None:
    most = COUNTED
    master.sql(
        f"CREATE TABLE few AS SELECT generate_series(1, {most})",
        f"CREATE TABLE many AS SELECT generate_series(1, {2 * most})",
        "ANALYZE many",
        f"CREATE TABLE never_analysed AS SELECT generate_series(1, {most + 1})",
    )
    names = [TableName("public", name) for name in ("few", "many", "never_analysed")]
    with connect(master.info, application="test", autocommit=True) as connection:
        found = PostgresQueue(connection, master.prefix, master.schema).row_counts(names)
    assert [found[name] for name in names] == [Rows(most, True), Rows(2 * most, False), Rows(most + 1, False)]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_snapshot_older_than_the_triggers_proves_no_table_empty(master: Master, isolation: str) -> None:
    master.sql("CREATE TABLE a (id int)")
    with master.session(default_transaction_isolation=isolation) as session:
        session.execute("INSERT INTO demo_tables (schemaname, tablename, trigger_name) VALUES ('public', 'a', 'tr')")
        session.execute("SELECT demo_create_trigger('public', 'a')")
    assert ["complete" in (item.content or "") for item in master.items(ddl=True)] == [False]


def test_a_large_file_is_not_looked_through_for_a_last_row(master: Master) -> None:
    master.sql(
        "CREATE TABLE a (id int, v text) WITH (autovacuum_enabled = false)",
        "INSERT INTO a SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g",
        "DELETE FROM a",
    )
    master.register("a")
    assert ["complete" in (item.content or "") for item in master.items(ddl=True)] == [False]
