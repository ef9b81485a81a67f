"""DDL and capture make no transaction of the application wait for another one, under any planner settings."""

import json
from collections.abc import Callable, Iterator

import psycopg
import pytest

from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect
from tests.sql.master import Master

TABLES = (
    "CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE plain (id int PRIMARY KEY, v text)",
    "CREATE TABLE x (id int PRIMARY KEY)",
    "CREATE TABLE y (id int PRIMARY KEY)",
    "CREATE SCHEMA other",
)

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture(params=["event triggers", "comparison"])
def master(request: pytest.FixtureRequest, database: Callable[..., ConnectionInfo]) -> Master:
    made = Master(database(role=request.param == "comparison"))
    made.sql("CREATE SCHEMA IF NOT EXISTS public", *TABLES)
    made.install()
    made.register("parted", "plain", "x", "y")
    made.sql("INSERT INTO plain VALUES (1, 'a')")
    return made


@pytest.fixture
def pair(master: Master) -> Iterator[tuple[Session, Session]]:
    """Two sessions of the application. The second one's statements fail if they wait."""
    first, second = master.session(), master.session(lock_timeout="2s")
    yield first, second
    first.close()
    second.close()


def run(session: Session, *statements: str) -> None:
    for statement in statements:
        session.execute(statement.encode())


def rows_of(master: Master, after: int, table: str) -> list[str | None]:
    """The keys of the rows inserted into `table`, under any schema."""
    return [item.guid for item in master.items(after) if item.table.name == table and item.action == "INSERT"]


@pytest.mark.one_in(14)
@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("ALTER TABLE parted ADD note text", "parted"),
        ("ALTER TABLE parted RENAME v TO w", "parted"),
        ("ALTER TABLE parted RENAME TO renamed", "renamed"),
        ("ALTER TABLE plain ADD note text", "plain"),
        ("ALTER TABLE plain RENAME TO renamed", "renamed"),
        ("ALTER TABLE plain SET SCHEMA other", "other.plain"),
        ("ALTER SCHEMA other RENAME TO another; ALTER TABLE plain DROP CONSTRAINT plain_pkey", "plain"),
    ],
)
def test_a_writer_after_ddl_waits_for_no_other_one(
    master: Master, pair: tuple[Session, Session], change: str, table: str
) -> None:
    first, second = pair
    master.sql(*change.split("; "))
    after = master.last_key()
    run(first, "BEGIN", f"INSERT INTO {table} (id) VALUES (11)")
    run(second, f"INSERT INTO {table} (id) VALUES (12)", f"INSERT INTO {table} (id) VALUES (13)")
    run(first, "COMMIT")
    inserted = [item for item in master.items(after) if item.action == "INSERT"]
    assert {item.new["id"] for item in inserted} == {"11", "12", "13"}
    assert {item.table for item in inserted} == {TableName.parse(table if "." in table else f"public.{table}")}
    master.sql("SELECT demo_check_structure()")
    assert master.rows("SELECT * FROM demo_capture_faults()") == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("end", ["COMMIT", "PREPARE TRANSACTION 'days'"])
def test_renames_of_two_tables_wait_neither_for_each_other_nor_for_a_prepared_transaction(
    master: Master, pair: tuple[Session, Session], end: str
) -> None:
    first, second = pair
    run(first, "BEGIN", "ALTER TABLE x RENAME TO x2", "INSERT INTO x2 VALUES (1)")
    if end != "COMMIT":
        run(first, end)
    after = master.last_key()
    run(second, "BEGIN", "ALTER TABLE y RENAME TO y2", "INSERT INTO y2 VALUES (2)", "COMMIT")
    run(second, "DROP TABLE plain", "CREATE TABLE plain (id int PRIMARY KEY)", "ALTER TABLE parted ADD note text")
    run(second, "INSERT INTO parted (id) VALUES (3)")
    assert rows_of(master, after, "y2") == ["2"] and rows_of(master, after, "parted") == ["3"]
    master.sql("SELECT demo_check_structure()")
    run(first, "COMMIT" if end == "COMMIT" else "COMMIT PREPARED 'days'")
    master.sql("SELECT demo_check_structure()")
    assert rows_of(master, 0, "x2") == ["1"]
    assert master.rows("SELECT * FROM demo_capture_faults()") == []
    assert master.rows("SELECT FROM pg_locks WHERE locktype = 'advisory'") == []


