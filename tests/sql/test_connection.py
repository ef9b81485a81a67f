"""The meaning of a driver's error: a person must act, or a retry may succeed."""

import pickle
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from devstack.postgres import PostgresServer
from devstack.process import await_true
from sluice.database.errors import DatabaseRefused, DatabaseUnreachable, StatementFailed, StatementInterrupted
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import PostgresSession, application_name, connect, together
from sluice.vendors.postgres.errors import classify, in_one_line
from sluice.vendors.postgres.failover import sessions_of
from sluice.vendors.postgres.target.load_ownership import end_sessions
from tests.file_limit import limit_files


@pytest.fixture
def info(database: Callable[..., ConnectionInfo]) -> ConnectionInfo:
    return database()


@pytest.mark.parametrize("failing", range(4))
def test_statements_that_are_sent_together_fail_with_the_error_of_the_first_that_failed(
    info: ConnectionInfo, failing: int
) -> None:
    with connect(info, application="test") as session:
        session.execute("CREATE TABLE public.t (id int)")
        session.commit()

        def send() -> list[Any]:
            """Four statements, of which one fails, and all after it because of that."""
            values = [number if number != failing else -1 for number in range(4)]
            return [session.execute("INSERT INTO public.t SELECT 1 / (%s + 1)", [value]) for value in values]

        with pytest.raises(psycopg.errors.DivisionByZero) as caught, together(session):
            session.execute("TRUNCATE public.t")
            send()
        assert isinstance(caught.value, StatementFailed)
        session.rollback()
        with pytest.raises(psycopg.errors.DivisionByZero), session.transaction(first=send):
            raise AssertionError("the block begins although the first statements failed")
        # The session is as before, and nothing of it remains.
        session.expect_idle()
        assert not session.autocommit
        assert session.execute("SELECT count(*) FROM public.t").fetchone() == (0,)


def test_what_begins_a_transaction_is_committed_or_rolled_back_with_it(info: ConnectionInfo) -> None:
    with connect(info, application="test") as session, connect(info, application="other", autocommit=True) as other:
        session.execute("CREATE TABLE public.t (id int); INSERT INTO public.t VALUES (0)")
        session.commit()
        results = []

        def add() -> None:
            results.append(session.execute("UPDATE public.t SET id = id + 1 RETURNING id"))

        with session.transaction(first=add, durable=True):
            assert results[-1].fetchone() == (1,) and results[-1].rowcount == 1
            with session.transaction():  # a savepoint of it
                session.execute("UPDATE public.t SET id = id + 10")
            assert other.execute("SELECT id FROM public.t").fetchone() == (0,)
        assert other.execute("SELECT id FROM public.t").fetchone() == (11,)
        with pytest.raises(KeyError), session.transaction(first=add):
            raise KeyError
        session.expect_idle()
        assert other.execute("SELECT id FROM public.t").fetchone() == (11,)
        with pytest.raises(DatabaseUnreachable), session.transaction(first=add):
            other.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])
        assert session.closed and other.execute("SELECT id FROM public.t").fetchone() == (11,)


REFUSED = [{"password": "wrong"}, {"password": ""}, {"database": "none such"}, {"user": "nobody"}]


@pytest.mark.parametrize("change", REFUSED)
def test_a_refused_login_needs_a_person(info: ConnectionInfo, change: dict[str, str]) -> None:
    with pytest.raises(DatabaseRefused, match="Check user, password and database of the connection") as caught:
        connect(replace(info, **change), application="test")  # type: ignore[arg-type]
    assert info.password not in str(caught.value)


def test_the_airflow_connection_is_named_beside_the_host(info: ConnectionInfo) -> None:
    named = ConnectionInfo.from_dict({**info.to_dict(), "conn_id": "shop_master"})
    place = rf"@127\.0\.0\.1:{info.port}/{info.database} \(connection shop_master\): "
    with pytest.raises(DatabaseRefused, match=place):
        connect(replace(named, password="wrong"), application="test")
    with pytest.raises(DatabaseUnreachable, match=r"\(connection shop_master\): .*The server is down"):
        connect(replace(named, port=1), application="test")


