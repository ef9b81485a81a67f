"""One list of statements under each setting of role and database ends with capture as without: results, errors,
notices, `lastval()`, numbers of rows, plans, and what the session holds afterwards."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import sql

from devstack.postgres import PostgresServer
from sluice import sql_files
from tests.sql.master import Master, wanted

WRITER = "settings writer"
SCHEMA = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TABLE plain (id serial PRIMARY KEY, t text, n numeric, f float8, d timestamptz, b bytea, i interval, "
    "m mood, x xml, j jsonb, c char(5), a text[], p money, r regclass)",
    "CREATE TABLE child (id int PRIMARY KEY, o int REFERENCES plain ON DELETE CASCADE ON UPDATE CASCADE, t text)",
    "CREATE TABLE parted (id int PRIMARY KEY, t text) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000)",
    "CREATE TABLE noted (id int PRIMARY KEY, t text)",
    "CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "UPDATE public.noted SET t = t || '!' WHERE id = NEW.id AND t NOT LIKE '%!'; RETURN NULL; END $$",
    "CREATE TRIGGER mark AFTER INSERT ON noted FOR EACH ROW EXECUTE FUNCTION mark()",
)
TABLES = ("plain", "child", "parted", "noted")
STATEMENTS = (
    "INSERT INTO public.plain (t) VALUES ('<&>') RETURNING *",
    "SELECT lastval()",
    r"""INSERT INTO public.plain VALUES (DEFAULT, E'a\nb', 1.50, 1e-300::float8 / 3, '2024-02-03 04:05:06.7+08',
        '\x00ff', '1 mon -2 days 03:04', 'ok', '<a>b</a>', '{"k": [1, null]}', 'ab', '{x,NULL}', 12.30, 'public.child')
        RETURNING id""",
    "INSERT INTO public.plain (t, f) SELECT repeat('x', g), g / 7.0 FROM generate_series(1, 60) g",
    "SELECT lastval(), currval('public.plain_id_seq')",
    """DO $$ DECLARE n int; BEGIN
        UPDATE public.plain SET n = id; GET DIAGNOSTICS n = ROW_COUNT;
        RAISE NOTICE 'updated % %', n, FOUND;
        UPDATE public.plain SET n = id WHERE id < 0; GET DIAGNOSTICS n = ROW_COUNT;
        RAISE NOTICE 'updated % %', n, FOUND;
        DELETE FROM public.plain WHERE id = 5; GET DIAGNOSTICS n = ROW_COUNT;
        RAISE NOTICE 'deleted % %', n, FOUND;
        INSERT INTO public.parted VALUES (1, '<'), (2, 'b'); GET DIAGNOSTICS n = ROW_COUNT;
        RAISE NOTICE '% %', n, FOUND;
        RAISE NOTICE 'last %', lastval();
    END $$""",
    "INSERT INTO public.child SELECT g, g, 'c' FROM generate_series(6, 30) g",
    "UPDATE public.plain SET id = id + 1000 WHERE id BETWEEN 10 AND 12",
    "DELETE FROM public.plain WHERE id BETWEEN 13 AND 15 RETURNING id, n",
    "INSERT INTO public.plain (id, t) VALUES (20, 'again') ON CONFLICT (id) DO UPDATE SET t = excluded.t RETURNING t",
    "INSERT INTO public.plain (id, t) VALUES (20, 'refused')",
    "INSERT INTO public.child VALUES (500, 99999, 'refused')",
    "INSERT INTO public.noted VALUES (1, 'a'), (2, 'b<')",
    "UPDATE public.noted SET t = t || chr(10), id = id + 10",
    "DELETE FROM public.noted WHERE id = 11",
    "UPDATE public.parted SET t = t || 'y', id = id + 100",
    "DELETE FROM public.parted",
    "COPY public.child FROM STDIN\n600\t20\tcopied\n601\t21\t<\n",
    "BEGIN",
    "INSERT INTO public.plain (t) VALUES ('rolled back')",
    "SAVEPOINT s",
    "UPDATE public.plain SET t = NULL WHERE id = 20",
    "ROLLBACK TO s",
    "ROLLBACK",
    "SELECT lastval()",
    "EXPLAIN (COSTS OFF) UPDATE public.plain SET t = 'x' WHERE id = 20",
    "EXPLAIN (COSTS OFF) SELECT * FROM public.plain p JOIN public.child c ON c.o = p.id WHERE p.id > 20 ORDER BY p.t",
    "SELECT count(*), sum(id), sum(length(t)) FROM public.plain",
    "SELECT * FROM public.noted ORDER BY id",
    "TRUNCATE public.plain, public.child",
    "SELECT name, setting FROM pg_catalog.pg_settings WHERE source = 'session' ORDER BY 1",
    "SELECT pg_catalog.pg_listening_channels()",
    "SELECT count(*) FROM pg_catalog.pg_locks WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'advisory'",
    "SELECT count(*) FROM pg_catalog.pg_class WHERE relpersistence = 't'",
    "SELECT (SELECT count(*) FROM pg_catalog.pg_cursors), (SELECT count(*) FROM pg_catalog.pg_prepared_statements)",
    "SELECT current_user, session_user",
)
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"jit_above_cost": "0", "jit_inline_above_cost": "0", "jit_optimize_above_cost": "0"},
    {"plan_cache_mode": "force_custom_plan"},
    {"plan_cache_mode": "force_generic_plan"},
    {"from_collapse_limit": "1", "join_collapse_limit": "1", "geqo_threshold": "2"},
    {"work_mem": "64kB", "temp_buffers": "100", "hash_mem_multiplier": "1"},
    {"statement_timeout": "60s", "lock_timeout": "60s", "idle_in_transaction_session_timeout": "60s"},
    {"default_transaction_isolation": "serializable"},
    {"default_transaction_isolation": "repeatable read"},
    {"default_transaction_read_only": "on"},
    {"session_replication_role": "replica"},
    {"session_replication_role": "local"},
    {"row_security": "off"},
    {"check_function_bodies": "off"},
    {"plpgsql.extra_errors": "all"},
    {"plpgsql.extra_warnings": "all"},
    {"plpgsql.variable_conflict": "use_variable"},
    {"plpgsql.variable_conflict": "use_column"},
    {"plpgsql.print_strict_params": "on"},
    {"search_path": ""},
    {"search_path": "pg_temp, public"},
    {"xmlbinary": "hex", "xmloption": "document"},
    {"client_encoding": "LATIN1"},
    {"DateStyle": "German", "IntervalStyle": "sql_standard", "TimeZone": "Asia/Kolkata"},
    {"bytea_output": "escape", "extra_float_digits": "-15"},
    {"standard_conforming_strings": "off", "escape_string_warning": "off", "backslash_quote": "off"},
    {"quote_all_identifiers": "on"},
    {"transform_null_equals": "on", "array_nulls": "off"},
    {"lc_monetary": "C", "lc_numeric": "C", "lc_time": "C", "lc_messages": "C"},
    {"track_functions": "all", "compute_query_id": "on", "track_counts": "off"},
    {"exit_on_error": "off", "synchronous_commit": "off", "client_min_messages": "log"},
)
SWITCHES = [
    f"enable_{what}"
    for what in (
        "async_append",
        "bitmapscan",
        "gathermerge",
        "hashagg",
        "hashjoin",
        "incremental_sort",
        "indexonlyscan",
        "indexscan",
        "material",
        "memoize",
        "mergejoin",
        "nestloop",
        "parallel_append",
        "parallel_hash",
        "partition_pruning",
        "seqscan",
        "sort",
        "tidscan",
    )
]

_copies = count(1)


@dataclass(frozen=True)
class Templates:
    """Databases to be copied: without capture, with it, with event triggers as well."""

    pristine: str = "settings pristine"
    captured: str = "settings captured"
    told: str = "settings told"


@pytest.fixture(scope="module")
def templates(postgres: PostgresServer) -> Iterator[Templates]:
    names = Templates()
    postgres.create_role(WRITER)
    for name in (names.pristine, names.captured, names.told):
        postgres.create_database(name)
        with postgres.connect(name) as administrator:
            for statement in SCHEMA:
                administrator.execute(statement.encode())
            writer = sql.Identifier(WRITER)
            for kind in ("TABLES", "SEQUENCES"):
                administrator.execute(
                    sql.SQL("GRANT ALL ON ALL {} IN SCHEMA public TO {}").format(sql.SQL(kind), writer)
                )
            if name != names.pristine:
                # What is lax when capture is installed is not in force later, and the reverse.
                administrator.execute("ALTER ROLE postgres SET plpgsql.extra_errors = 'all'")
                administrator.execute("CREATE SCHEMA sluice")
                master = Master(postgres.info(name), schema="sluice")
                master.install()
                if name == names.captured:
                    for part in ("event_triggers_remove",):
                        master.sql(sql_files.render("postgres", part, prefix="demo_", schema="sluice"))
                master.reconcile(*(wanted(table) for table in TABLES))
                assert master.value("SELECT sluice.demo_has_event_triggers()") is (name == names.told)
                master.connection.close()
                administrator.execute("ALTER ROLE postgres RESET plpgsql.extra_errors")
    yield names
    for name in (names.pristine, names.captured, names.told):
        _drop(postgres, name)
    with postgres.connect() as administrator:
        administrator.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(WRITER)))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "settings",
    [
        *SETTINGS,
        pytest.param({"transaction_timeout": "60s"}, marks=pytest.mark.since(17, "transaction_timeout")),
        *({name: "off"} for name in SWITCHES),
    ],
    ids=lambda settings: " ".join(f"{name}={value}" for name, value in settings.items()) or "none",
)
def test_every_statement_ends_as_without_capture_under(
    postgres: PostgresServer, templates: Templates, settings: dict[str, str]
) -> None:
    expected = _outcomes(postgres, templates.pristine, settings)
    for template in (templates.captured, templates.told):
        found = _outcomes(postgres, template, settings)
        assert [f"{statement}: {with_us} instead of {without}"
                for statement, without, with_us in zip(STATEMENTS, expected, found, strict=True)
                if with_us != without] == []  # fmt: skip


def _outcomes(postgres: PostgresServer, template: str, settings: dict[str, str]) -> list[Any]:
    name = f"settings {next(_copies)}"
    with postgres.connect() as administrator:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        administrator.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        for setting, value in settings.items():
            parts = sql.Identifier(WRITER), sql.Identifier(name), sql.SQL(setting), sql.Literal(value)
            administrator.execute(sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(*parts))
    try:
        with postgres.connect(name, WRITER) as session:
            notices: list[str] = []
            session.add_notice_handler(lambda notice: notices.append(f"{notice.severity} {notice.message_primary}"))
            found = []
            for statement_text in STATEMENTS:
                found.append((_outcome(session, statement_text), tuple(notices)))
                notices.clear()
            return found
    finally:
        _drop(postgres, name)


def _outcome(session: psycopg.Connection[Any], statement: str) -> Any:
    text, _, rows = statement.partition("\n") if "FROM STDIN" in statement else (statement, "", "")
    cursor = session.cursor()
    try:
        if rows:
            with cursor.copy(text.encode()) as copy:
                copy.write(rows)
        else:
            cursor.execute(text.encode())
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_detail, error.diag.context
    return cursor.statusmessage, cursor.fetchall() if cursor.description else None


def _drop(postgres: PostgresServer, name: str) -> None:
    with postgres.connect() as administrator:
        administrator.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.mark.long
def test_serializable_transactions_read_none_of_our_tables_and_abort_as_seldom_as_without_capture(
    postgres: PostgresServer, templates: Templates
) -> None:
    for apart in (0, 5000):
        expected = _transfers(postgres, templates.pristine, apart)
        assert (expected == [None, None]) is (apart > 0)
        for template in (templates.captured, templates.told):
            assert _transfers(postgres, template, apart) == expected


def _transfers(postgres: PostgresServer, template: str, apart: int) -> list[str | None]:
    """How two serializable transactions end that run at once, on their own rows; `apart`: and their own pages."""
    name = f"settings {next(_copies)}"
    with postgres.connect() as administrator:
        parts = sql.Identifier(name), sql.Identifier(template)
        administrator.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*parts))
    try:
        with postgres.connect(name, WRITER) as first, postgres.connect(name, WRITER) as second:
            first.execute("INSERT INTO plain (id, n) SELECT g, 100 FROM generate_series(1, 8000) g")
            first.execute("INSERT INTO parted SELECT g, 'a' FROM generate_series(1, 900) g")
            for session in (first, second):
                session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
                session.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
            ends: list[str | None] = []
            for step in range(2):
                for session, at in ((first, 1 + step), (second, 151 + apart + step)):
                    session.execute(f"UPDATE plain SET n = n - 10 WHERE id = {at}".encode())
                    session.execute(f"UPDATE plain SET n = n + 10 WHERE id BETWEEN {at + 3} AND {at + 20}".encode())
                    session.execute(f"DELETE FROM plain WHERE id = {at + 30}".encode())
                    session.execute(f"UPDATE parted SET t = '<' WHERE id = {at if at < 400 else at - 4300}".encode())
                    if not apart:
                        session.execute(f"INSERT INTO plain (id, t) VALUES ({-at}, '<')".encode())
            if template != Templates().pristine:
                with postgres.connect(name) as watcher:
                    read = watcher.execute(
                        "SELECT DISTINCT l.relation::regclass::text FROM pg_locks l "
                        "JOIN pg_class c ON c.oid = l.relation WHERE l.mode = 'SIReadLock' "
                        "AND l.database = (SELECT oid FROM pg_database "
                        "WHERE datname = current_database()) AND c.relnamespace = 'sluice'::regnamespace"
                    ).fetchall()
                    assert read == []
            for session in (first, second):
                try:
                    session.execute("COMMIT")
                    ends.append(None)
                except psycopg.Error as error:
                    ends.append(error.sqlstate)
            return ends
    finally:
        _drop(postgres, name)
