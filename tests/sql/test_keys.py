"""REPL_KEYs: drawn in the application's session without a trace there, unique, and in the order of the changes."""

import random
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from devstack.postgres import PostgresServer, binary
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.position import Window
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.reader import PostgresReader
from tests.sql.master import Master, wanted

ROOM = 1 << 54


@pytest.fixture
def plain(database: Callable[..., ConnectionInfo], postgres: PostgresServer) -> Master:
    """An account that may create no event triggers; tables that are captured, and one that is not."""
    made = Master(database(role=True))
    made.sql(
        "CREATE SCHEMA IF NOT EXISTS public",
        "CREATE TABLE person (id serial PRIMARY KEY, name text)",
        "CREATE TABLE control (id serial PRIMARY KEY, name text)",
        "CREATE TABLE parted (id serial, name text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (1000000)",
    )
    made.install()
    made.register("person", "parted")
    return made


@pytest.mark.one_in(2)
@pytest.mark.releases
@pytest.mark.parametrize("table", ["person", "parted"])
def test_lastval_is_that_of_the_application_whoever_writes_and_however(
    plain: Master, postgres: PostgresServer, table: str
) -> None:
    role = f"writer_{plain.info.database}"[:60]
    postgres.create_role(role)
    try:
        plain.sql(
            f'GRANT USAGE ON SCHEMA public TO "{role}"',
            f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{role}"',
            f'GRANT ALL ON person_id_seq, parted_id_seq, control_id_seq TO "{role}"',
            "UPDATE demo_tables SET debug = 1",
        )
        plain.rows("SELECT demo_create_trigger(schemaname, tablename) FROM demo_tables")
        for user in (role, plain.info.user, "postgres"):
            with postgres.connect(plain.info.database, "postgres") as session:
                session.execute(f'SET SESSION AUTHORIZATION "{user}"'.encode())
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="not yet defined"):
                    session.execute(f"UPDATE {table} SET name = 'x'; SELECT lastval()".encode())
                for statement in (
                    f"INSERT INTO {table} (name) VALUES ('x')",
                    f"INSERT INTO {table} (name) SELECT 'x' FROM generate_series(1, 50)",
                    f"UPDATE {table} SET name = name || '<'",
                    f"DELETE FROM {table} WHERE id % 2 = 0",
                    f"TRUNCATE {table}",
                ):
                    session.execute("INSERT INTO control (name) VALUES ('x')")
                    session.execute(statement.encode())
                    last = "control" if "INSERT" not in statement else table
                    assert _row(session, f"SELECT lastval() = currval('{last}_id_seq')") == (True,), (user, statement)
        assert plain.value("SELECT count(*) FROM demo_debug_table") > 0
    finally:
        plain.sql(f'DROP OWNED BY "{role}"') if plain.info.user == "postgres" else None
        with postgres.connect(plain.info.database) as administrator:
            administrator.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"'.encode())


def test_lastval_is_that_of_the_application_after_changes_of_definition(any_master: Master) -> None:
    any_master.sql("CREATE SEQUENCE own", "SELECT nextval('own')")
    for statement in (
        "ALTER TABLE orders ADD w int",
        "INSERT INTO orders VALUES (2, 'b', 20, 1), (3, 'c', 30, 2)",
        "ALTER TABLE orders RENAME TO former",
        "UPDATE former SET n = n + 1",
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "INSERT INTO orders VALUES (1)",
        "DROP TABLE former",
    ):
        any_master.sql(statement)
        assert any_master.value("SELECT lastval()") == 1, statement


@pytest.mark.long
def test_a_statement_of_many_rows_draws_its_keys_at_once(master: Master) -> None:
    master.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    master.register("t")
    for statement in (
        "INSERT INTO t SELECT g, 'v' FROM generate_series(1, 25000) g",
        "UPDATE t SET v = 'w'",
        "DELETE FROM t",
    ):
        with master.captured() as items:
            master.sql(statement)
        keys = [item.repl_key for item in items]
        assert [int(item.guid or 0) for item in items] == list(range(1, 25001))
        assert sum(after - before > 1 for before, after in pairwise(keys)) <= 10


@pytest.mark.releases
def test_changes_of_a_row_by_many_sessions_have_keys_in_their_order_and_none_twice(master: Master) -> None:
    master.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)",
        "CREATE TABLE p (id int PRIMARY KEY, n int NOT NULL DEFAULT 0) PARTITION BY LIST (id)",
        "CREATE TABLE p1 PARTITION OF p DEFAULT",
    )
    master.register("t", "p")
    for table in ("t", "p"):
        master.sql(f"INSERT INTO {table} SELECT g FROM generate_series(1, 30) g")
    _write(master, ("t", "p"), transactions=60)
    _expect_in_order(master)


