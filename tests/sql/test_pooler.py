"""Behind PgBouncer a session has the canonical settings, or `check` names what is wrong."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from devstack.account import new_folder, service_account
from devstack.ports import HOST, free_port
from devstack.postgres import PostgresServer
from sluice.cli.bootstrap import apt_install
from sluice.database.errors import DatabaseUnreachable
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres import issues, privileges
from sluice.vendors.postgres.connection import CANONICAL, PATIENT, connect, ensure_settings, quoted, uri
from sluice.vendors.postgres.source.reader import ArrowSession
from tests.waiting import awaited

FOREIGN = {"datestyle": "German", "timezone": "Asia/Kolkata", "bytea_output": "escape", "search_path": "public"}
"""Settings of the database, under which texts of values differ."""


def pgbouncer() -> str:
    """The path of the program, which root gets installed."""
    folders = "/usr/sbin:/usr/bin:/usr/local/bin"
    path = shutil.which("pgbouncer", path=folders) or (
        apt_install(["pgbouncer"], "tests connect through it") and shutil.which("pgbouncer", path=folders)
    )
    assert path, "There is no PgBouncer. Install it (on Debian: sudo apt-get install pgbouncer)."
    return path


@pytest.fixture
def pooled(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> Iterator[Callable[[str, str], ConnectionInfo]]:
    """Returns an address of a PgBouncer with these `pool_mode` and `ignore_startup_parameters`."""
    info = database(role=True)
    with connect(postgres.info(info.database), application="test", autocommit=True) as admin:
        for name, value in FOREIGN.items():
            admin.execute(f"ALTER DATABASE {quoted(info.database)} SET {name} = '{value}'".encode())
    started: list[subprocess.Popen[bytes]] = []
    folders: list[Path] = []

    def run(mode: str, ignored: str) -> ConnectionInfo:
        account = service_account()
        folder = new_folder("pgbouncer")
        folders.append(folder)
        port = free_port()
        (folder / "users").write_text(f'"{info.user}" "{info.password}"\n')
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={info.host} port={info.port}\n"
            f"[pgbouncer]\nlisten_addr = {HOST}\nlisten_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\n"
            f"auth_file = {folder}/users\npool_mode = {mode}\nignore_startup_parameters = {ignored}\n"
        )
        if account:
            for path in folder.iterdir():
                account.own(path)
        options = account.popen if account else {}
        started.append(subprocess.Popen([pgbouncer(), "-q", folder / "pgbouncer.ini"], **options))
        address = replace(info, host=HOST, port=port)

        def answers() -> bool:
            try:
                connect(address, application="test").close()
            except DatabaseUnreachable:
                return False
            return True

        awaited(answers)
        return address

    yield run
    for process in started:
        process.kill()
        process.wait()
    for folder in folders:
        shutil.rmtree(folder)


def test_settings_that_a_session_lacks_are_set(database: Callable[..., ConnectionInfo]) -> None:
    info = database()
    parameters = {"host": info.host, "port": info.port, "dbname": info.database, "user": info.user}
    with psycopg.connect(**parameters, password=info.password, autocommit=True) as session:  # type: ignore[arg-type]
        session.execute("SET datestyle = German")
        assert session.execute(ensure_settings(CANONICAL | PATIENT).encode()).fetchall()
        for name, value in CANONICAL.items():
            assert session.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,), name
        assert session.execute(ensure_settings(CANONICAL | PATIENT).encode()).fetchall() == []


@pytest.mark.since(17, "transaction_timeout")
def test_no_session_has_a_limit_on_the_length_of_its_transactions(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    info = database()
    with connect(postgres.info(info.database), application="test", autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {quoted(info.database)} SET transaction_timeout = '1s'".encode())
    with connect(info, application="test") as session:
        assert session.execute("SHOW transaction_timeout").fetchone() == ("0",)
    over_adbc = ArrowSession(uri(info, "test"))
    over_adbc.run(ensure_settings(CANONICAL | PATIENT))
    with over_adbc.rows("SELECT current_setting('transaction_timeout') AS limit") as read:
        assert read.read_all().to_pylist() == [{"limit": "0"}]
    over_adbc.close()


@pytest.mark.long
def test_a_session_whose_startup_options_are_dropped_gets_the_canonical_settings(
    pooled: Callable[[str, str], ConnectionInfo],
) -> None:
    address = pooled("session", "options,extra_float_digits")
    with connect(address, application="test") as session:
        for name, value in CANONICAL.items():
            assert session.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,), name
        session.rollback()
        assert session.execute("SELECT current_setting('datestyle')").fetchone() == ("ISO, YMD",), "after a rollback"
        assert issues_of_pooler(address) == []


@pytest.mark.long
def test_a_session_over_adbc_gets_them_too(pooled: Callable[[str, str], ConnectionInfo]) -> None:
    session = ArrowSession(uri(pooled("session", "options"), "test"))
    try:
        session.run(ensure_settings(CANONICAL | PATIENT))
        with session.rows("SELECT '2026-02-01'::date::text AS day, '\\x01ff'::bytea::text AS bytes") as read:
            assert read.read_all().to_pylist() == [{"day": "2026-02-01", "bytes": "\\x01ff"}]
    finally:
        session.close()


@pytest.mark.long
def test_a_pooler_that_shares_sessions_between_clients_is_refused(
    pooled: Callable[[str, str], ConnectionInfo],
) -> None:
    (issue,) = issues_of_pooler(pooled("transaction", "options"))
    assert "pool_mode = session" in issue


def issues_of_pooler(address: ConnectionInfo) -> list[str]:
    with connect(address, application="test") as session:
        found = issues.of_account(privileges.account(session), 1, allow_superuser=True)
    return [issue.remedy for issue in found if "pooler" in issue.why]
