"""DbResources: installed, installed again, upgraded, refused, removed."""

import re
import subprocess
import threading
from collections.abc import Callable

import pytest

from devstack.postgres import PostgresServer, binary
from sluice import sql_files
from sluice.capture import resources as installing
from sluice.capture import uninstall
from sluice.database.capture import ResourcesMissing, ResourcesNewer
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.source import resources
from sluice.vendors.postgres.source.resources import NamesTaken, ResourcesOutdated
from tests.sql.master import Master, ddl, wanted

EVERYTHING = """
    SELECT 'relation', c.oid::regclass::text || ' ' || c.relkind::text, c.xmin::text
        FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL SELECT 'function', p.oid::regprocedure::text, p.xmin::text
        FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
    UNION ALL SELECT 'trigger', g.tgname || g.tgrelid::regclass, g.xmin::text FROM pg_trigger g WHERE NOT g.tgisinternal
    UNION ALL SELECT 'type', t.typname, t.xmin::text FROM pg_type t WHERE t.typnamespace = 'public'::regnamespace
    UNION ALL SELECT 'event trigger', e.evtname, e.xmin::text FROM pg_event_trigger e
    UNION ALL SELECT 'schema', n.nspname, n.xmin::text FROM pg_namespace n WHERE n.nspname !~ '^pg_(toast_)?temp'
"""


@pytest.fixture
def bare(database: Callable[..., ConnectionInfo]) -> Master:
    return Master(database())


def remove(master: Master) -> bool:
    with connect(master.info, application="test") as connection:
        return uninstall.uninstall(connection, master.prefix, master.schema)


def test_every_resource_of_the_document_is_there_with_its_columns(bare: Master) -> None:
    assert bare.install().before is None
    columns: dict[str, list[str]] = {}
    for name, column in bare.rows(
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
        "WHERE c.relname LIKE 'demo\\_%' AND c.relkind IN ('r', 'v') ORDER BY a.attnum"
    ):
        columns.setdefault(name, []).append(column)
    assert columns["demo_items"] == [
        "repl_key", "trans_key", "dbid", "tablename", "guid", "db_action", "db_catalog", "db_schema", "content",
        "oldcontent", "version",
    ]  # fmt: skip
    assert columns["demo_tables"] == [
        "catalogname", "schemaname", "tablename", "actions", "status", "repl_key", "trigger_name", "debug",
    ]  # fmt: skip
    assert columns["demo_current_tables"][0] == "relname"
    assert columns["demo_debug_table"] == ["repl_key", "line"]
    assert columns["demo_longs_table"] == ["repl_key", "content"]
    assert columns["demo_cols_view"] == columns["demo_cols_table"]
    assert bare.value("SELECT seqcache FROM pg_sequence WHERE seqrelid = 'demo_seq'::regclass") == 1
    assert bare.value("SELECT demo_increment() < demo_increment()")
    bare.sql("SELECT demo_debug('a line')")
    assert bare.rows("SELECT line FROM demo_debug_table") == [("a line",)]


def test_a_second_run_changes_nothing_and_waits_for_nobody(bare: Master) -> None:
    bare.install()
    bare.sql("CREATE TABLE t (id int PRIMARY KEY)")
    bare.register("t")
    before = sorted(bare.rows(EVERYTHING))
    blocker = bare.session(autocommit=False)
    blocker.execute("LOCK TABLE demo_items, demo_tables, demo_captures, t IN ROW EXCLUSIVE MODE")
    report = bare.install()
    assert (report.before, report.after, report.files) == (len(resources.STEPS), len(resources.STEPS), ())
    assert bare.reconcile(wanted("t")).steps == ()
    blocker.rollback()
    assert sorted(bare.rows(EVERYTHING)) == before