SETTINGS = (
    "enable_nestloop=off", "enable_sort=off", "enable_seqscan=off", "enable_indexscan=off", "enable_hashjoin=off",
    "jit_above_cost=0", "join_collapse_limit=1", "from_collapse_limit=1", "geqo_threshold=2",
    "plan_cache_mode=force_custom_plan", "plan_cache_mode=force_generic_plan", "random_page_cost=100000",
    "cpu_tuple_cost=1000", "work_mem=64",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [SETTINGS[:2], pytest.param(SETTINGS[2:], marks=[pytest.mark.long, pytest.mark.releases])],
    ids=["worst", "others"],
)
def test_no_planner_setting_of_the_application_makes_ddl_slow(
    database: Callable[..., ConnectionInfo], settings: tuple[str, ...]
) -> None:
    master = Master(database())
    master.sql("CREATE TYPE mood AS ENUM ('a')")
    master.install()
    lines = {"lines": [{"schema": "public", "name": "^t_", "actions": "IUD", "debug": 0}], "keyed": False}
    master.sql("INSERT INTO demo_info VALUES ('wildcards', '" + json.dumps({**lines, "master": [], "slave": []}) + "')")
    for number, setting in enumerate(settings):
        name, value = setting.split("=")
        # Without settings of our own, the first two do not end within five minutes.
        session = master.session(**{name: value, "statement_timeout": "60s"})
        table = f"t_{number}"
        after = master.last_key()
        run(
            session, f"CREATE TABLE {table} (id int PRIMARY KEY, m mood, a text)", f"ALTER TABLE {table} ADD b int",
            f"CREATE INDEX ON {table} (b)", f"INSERT INTO {table} VALUES (1, 'a', 'x', 2)",
            f"ALTER TABLE {table} RENAME TO {table}_r", f"DROP TABLE {table}_r",
            f"CREATE TABLE {table}_p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
            f"CREATE TABLE {table}_p1 PARTITION OF {table}_p FOR VALUES FROM (0) TO (9)",
        )  # fmt: skip
        session.close()
        actions = [item.action for item in master.items(after, ddl=True)]
        assert actions == ["CREATE", "ALTER", "INSERT", "ALTER", "DROP", "CREATE"], setting


@pytest.mark.one_in(2)
def test_the_definition_of_a_locked_table_is_read_at_once(master: Master, pair: tuple[Session, Session]) -> None:
    first, second = pair
    master.sql("ALTER TABLE plain ALTER v SET DEFAULT 'x'", "SELECT demo_check_structure()")
    run(first, "BEGIN", "LOCK TABLE plain IN ACCESS EXCLUSIVE MODE")
    run(second, "SELECT demo_describe('public', 'plain')", "SELECT demo_check_structure()")
    with connect(master.info, application="test") as session:
        session.execute("SET lock_timeout = '2s'")
        (shape,) = catalog.shapes(session, [TableName("public", "plain")]).values()
    assert [column.default for column in shape.columns] == [None, "'x'::text"]


def test_a_drop_gives_no_notice_and_no_serialization_failure(master: Master, pair: tuple[Session, Session]) -> None:
    first, second = pair
    heard: list[str] = []
    second.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    run(first, "BEGIN ISOLATION LEVEL SERIALIZABLE", "DROP TABLE x", "PREPARE TRANSACTION 'drop'")
    run(second, "BEGIN ISOLATION LEVEL SERIALIZABLE", "DROP TABLE y", "COMMIT", "DROP TABLE plain")
    run(first, "COMMIT PREPARED 'drop'")
    assert heard == []
    master.sql("SELECT demo_check_structure()")
    dropped = {item.table.name for item in master.items(0, ddl=True) if item.action == "DROP"}
    assert dropped == {"x", "y", "plain"}
    functions = "SELECT count(*) FROM pg_proc WHERE proname ~ '^demo_capture_(x|y|plain)_'"
    assert master.value(functions) == 0, "the comparison drops them"