def test_an_error_is_reported_in_one_line_without_the_piece_of_the_statement(info: ConnectionInfo) -> None:
    with connect(info, application="test", autocommit=True) as connection:
        with pytest.raises(StatementFailed) as caught:
            connection.execute("SELECT 1,\n  pg_catalog.upper('LINE 1: x', id)\n FROM nowhere")
        told = str(caught.value)
        assert 'relation "nowhere" does not exist' in told and "LINE" not in told and "^" not in told
        with pytest.raises(StatementFailed, match="does not exist HINT: No function matches"):
            connection.execute("SELECT pg_catalog.min('{}'::pg_catalog.int4[], 1)")


PLANTED = "hunter2"
"""By this name: tracebacks show lines of these functions."""


def by_copy(connection: "psycopg.Connection[Any]") -> None:
    load(connection, "people", f"1\t{PLANTED}\n".encode())


def by_statement(connection: "psycopg.Connection[Any]") -> None:
    connection.execute("INSERT INTO public.people VALUES (1, %s)", [PLANTED])


def by_many(connection: "psycopg.Connection[Any]") -> None:
    connection.cursor().executemany("INSERT INTO public.people VALUES (%s, %s)", [(5, "free"), (1, PLANTED)])


def by_pipeline(connection: "psycopg.Connection[Any]") -> None:
    with connection.pipeline():
        by_statement(connection)


def by_first(connection: "psycopg.Connection[Any]") -> None:
    connection.autocommit = False
    assert isinstance(connection, PostgresSession)
    with connection.transaction(first=lambda: by_statement(connection)):
        pass


def by_commit(connection: "psycopg.Connection[Any]") -> None:
    with connection.transaction():
        connection.execute("SET CONSTRAINTS ALL DEFERRED")
        by_statement(connection)


def by_trigger(connection: "psycopg.Connection[Any]") -> None:
    connection.execute("INSERT INTO public.people VALUES (77, %s)", [PLANTED])


@pytest.mark.parametrize("way", [by_copy, by_statement, by_many, by_pipeline, by_first, by_commit, by_trigger])
def test_no_traceback_shows_a_masked_value(
    info: ConnectionInfo, way: Callable[["psycopg.Connection[Any]"], None]
) -> None:
    masked = replace(info, mask=("public.people.name",))
    with connect(masked, application="test", autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE public.people (id int, name text CONSTRAINT one UNIQUE DEFERRABLE);"
            f"INSERT INTO public.people VALUES (0, '{PLANTED}');"
            "CREATE FUNCTION public.loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'refused %', NEW.name USING DETAIL = NEW.name; END $$;"
            "CREATE TRIGGER loud BEFORE INSERT ON public.people FOR EACH ROW WHEN (NEW.id = 77)"
            " EXECUTE FUNCTION public.loud()"
        )
        with pytest.raises(psycopg.Error) as caught:
            way(connection)
        told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert PLANTED not in told and ("23505" in told or "P0001" in told)


def load(connection: "psycopg.Connection[Any]", table: str, row: bytes) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY public.{table} FROM STDIN".encode()) as into:
        into.write(row)


@pytest.mark.parametrize(("table", "row"), [
    ("people", b"1\thunter2\tx\n"), ("people", b"1\t-7\thunter2\n"), ("people", b"1\t\\N\thunter2\n"),
    ("logins", b"hunter2\n"), ("logins", b"1\thunter2\n"),
])  # fmt: skip
def test_an_error_of_a_row_shows_no_masked_value(info: ConnectionInfo, table: str, row: bytes) -> None:
    masked = replace(info, mask=("public.people.*",))
    assert pickle.loads(pickle.dumps(masked)).mask == masked.mask, "on Spark's executors, too"
    with connect(masked, application="test", autocommit=True) as connection:
        connection.execute("CREATE TABLE public.people (id int, n int NOT NULL CHECK (n > 0), v text)")
        connection.execute("CREATE TABLE public.logins (password int)")
        with pytest.raises(StatementFailed) as caught:
            load(connection, table, row)
        assert "hunter2" not in str(caught.value) and "SQLSTATE 2" in str(caught.value)
    if table == "logins":
        with connect(info, application="test", autocommit=True) as connection:
            with pytest.raises(StatementFailed) as caught:
                load(connection, table, row)
            assert "hunter2" not in str(caught.value), "a secret by its name"