def test_an_older_installation_is_upgraded_under_way_and_every_change_comes_once_in_order(master: Master) -> None:
    master.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL DEFAULT 0) PARTITION BY LIST (id)",
        "CREATE TABLE part PARTITION OF t DEFAULT",
    )
    master.register("t")
    as_of_version_4(master)
    master.sql("INSERT INTO t SELECT g FROM generate_series(1, 30) g")
    older = master.last_key()
    assert older < 1000
    with connection.connect(master.info, application="apply", autocommit=True) as link:
        former = PostgresQueue(link, Prefix("DEMO_"), "public").take()
    seen: list[tuple[int, int]] = []
    ended = threading.Event()

    def read() -> None:
        with (
            connection.connect(master.info, application="apply", autocommit=True) as link,
            PostgresReader(master.info, Prefix("DEMO_"), "public") as reader,
        ):
            begin, last = former, False
            while not last:
                last = ended.is_set()
                end = PostgresQueue(link, Prefix("DEMO_"), "public").take(begin)
                items = reader.items(Window(begin, end))
                seen.extend(zip(items["repl_key"].to_pylist(), items["trans_key"].to_pylist(), strict=True))
                begin = end

    follower = threading.Thread(target=read)
    follower.start()
    try:
        _write(master, ("t",), transactions=80, meanwhile=master.install)
    finally:
        ended.set()
        follower.join()
    assert master.reconcile(wanted("t")).steps == ()
    _expect_in_order(master)
    written = master.rows("SELECT repl_key, trans_key::text::bigint FROM demo_items WHERE repl_key > %s", [older])
    assert Counter(seen) == Counter(dict.fromkeys(written, 1))
    assert master.value("SELECT max(repl_key) FROM demo_items") > older


def test_in_another_cluster_keys_go_on_above_all_former_ones(master: Master) -> None:
    master.sql("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)")
    master.register("t")
    master.sql("INSERT INTO t SELECT g FROM generate_series(1, 30) g")
    for moves in (1, 2):
        # As a restored dump: the mark is that of another cluster, and so are the keys.
        before = master.last_key()
        master.sql("SELECT setval('demo_key_base', last_value / 2 * 2 + 1 - last_value % 2) FROM demo_key_base")
        with master.session() as session:
            assert _row(session, "SELECT demo_last_key()") > (before,)
        master.connection = master.session()
        _write(master, ("t",), transactions=20)
        _expect_in_order(master)
        assert (
            before < moves * ROOM < master.value("SELECT min(repl_key) FROM demo_items WHERE repl_key > %s", [before])
        )