@pytest.mark.one_in(2)
def test_a_change_that_two_transactions_find_is_written_once_in_each(
    master: Master, pair: tuple[Session, Session]
) -> None:
    first, second = pair
    master.sql("ALTER TABLE parted ADD note text")
    run(first, "BEGIN", "INSERT INTO parted SELECT g FROM generate_series(1, 5) g")
    after = master.last_key()
    run(second, "BEGIN", "INSERT INTO parted SELECT g FROM generate_series(11, 15) g", "DELETE FROM parted", "COMMIT")
    actions = [item.action for item in master.items(after, ddl=True)]
    expected = [] if master.value("SELECT demo_has_event_triggers()") else ["ALTER"]
    assert actions == [*expected, *["INSERT"] * 5, *["DELETE"] * 5]
    run(first, "COMMIT")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize(
    ("change", "actions"),
    [
        ("ALTER TABLE {t} ADD note text", ["ALTER"]),
        ("ALTER TABLE {t} RENAME v TO w", ["ALTER"]),
        ("ALTER TABLE {t} ALTER v SET NOT NULL", ["ALTER"]),
        ("ALTER TABLE {t} ALTER v TYPE text USING 'spoilt'", ["UPDATE"]),
        ("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey; ALTER TABLE {t} ADD PRIMARY KEY (id, v)", ["ALTER"]),
        ("CREATE UNIQUE INDEX ON {t} (id, v)", []),
        ("ALTER TABLE {t} RENAME TO renamed", ["ALTER"]),
        ("ALTER TABLE {t} SET SCHEMA other", ["ALTER"]),
        ("DROP TABLE {t}", ["DROP"]),
    ],
)
def test_ddl_in_a_transaction_that_is_older_than_a_comparison_does_not_fail(
    master: Master, pair: tuple[Session, Session], isolation: str, change: str, actions: list[str]
) -> None:
    application, _ = pair
    for table in ("plain", "parted"):
        master.sql(f"INSERT INTO {table} VALUES (7, 'b')", f"ALTER TABLE {table} ADD since text")
    run(application, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT FROM plain")
    master.sql("SELECT demo_check_structure()")
    after = master.last_key()
    for table in ("plain", "parted"):
        run(application, *change.format(t=table).split("; "))
        if actions != ["DROP"]:
            name = next((name for name in ("renamed", f"other.{table}") if name.split(".")[0] in change), table)
            run(application, f"INSERT INTO {name} VALUES (8, 'c')", f"ALTER TABLE {name} RENAME TO {table}_2")
    run(application, "COMMIT")
    while master.value("SELECT demo_check_structure()"):
        pass
    if actions != ["DROP"]:
        assert [item.new["id"] for item in master.items(after) if item.action == "INSERT"] == ["8", "8"]
    done = [item.action for item in master.items(after, ddl=True)]
    assert {*actions} <= {*done}
    faults = {fault for _, _, fault in master.rows("SELECT * FROM demo_capture_faults()")}
    assert faults == ({"the table does not exist"} if actions == ["DROP"] else set())


LOCKING = {
    "rows": (
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
        "UPDATE {t} SET v = v || 'x'",
        "DELETE FROM {t} WHERE id = 1",
    ),
    "partitions": ("INSERT INTO {t}_parts SELECT g, 'a' FROM generate_series(0, 19) g", "UPDATE {t}_parts SET v = 'x'"),
    "columns": ("ALTER TABLE {t} ADD w int DEFAULT 5", "INSERT INTO {t} VALUES (1, 'a')"),
    "names": ("ALTER TABLE {t} RENAME TO {t}_renamed", "INSERT INTO {t}_renamed VALUES (1, 'a')"),
    "new tables": ("CREATE TABLE {t}_new (id int PRIMARY KEY)", "INSERT INTO {t}_new VALUES (1)"),
    "dropped tables": ("DROP TABLE {t}",),
    "truncated tables": ("TRUNCATE {t}",),
}
"""What a transaction does with each table `t`."""


@pytest.mark.long
@pytest.mark.releases
@pytest.mark.parametrize("work", LOCKING)
def test_a_transaction_holds_hardly_more_locks_however_many_tables_it_works_on(
    master: Master, database: Callable[..., ConnectionInfo], work: str
) -> None:
    """So that `max_locks_per_transaction` suffices as long as it does without capture."""
    plain = Master(database())

    def held(side: Master, tables: int) -> int:
        names = [f"lock_{tables}_{number}" for number in range(tables)]
        for name in names:
            side.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)")
            if work == "partitions":
                side.sql(
                    f"CREATE TABLE {name}_parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
                    *(
                        f"CREATE TABLE {name}_parts_{n} PARTITION OF {name}_parts FOR VALUES FROM ({n}) TO ({n + 1})"
                        for n in range(20)
                    ),
                )
        if side is master:
            side.register(*(name + suffix for name in names for suffix in ("", "_parts")[: 1 + (work == "partitions")]))
        with side.session(autocommit=False) as session:
            for name in names:
                run(session, *(statement.format(t=name) for statement in LOCKING[work]))
            count = session.execute("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()").fetchone()
            session.rollback()
        assert count is not None
        return int(str(count[0]))

    few, many = 3, 15
    more = [held(master, tables) - held(plain, tables) for tables in (few, many)]
    # PostgreSQL locks each trigger of a dropped table: there are four.
    assert more[1] - more[0] <= (many - few) * (4 if work == "dropped tables" else 1), more