def test_two_installers_at_once_do_not_collide(bare: Master) -> None:
    reports: list[installing.InstallReport] = []
    threads = [threading.Thread(target=lambda: reports.append(bare.install())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(report.changed for report in reports) == [False, False, False, True]


def test_a_failed_installation_leaves_nothing(bare: Master) -> None:
    before = sorted(bare.rows(EVERYTHING))
    bare.sql("CREATE TABLE demo_longs_table (mine int)")
    with pytest.raises(NamesTaken, match="demo_longs_table") as caught:
        bare.install()
    assert caught.value.names == ["demo_longs_table"]
    bare.sql("DROP TABLE demo_longs_table", "CREATE FUNCTION demo_debug(int) RETURNS int LANGUAGE sql AS 'SELECT 1'")
    with pytest.raises(NamesTaken, match="demo_debug"):
        bare.install()
    bare.sql("DROP FUNCTION demo_debug(int)")
    assert [row[:2] for row in sorted(bare.rows(EVERYTHING))] == [row[:2] for row in before]


def test_a_prefix_whose_names_another_one_owns_is_refused(bare: Master) -> None:
    # DEMO_CURRENT_ would need demo_current_tables, which is DEMO_'s CURRENT_TABLES.
    bare.install()
    with pytest.raises(NamesTaken, match="demo_current_tables"):
        Master(bare.info, Prefix("DEMO_CURRENT_")).install()


def test_a_newer_installation_is_not_touched(bare: Master) -> None:
    bare.install()
    bare.sql("UPDATE demo_info SET value = '99' WHERE name = 'version'")
    with pytest.raises(ResourcesNewer) as caught:
        bare.install()
    assert (caught.value.installed, caught.value.known) == (99, len(resources.STEPS))


def test_functions_of_an_older_release_are_replaced_and_items_stay(bare: Master) -> None:
    bare.install()
    bare.sql("CREATE TABLE t (id int PRIMARY KEY)")
    bare.register("t")
    bare.sql("INSERT INTO t VALUES (1)", "UPDATE demo_info SET value = 'older' WHERE name = 'functions'")
    with pytest.raises(ResourcesOutdated):
        bare.reconcile(wanted("t"))
    report = bare.install()
    assert report.changed
    assert set(report.files).isdisjoint(resources.STEPS)
    assert bare.reconcile(wanted("t")).steps == ()
    bare.sql("INSERT INTO t VALUES (2)")
    assert [item.guid for item in bare.items()] == ["1", "2"]


@pytest.mark.parametrize("end", ["", ", 2, 'public.t'"])
def test_capture_functions_of_an_earlier_release_go_on_until_they_are_made_anew(bare: Master, end: str) -> None:
    """Those of a table that is busy during an upgrade, or whose triggers must change, stay in force."""
    bare.install()
    bare.sql("CREATE TABLE t (id int PRIMARY KEY)")
    bare.register("t")
    now = r"(fitting\(ARRAY\[.*?::pg_catalog\.oid\[\]), '[^']*'::pg_catalog\.int2\[\], '[^']*'\)"
    changed = 0
    for (code,) in bare.rows(
        "SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_trigger g ON g.tgfoid = p.oid"
        " WHERE g.tgrelid = 't'::regclass AND p.prosrc ~ 'fitting'"
    ):
        body, count = re.subn(now, rf"\1{end})", code)
        changed += count
        bare.sql(body)
    assert changed >= 3, "as earlier releases generated them"
    bare.sql("INSERT INTO t VALUES (1)", "UPDATE t SET id = 2", "DELETE FROM t")
    assert [item.action for item in bare.items()] == ["INSERT", "UPDATE", "DELETE"]


def test_an_installation_of_version_1_is_upgraded_and_refuses_nothing_of_the_application(bare: Master) -> None:
    bare.install()
    fresh = kinds(bare)
    bare.sql(
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p0 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p1 PARTITION OF parted FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
    )
    bare.register("parted", "t")
    as_of_version_1(bare)
    bare.install()
    bare.sql("INSERT INTO parted VALUES (1), (10)", "INSERT INTO t VALUES (1, '2')")
    assert bare.value("SELECT demo_check_structure()") == 0
    bare.sql("TRUNCATE p1", "DROP TABLE p0", "ALTER TABLE t ALTER v TYPE int USING v::int")
    bare.sql("CREATE TABLE p2 PARTITION OF parted FOR VALUES FROM (20) TO (30)", "INSERT INTO parted VALUES (11)")
    bare.sql("ALTER TABLE parted ADD late int DEFAULT 7")
    actions = [(item.action, item.guid) for item in bare.items() if item.table.name == "parted"]
    assert actions[:5] == [
        ("INSERT", "1"),
        ("INSERT", "10"),
        ("DELETE", "10"),
        ("DELETE WHERE", None),
        ("INSERT", "11"),
    ]
    assert 'missing="7"' in (ddl(bare, 0)[-1].content or "")
    assert ("UPDATE", "1") in [(item.action, item.guid) for item in bare.items() if item.table.name == "t"]
    bare.sql("DROP TABLE parted, t")
    bare.sql("DELETE FROM demo_tables")
    assert kinds(bare) == fresh


def kinds(master: Master) -> list[tuple[str, str]]:
    """All objects, without their version-dependent identity and without those that belong to tables."""
    return sorted(row[:2] for row in master.rows(EVERYTHING))


def as_of_version_1(master: Master) -> None:
    """Undoes what later versions changed in tables, views, and parameters of functions."""
    (view,) = master.rows("SELECT pg_get_viewdef('demo_cols_view')")[0]
    columns = [name for (name,) in master.rows(
        "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = 'demo_cols_view'::regclass "
        "AND attname <> 'attmissing' ORDER BY attnum")]  # fmt: skip
    master.sql(
        f"CREATE OR REPLACE VIEW demo_cols_view AS SELECT {', '.join(columns)}, NULL::text AS attmissing "
        f"FROM ({view.rstrip(';')}) v",
        "CREATE FUNCTION demo_recapture(p_schema text, p_table text, p_action text, p_from oid DEFAULT NULL) "
        "RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
        "CREATE FUNCTION demo_follow_partitions(p_schema text, p_table text, p_relid oid, p_had oid[]) "
        "RETURNS boolean LANGUAGE sql AS 'SELECT false'",
        "DROP TABLE demo_partitions",
        "ALTER TABLE demo_current_tables DROP COLUMN enums",
        "UPDATE demo_info SET value = CASE name WHEN 'version' THEN '1' ELSE 'older' END "
        "WHERE name IN ('version', 'functions')",
    )


def test_later_steps_run_once_in_order(bare: Master, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    from pathlib import Path
    from shutil import copytree

    assert isinstance(tmp_path, Path)
    bare.install()
    copytree(sql_files.folder(), tmp_path / "sql")
    monkeypatch.setenv("SLUICE_SQL", str(tmp_path / "sql"))
    known = len(resources.STEPS)
    (tmp_path / "sql" / "postgres" / "resources_next.sql").write_text(
        "ALTER TABLE ${schema}.${prefix}info ADD note text;\n"
    )
    monkeypatch.setattr(resources, "STEPS", (*resources.STEPS, "resources_next"))
    report = bare.install()
    assert (report.before, report.after, report.files[0]) == (known, known + 1, "resources_next")
    assert bare.install().files == ()
    fresh = Master(bare.info, Prefix("FRESH_"))
    assert fresh.install().files[: known + 1] == resources.STEPS


@pytest.mark.long
def test_psql_installs_by_hand_what_the_dag_installs(bare: Master, postgres: PostgresServer) -> None:
    header = (sql_files.folder() / "postgres" / "resources_v1.sql").read_text()
    listed = re.search(r"for f in ([\w\s\\-]+); do", header)
    assert listed is not None
    names = [name for name in re.split(r"[\s\\-]+", listed.group(1)) if name]
    assert names == ["schema_make", *resources.STEPS, *resources.FUNCTIONS, resources.EVENT_TRIGGERS]
    text = "\n".join((sql_files.folder() / "postgres" / f"{name}.sql").read_text() for name in names)
    text = text.replace("${prefix}", "demo_").replace("${schema}", "public")
    for _ in range(2):
        subprocess.run(
            [binary("psql"), "-1", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"],
            input=text.encode(),
            check=True,
            env={
                "PGHOST": bare.info.host,
                "PGPORT": str(bare.info.port),
                "PGDATABASE": bare.info.database,
                "PGUSER": bare.info.user,
                "PGPASSWORD": bare.info.password,
            },
        )
    bare.sql(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO demo_tables (tablename, schemaname, trigger_name) VALUES ('t', 'public', 'X')",
    )
    bare.sql("SELECT demo_create_trigger('public', 't')", "INSERT INTO t VALUES (1)")
    assert len(bare.items()) == 1
    bare.install()
    bare.register("t")
    assert bare.reconcile(wanted("t")).steps == ()


@pytest.mark.long
def test_uninstall_removes_all_of_a_prefix_and_nothing_else(bare: Master) -> None:
    bare.sql(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE demo_mine (id int)",
        "CREATE FUNCTION demo_own() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )
    other = Master(bare.info, Prefix("DEMO_2_"))
    bare.sql("DROP FUNCTION demo_own()")
    other.install()
    other.register("t")
    before = sorted(row[:2] for row in bare.rows(EVERYTHING))
    bare.install()
    bare.register("t")
    bare.sql("INSERT INTO t VALUES (1)")
    assert remove(bare)
    assert sorted(row[:2] for row in bare.rows(EVERYTHING)) == before
    bare.sql("INSERT INTO t VALUES (2)")
    assert [item.guid for item in other.items()] == ["1", "2"]
    assert not remove(bare)
    assert remove(other)
    assert {row[1] for row in bare.rows(EVERYTHING) if row[0] == "relation"} == {"t r", "t_pkey i", "demo_mine r"}


def test_an_account_whose_sessions_fire_no_triggers_captures_and_uninstalls_all_the_same(bare: Master) -> None:
    """Before PostgreSQL 15 a slave's account is such one; a failover makes it a master's."""
    bare.sql("CREATE TABLE t (id int PRIMARY KEY)")
    bare.sql(f"ALTER DATABASE {quoted(bare.info.database)} SET session_replication_role = replica")
    bare.install()
    bare.register("t")
    bare.sql("INSERT INTO t VALUES (1)")  # in a session that began before
    assert [item.action for item in bare.items(ddl=True)] == ["CREATE", "CREATE", "INSERT"]
    assert remove(bare)
    assert bare.rows("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal") == []
    assert bare.rows("SELECT proname FROM pg_proc WHERE proname LIKE 'demo%'") == []


def test_the_list_of_functions_to_remove_is_complete() -> None:
    text = (sql_files.folder() / "postgres" / "uninstall.sql").read_text()
    listed = re.search(r"unnest\(ARRAY\[(.*?)\]\)", text, re.DOTALL)
    assert listed is not None
    assert sorted(re.findall(r"'(\w+)'", listed.group(1))) == list(resources.function_names())


def test_without_an_installation_reconcile_names_the_dag(bare: Master) -> None:
    with pytest.raises(ResourcesMissing, match="install_resources"):
        bare.reconcile(wanted("t"))


def test_a_service_inside_a_transaction_of_the_caller_is_a_mistake(bare: Master) -> None:
    with connect(bare.info, application="test") as connection:
        connection.execute("SELECT 1")
        with pytest.raises(ValueError, match="commit or roll back"):
            installing.install(connection, bare.prefix, bare.schema)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("plpgsql.extra_errors", "all"),
        ("plpgsql.variable_conflict", "use_variable"),
        ("plpgsql.variable_conflict", "use_column"),
        ("plpgsql.check_asserts", "on"),
    ],
)
def test_a_database_with_strict_settings_of_plpgsql_gets_them_and_is_captured(
    bare: Master, setting: str, value: str
) -> None:
    bare.sql(f"ALTER DATABASE {quoted(bare.info.database)} SET {setting} = '{value}'")
    strict = Master(bare.info)
    strict.install()
    strict.sql(
        "CREATE TYPE mood AS ENUM ('sad')",
        "CREATE TYPE place AS (x int, m mood)",
        "CREATE TABLE plain (id int PRIMARY KEY, p place, t text)",
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100)",
    )
    strict.register("plain", "parted")
    with strict.captured() as items:
        strict.sql(
            "INSERT INTO plain VALUES (1, ROW(1, 'sad'), 'a')",
            "INSERT INTO parted VALUES (1)",
            "ALTER TYPE place ADD ATTRIBUTE y int",
            "ALTER TABLE plain RENAME t TO u",
            "UPDATE plain SET u = E'b\\n<'",
            "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (100) TO (200)",
            "UPDATE parted SET id = 150",
            "SELECT demo_check_structure()",
            "TRUNCATE plain",
        )
    assert [(item.table.name, item.action) for item in items] == [
        ("plain", "INSERT"), ("parted", "INSERT"), ("plain", "UPDATE"), ("parted", "DELETE"), ("parted", "INSERT"),
        ("plain", "TRUNCATE"),
    ]  # fmt: skip
    remove(strict)