def test_an_error_of_a_row_of_other_tables_shows_the_value(info: ConnectionInfo) -> None:
    with connect(info, application="test", autocommit=True) as connection:
        connection.execute("CREATE TABLE public.t (id int)")
        with pytest.raises(StatementFailed, match=r'type integer: "one".*COPY t, line 1, column id'):
            load(connection, "t", b"one\n")


def test_an_error_that_came_as_text_loses_its_piece_of_the_statement_too() -> None:
    text = 'ERROR:  relation "x" does not exist\nLINE 1: SELECT a FROM x\n                      ^\nDETAIL:  none'
    assert in_one_line(OSError(text)) == 'ERROR: relation "x" does not exist DETAIL: none'


def test_a_server_that_is_down_is_an_outage(info: ConnectionInfo) -> None:
    with pytest.raises(DatabaseUnreachable, match="The server is down, restarting or not reachable from here"):
        connect(replace(info, port=1), application="test")


def test_a_server_with_too_many_connections_is_an_outage(postgres: PostgresServer, info: ConnectionInfo) -> None:
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE crowded LOGIN PASSWORD 'x' CONNECTION LIMIT 0")
    try:
        with pytest.raises(DatabaseUnreachable, match="too many connections"):
            connect(replace(info, user="crowded", password="x"), application="test")
    finally:
        with postgres.connect() as admin:
            admin.execute("DROP ROLE crowded")


def test_a_database_that_takes_no_connections_for_a_while_is_an_outage(
    postgres: PostgresServer, info: ConnectionInfo
) -> None:
    with postgres.connect() as admin:
        admin.execute(f'ALTER DATABASE "{info.database}" ALLOW_CONNECTIONS false'.encode())
        with pytest.raises(
            DatabaseUnreachable, match=r"not currently accepting.*Should it continue like this: check user"
        ):
            connect(info, application="test")
        admin.execute(f'ALTER DATABASE "{info.database}" ALLOW_CONNECTIONS true'.encode())
    connect(info, application="test").close()


def test_a_host_that_is_not_in_pg_hba_conf_needs_a_person(postgres: PostgresServer, info: ConnectionInfo) -> None:
    rules = postgres.data / "pg_hba.conf"
    before = rules.read_text()
    with postgres.connect() as admin:
        rules.write_text(f'host "{info.database}" all all reject\n{before}')
        try:
            admin.execute("SELECT pg_reload_conf()")
            assert await_true(lambda: _refused(info), 10), "the rules were not read"
        finally:
            rules.write_text(before)
            admin.execute("SELECT pg_reload_conf()")


def _refused(info: ConnectionInfo) -> bool:
    try:
        connect(info, application="test").close()
    except DatabaseRefused:
        return True
    return False


@pytest.mark.parametrize(
    "said",
    [
        "the database system is not accepting connections DETAIL: Hot standby mode is disabled.",
        "out of memory DETAIL: Failed on request of size 8192.",
        'could not open file "global/pg_filenode.map": Input/output error',
        "canceling authentication due to timeout",
        "could not fork new process for connection: Resource temporarily unavailable",
        "server login has been failing, try again later (server_login_retry)",
        "cannot connect to invalid database",
    ],
)
@pytest.mark.parametrize("severity", ["FATAL", "ВАЖНО", "致命错误"])
def test_an_error_at_a_login_is_an_outage_unless_it_is_known_as_permanent(said: str, severity: str) -> None:
    text = f'connection failed: connection to server at "127.0.0.1", port 5432 failed: {severity}:  {said}'
    with pytest.raises(DatabaseUnreachable, match="takes no connection just now"):
        raise classify(psycopg.OperationalError(text), "s")


