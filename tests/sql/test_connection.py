"""What a driver's error means: a person must act, or another try may succeed."""

from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest

from embedded.postgres import PostgresServer
from sluice.domain.connection import ConnectionInfo
from sluice.vendors.postgres.connection import (
    DatabaseRefused,
    DatabaseUnreachable,
    StatementFailed,
    StatementInterrupted,
    classified,
    connect,
)
from tests.file_limit import limit_files


@pytest.fixture
def info(database: Callable[..., ConnectionInfo]) -> ConnectionInfo:
    return database()


REFUSED = [{"password": "wrong"}, {"password": ""}, {"database": "none such"}, {"user": "nobody"}]


@pytest.mark.parametrize("change", REFUSED)
def test_a_refused_log_in_is_a_matter_for_a_person(info: ConnectionInfo, change: dict[str, str]) -> None:
    with pytest.raises(DatabaseRefused, match="Check user, password and database of the Airflow connection") as caught:
        connect(replace(info, **change), application="test")  # type: ignore[arg-type]
    assert info.password not in str(caught.value)


def test_a_server_that_is_down_is_an_outage(info: ConnectionInfo) -> None:
    with pytest.raises(DatabaseUnreachable, match="The server is down, restarting or not reachable from here"):
        connect(replace(info, port=1), application="test")


def test_a_server_without_a_free_place_is_an_outage(postgres: PostgresServer, info: ConnectionInfo) -> None:
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE crowded LOGIN PASSWORD 'x' CONNECTION LIMIT 0")
    try:
        with pytest.raises(DatabaseUnreachable, match="too many connections"):
            connect(replace(info, user="crowded", password="x"), application="test")
    finally:
        with postgres.connect() as admin:
            admin.execute("DROP ROLE crowded")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 1 / 0", StatementFailed),
        ("SET lock_timeout = '10ms'; LOCK TABLE t", StatementInterrupted),
        ("SET statement_timeout = '10ms'; SELECT pg_sleep(5)", StatementInterrupted),
        ("SET default_transaction_read_only = on; COMMIT; CREATE TABLE public.y ()", StatementInterrupted),
        ("SELECT pg_terminate_backend(pg_backend_pid())", DatabaseUnreachable),
        ("SET ROLE pg_monitor; CREATE TABLE public.x ()", DatabaseRefused),
    ],
)
def test_a_statement_that_fails(info: ConnectionInfo, statement: str, expected: type[Exception]) -> None:
    with connect(info, application="other") as other:
        other.execute("CREATE TABLE public.t (id int)")
        other.commit()
        other.execute("LOCK TABLE public.t")
        connection = connect(info, application="test")
        connection.execute("SET search_path = public, pg_catalog")
        with pytest.raises(expected, match=r"@127\.0\.0\.1"), classified(info):
            for part in statement.split("; "):
                connection.execute(part.encode())
        connection.close()
        other.rollback()


def test_a_quota_of_the_servers_disk_is_an_outage(info: ConnectionInfo) -> None:
    with connect(info, application="test", autocommit=True) as connection:
        connection.execute("CREATE UNLOGGED TABLE public.t (x text)")
        connection.execute("ALTER TABLE public.t ALTER x SET STORAGE PLAIN")
        limit_files([connection.info.backend_pid], 16 << 20)  # the size of a file of the write-ahead log
        with pytest.raises(StatementInterrupted, match="A quota or a limit on the size of files"), classified(info):
            connection.execute("INSERT INTO public.t SELECT repeat('x', 8000) FROM generate_series(1, 3000)")
        limit_files([connection.info.backend_pid], None)
        connection.execute("INSERT INTO public.t SELECT repeat('x', 8000) FROM generate_series(1, 3000)")


def test_a_roles_own_time_outs_do_not_count(postgres: PostgresServer, info: ConnectionInfo) -> None:
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE hasty LOGIN PASSWORD 'x'")
        admin.execute("ALTER ROLE hasty SET statement_timeout = '1ms'")
    try:
        with connect(replace(info, user="hasty", password="x"), application="test") as connection:
            assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
    finally:
        with postgres.connect() as admin:
            admin.execute("DROP ROLE hasty")


def test_a_name_cannot_break_out_of_the_options(info: ConnectionInfo) -> None:
    with connect(info, application="a b\\c 'd' \"e\" -c work_mem=1") as connection:
        row = connection.execute("SELECT current_setting('application_name')").fetchone()
        assert row == ("a b\\c 'd' \"e\" -c work_mem=1",)
    assert isinstance(connection, psycopg.Connection)
