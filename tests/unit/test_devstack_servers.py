"""The devstack's PostgreSQL and Redis: start and stop, passwords, permissions."""

import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from devstack.account import new_folder
from devstack.ports import HOST, free_port, holder
from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from devstack.server import Server, ServerDidNotStart
from sluice.model.connection import ConnectionInfo
from tests.errors import raises_code

KINDS = {"postgres": PostgresServer, "redis": RedisServer}


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that the account of PostgreSQL can reach, with a blank and a quote in its name."""
    path = new_folder("sluice-test-")
    yield path / 'with " blank'
    shutil.rmtree(path)


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, folder: Path) -> Iterator[Server]:
    settings = {"fsync": "off"} if request.param == "postgres" else {"appendfsync": "no"}
    made = KINDS[request.param](folder, settings=settings)
    yield made
    made.stop()


@pytest.mark.one_in(2)
def test_a_server_starts_once_survives_a_crash_and_stops(server: Server) -> None:
    server.start(die_with_parent=True)
    first = server.process()
    assert first is not None and server.is_ready()
    server.start()
    assert server.process() == first, "a second start changes nothing"
    port = server.port
    server.kill()
    assert not server.is_running() and not server.is_ready()
    server.start(die_with_parent=True)
    assert server.is_ready() and server.process() != first
    assert server.port == port, "clients find it where it was"
    server.stop()
    assert not server.is_running()
    server.stop()


def test_another_handle_sees_and_stops_the_same_server(server: Server) -> None:
    server.start(die_with_parent=True)
    other = type(server)(server.directory)  # type: ignore[call-arg]
    assert other.is_ready() and other.port == server.port and other.process() == server.process()
    other.stop()
    assert not server.is_running()


def test_a_stale_pid_file_that_names_another_process_is_not_believed(server: Server) -> None:
    server.start(die_with_parent=True)
    text = server.pid_file.read_text()
    server.kill()
    server.pid_file.write_text(text.replace(text.split("\n")[0], str(os.getpid()), 1))
    assert not server.is_running()
    server.stop()  # must not signal us
    server.pid_file.unlink()


def test_a_port_in_use_names_the_port_the_holder_and_the_remedy(server: Server, folder: Path) -> None:
    server.start(die_with_parent=True)
    rival = type(server)(folder.parent / "rival", port=server.port)  # type: ignore[call-arg]
    rival.port_option = "--some-port PORT"
    with raises_code("port-in-use") as raised:
        rival.start()
    process = server.process()
    assert process and f"Port {server.port} " in str(raised.value) and f"(pid {process.pid})" in str(raised.value)
    assert "--some-port PORT" in str(raised.value)


def test_the_holder_of_a_port_is_the_listener_and_not_a_child_that_it_just_forked() -> None:
    with socket.create_server((HOST, 0)) as listener:
        children = [
            subprocess.Popen(["sleep", "600"], pass_fds=[listener.fileno()])  # each child holds the socket too
            for _ in range(8)
        ]
        try:
            assert f"(pid {os.getpid()})" in str(holder(listener.getsockname()[1]))
        finally:
            for child in children:
                child.kill()
                child.wait()


def test_a_server_that_cannot_start_shows_its_own_words(folder: Path) -> None:
    server = PostgresServer(folder, settings={"fsync": "off", "shared_buffers": "plenty"})
    with pytest.raises(ServerDidNotStart, match="shared_buffers"):
        server.start()
    assert not server.is_running()


@pytest.mark.long
def test_an_interrupted_initdb_is_begun_again(folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("18\n")
    (folder / "initdb.unfinished").touch()
    server = PostgresServer(folder, settings={"fsync": "off"})
    try:
        server.start(die_with_parent=True)
        assert server.is_ready()
    finally:
        server.stop()


def test_secrets_are_in_private_files_and_on_no_command_line(server: Server) -> None:
    server.start(die_with_parent=True)
    private = [p for p in server.directory.rglob("*") if p.is_file() and ("password" in str(p) or p.suffix == ".conf")]
    ours = [p for p in private if p.parent != getattr(server, "data", None)]
    assert ours and all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in ours)
    secret = next(p for p in ours if "password" in str(p)).read_text()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert secret.encode() not in entry.read_bytes()
        except OSError:
            continue


def test_a_wrong_password_is_refused(postgres: PostgresServer, redis_server: RedisServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(host="127.0.0.1", port=postgres.port, user="postgres", password="wrong", dbname="postgres")
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(host="127.0.0.1", port=redis_server.port, retry=Retry(NoBackoff(), 0)).ping()


def test_a_database_of_a_role_without_privileges(
    postgres: PostgresServer, database: Callable[..., ConnectionInfo]
) -> None:
    info = database(role=True, name='Odd "Name".x')
    with psycopg.connect(
        host=info.host, port=info.port, user=info.user, password=info.password, dbname=info.database
    ) as connection:
        assert connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)
        connection.execute("CREATE TABLE public.t (a int)")
        row = connection.execute("SELECT current_setting('server_encoding'), upper('ä😀')").fetchone()
        assert row == ("UTF8", "Ä😀")
        assert connection.info.server_version // 10000 == postgres.release


def test_a_free_port_is_not_one_of_outgoing_connections() -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert all(not low <= free_port() <= high for _ in range(20))


def test_redis_is_empty_for_each_test(redis_url: str) -> None:
    with redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "over")


def test_redis_is_empty_for_each_test_again(redis_url: str) -> None:
    test_redis_is_empty_for_each_test(redis_url)