@pytest.mark.parametrize(
    "said",
    [
        'role "nobody" is not permitted to log in',
        'permission denied for database "d" DETAIL: User does not have CONNECT privilege.',
        'no pg_hba.conf entry for host "10.0.0.1", user "u", database "d", no encryption',
        'LDAP authentication failed for user "u"',
        "connection requires a valid client certificate",
        'unrecognized configuration parameter "sluice.none"',
        "no such database: d",
    ],
)
def test_a_permanent_refusal_needs_a_person(said: str) -> None:
    text = f'connection failed: connection to server at "127.0.0.1", port 5432 failed: FATAL:  {said}'
    assert isinstance(classify(psycopg.OperationalError(text), "s"), DatabaseRefused)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 1 / 0", StatementFailed),
        ("SET lock_timeout = '10ms'; LOCK TABLE t", StatementInterrupted),
        ("SET statement_timeout = '10ms'; SELECT pg_sleep(5)", StatementInterrupted),
        ("SET default_transaction_read_only = on; COMMIT; CREATE TABLE public.y ()", StatementInterrupted),
        ("SELECT pg_terminate_backend(pg_backend_pid())", DatabaseUnreachable),
        ("SET ROLE pg_monitor; CREATE SCHEMA x", DatabaseRefused),
    ],
)
def test_a_statement_that_fails(info: ConnectionInfo, statement: str, expected: type[Exception]) -> None:
    with connect(info, application="other") as other:
        other.execute("CREATE TABLE public.t (id int)")
        other.commit()
        other.execute("LOCK TABLE public.t")
        connection = connect(info, application="test")
        connection.execute("SET search_path = public, pg_catalog")
        with pytest.raises(expected, match=r"@127\.0\.0\.1"):
            for part in statement.split("; "):
                connection.execute(part.encode())
        connection.close()
        other.rollback()


def test_a_quota_of_the_servers_disk_is_an_outage(info: ConnectionInfo) -> None:
    with connect(info, application="test", autocommit=True) as connection:
        connection.execute("CREATE UNLOGGED TABLE public.t (x text)")
        connection.execute("ALTER TABLE public.t ALTER x SET STORAGE PLAIN")
        limit_files([connection.info.backend_pid], 16 << 20)  # the size of a file of the write-ahead log
        with pytest.raises(StatementInterrupted, match="A quota or a limit on the size of files"):
            connection.execute("INSERT INTO public.t SELECT repeat('x', 8000) FROM generate_series(1, 3000)")
        limit_files([connection.info.backend_pid], None)
        connection.execute("INSERT INTO public.t SELECT repeat('x', 8000) FROM generate_series(1, 3000)")


def test_timeouts_of_the_role_are_ignored(postgres: PostgresServer, info: ConnectionInfo) -> None:
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE hasty LOGIN PASSWORD 'x'")
        admin.execute("ALTER ROLE hasty SET statement_timeout = '1ms'")
    try:
        with connect(replace(info, user="hasty", password="x"), application="test") as connection:
            assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
    finally:
        with postgres.connect() as admin:
            admin.execute("DROP ROLE hasty")


def test_a_slave_that_is_read_only_for_others_is_written_to(info: ConnectionInfo) -> None:
    with connect(info, application="test", autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{info.database}" SET default_transaction_read_only = on'.encode())
    with connect(info, application="test") as connection:
        connection.execute("CREATE TABLE public.t (id int)")
        assert connection.execute("SHOW transaction_read_only").fetchone() == ("off",)


def test_a_name_cannot_break_out_of_the_options(info: ConnectionInfo) -> None:
    with connect(info, application="a b\\c 'd' \"e\" -c work_mem=1") as connection:
        row = connection.execute("SELECT current_setting('application_name')").fetchone()
        assert row == ("a b\\c 'd' \"e\" -c work_mem=1",)
    assert isinstance(connection, psycopg.Connection)


LONG = "sluice load A_PREFIX_OF_THE_GREATEST_LENGTH slave-" + "x" * 40


@pytest.mark.parametrize(("name", "other"), [(f"{LONG}-1", f"{LONG}-2"), ("sluice Ä🗝-1", "sluice Ä🗝-2"), ("a", "b")])
def test_sessions_are_found_by_names_of_any_length_and_no_other_ones(
    info: ConnectionInfo, name: str, other: str
) -> None:
    with (
        connect(info, application="test", autocommit=True) as admin,
        connect(info, application=name, autocommit=True) as mine,
        connect(info, application=other, autocommit=True) as another,
    ):
        shown = admin.execute("SELECT application_name FROM pg_stat_activity WHERE pid = %s", [mine.info.backend_pid])
        assert shown.fetchone() == (application_name(name),)
        assert sessions_of(admin, name) == sessions_of(admin, other) == 1
        assert end_sessions(admin, name) == 1
        with pytest.raises(DatabaseUnreachable):
            mine.execute("SELECT 1")
        assert another.execute("SELECT 1").fetchone() == (1,)