@pytest.mark.long
def test_a_dump_restored_into_another_cluster_takes_writes_at_once(
    master: Master, server_of_release: Callable[[int], PostgresServer], database: Callable[..., ConnectionInfo]
) -> None:
    master.sql("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)")
    master.register("t")
    master.sql("INSERT INTO t SELECT g FROM generate_series(1, 3000) g")
    other = server_of_release(17)
    there = Master(database(server=other))
    environment = {"PGPASSWORD": master.info.password or ""}
    dump = subprocess.run(
        [binary("pg_dump"), "-h", master.info.host, "-p", str(master.info.port), "-U", "postgres",
         master.info.database],
        env=environment, check=True, capture_output=True,
    ).stdout  # fmt: skip
    subprocess.run(
        [binary("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", there.info.host, "-p", str(there.info.port),
         "-U", "postgres", there.info.database],
        env={"PGPASSWORD": there.info.password or ""}, input=dump, check=True, capture_output=True,
    )  # fmt: skip
    before = there.last_key()
    assert before == master.last_key()
    _write(there, ("t",), transactions=20)
    # The table is another one, by its number: the comparison queues all of it anew.
    there.sql("SELECT demo_check_structure()")
    _write(there, ("t",), transactions=20)
    since = "SELECT {} FROM demo_items WHERE repl_key > %s AND db_action {}"
    assert there.value(since.format("min(repl_key)", "IS NOT NULL"), [before]) > ROOM
    assert there.value(since.format("count(*)", "= 'INSERT'"), [before]) == 3000
    assert there.value(since.format("count(*)", "= 'UPDATE'"), [before]) > 0


def as_of_version_4(master: Master) -> None:
    """Draws keys from SEQ, as releases before version 6 did, in row triggers: those draw by the default."""
    master.sql(
        "TRUNCATE demo_items",
        *(
            f"ALTER TABLE demo_{table} ALTER repl_key SET DEFAULT nextval('demo_seq')"
            for table in ("items", "tables", "debug_table")
        ),
        "CREATE OR REPLACE FUNCTION demo_increment() RETURNS bigint LANGUAGE sql "
        "AS $$ SELECT nextval('public.demo_seq') $$",
        """CREATE OR REPLACE FUNCTION demo_position(
            OUT low bigint, OUT next_xid bigint, OUT snapshot pg_snapshot, OUT high bigint, OUT "time" timestamptz
        ) LANGUAGE plpgsql AS $$ BEGIN
            "time" := clock_timestamp();
            SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END INTO low FROM public.demo_seq s;
            snapshot := pg_current_snapshot();
            SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END INTO high FROM public.demo_seq s;
        END $$""",
        "DROP FUNCTION demo_next_key, demo_draw_keys, demo_last_key, demo_key_base",
        "DROP SEQUENCE demo_key_base",
        "UPDATE demo_info SET value = CASE name WHEN 'version' THEN '4' ELSE 'older' END "
        "WHERE name IN ('version', 'functions')",
    )


PIECE = 1 << 20


def test_the_keys_of_a_large_statement_are_drawn_in_pieces(master: Master) -> None:
    pieces = master.value("SELECT demo_draw_pieces(%s)", [3 * PIECE + 5])
    assert len(pieces) == 4
    assert all(after >= before + PIECE for before, after in pairwise(pieces))
    assert master.value("SELECT demo_next_key()") > pieces[-1] + 5


@pytest.mark.long
@pytest.mark.parametrize("columns", ["v int", "v int, mood mood"], ids=["read side by side", "joined"])
def test_each_row_of_a_large_statement_has_its_key_in_order(master: Master, columns: str) -> None:
    master.sql("CREATE TYPE mood AS ENUM ('sad', 'ok')", f"CREATE TABLE large (id int PRIMARY KEY, {columns})")
    master.register("large")
    rows = PIECE + 100_007
    master.sql(
        f"INSERT INTO large SELECT g, g FROM generate_series(1, {rows}) g",
        "UPDATE large SET v = v + 1",
        "DELETE FROM large",
    )
    assert master.rows(
        "SELECT db_action, count(*), count(DISTINCT guid), bool_and(rising) FROM (SELECT db_action, guid, "
        "guid::int > lag(guid::int, 1, 0) OVER (PARTITION BY db_action ORDER BY repl_key) AS rising FROM demo_items "
        "WHERE tablename = 'large' AND guid IS NOT NULL) x GROUP BY 1 ORDER BY min(guid::int), 1"
    ) == [(action, rows, rows, True) for action in ("DELETE", "INSERT", "UPDATE")]


def _write(
    master: Master,
    tables: tuple[str, ...],
    *,
    transactions: int,
    meanwhile: Callable[[], Any] | None = None,
) -> None:
    """Four sessions count up rows, one or many at once."""
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        try:
            with master.session(autocommit=False) as session:
                for _ in range(transactions):
                    table = chance.choice(tables)
                    first = chance.randint(1, 25)
                    last = first + chance.choice([0, 0, 1, 20])
                    rows = f"SELECT id FROM {table} WHERE id BETWEEN {first} AND {last} ORDER BY id FOR UPDATE"
                    session.execute(rows.encode())
                    session.execute(f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {first} AND {last}".encode())
                    session.rollback() if chance.random() < 0.1 else session.commit()
        except BaseException as failure:
            failures.append(failure)

    writers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for writer in writers:
        writer.start()
    try:
        if meanwhile is not None:
            meanwhile()
    finally:
        for writer in writers:
            writer.join()
    if failures:
        raise failures[0]


def _expect_in_order(master: Master) -> None:
    """Each row's changes count up without a gap."""
    counts: dict[tuple[TableName, str | None], list[int]] = {}
    items = master.items()
    for item in items:
        counts.setdefault((item.table, item.guid), []).append(int(item.new["n"] or 0))
    for place, found in counts.items():
        assert found == list(range(found[0], found[0] + len(found))), place
    assert len({item.repl_key for item in items}) == len(items)


def _row(session: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    row = session.execute(query.encode()).fetchone()
    assert row is not None
    return tuple(row)
