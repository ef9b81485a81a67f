"""Over a network a server must prove its identity before it gets a password; weaker connections are reported."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import adbc_driver_postgresql.dbapi
import pytest
import redis

from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from sluice.coordination.redis_store import StoreRefuses, StoreUnreachable
from sluice.database.errors import DatabaseRefused
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Severity
from sluice.preflight import checks
from sluice.vendors.postgres.connection import connect, uri
from tests.authority import Authority

HOST = socket.gethostname()
"""A name of this machine that does not say that it is this machine."""
SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""What a client asks first: https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL"""


@dataclass(frozen=True)
class Secured:
    """A server with TLS, at `info`, and the authority of its certificate."""

    info: ConnectionInfo
    authority: Path
    stranger: Path
    """Another authority."""
    impostor: int
    """Port of the same server with a certificate of the authority for another host."""


class TlsInFront:
    """Accepts connections with TLS, as PostgreSQL does, and forwards them to a server that was built without."""

    def __init__(self, server: PostgresServer, certificate: Path, key: Path):
        self._server = server
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._listening = socket.create_server((HOST, 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=[self._listening.accept()[0]], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # A client that finds no proof goes away in the middle.
        with suppress(OSError), client:
            if client.recv(len(SSL_REQUEST)) != SSL_REQUEST:
                return
            client.sendall(b"S")
            here = ("127.0.0.1", self._server.port)
            with self._tls.wrap_socket(client, server_side=True) as secured, socket.create_connection(here) as server:
                threading.Thread(target=self._pass_on, args=[server, secured], daemon=True).start()
                self._pass_on(secured, server)

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def secured(postgres: PostgresServer, tmp_path: Path) -> Iterator[Secured]:
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    front = TlsInFront(postgres, *authority.certify(HOST))
    impostor = TlsInFront(postgres, *authority.certify("elsewhere.example"))
    info = replace(postgres.info(), host=HOST, port=front.port)
    yield Secured(info, authority.file, stranger.file, impostor.port)
    front.close()
    impostor.close()


def test_over_a_network_only_a_server_that_proves_its_name_is_talked_to(secured: Secured) -> None:
    with pytest.raises(DatabaseRefused, match=r"certificate.* name the file of that authority"):
        connect(secured.info, application="test")
    proved = replace(secured.info, options={"sslrootcert": str(secured.authority)})
    with connect(proved, application="test") as connection:
        assert connection.pgconn.ssl_in_use
    for options in ({"sslrootcert": str(secured.stranger)}, {"sslrootcert": "/nowhere.crt"}):
        with pytest.raises(DatabaseRefused, match="certificate"):
            connect(replace(secured.info, options=options), application="test")
    with pytest.raises(DatabaseRefused, match="does not match host name"):
        connect(replace(proved, port=secured.impostor), application="test")


def test_the_driver_of_bulk_loads_asks_for_the_same_proof(secured: Secured) -> None:
    with pytest.raises(Exception, match="certificate"):
        adbc_driver_postgresql.dbapi.connect(uri(secured.info, "test"))
    proved = replace(secured.info, options={"sslrootcert": str(secured.authority)})
    with adbc_driver_postgresql.dbapi.connect(uri(proved, "test")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_a_server_without_tls_is_refused_over_a_network(postgres: PostgresServer) -> None:
    info = replace(postgres.info(), host=HOST)
    with pytest.raises(DatabaseRefused, match=r"SSL was required.*sslrootcert=FILE.*sslmode asks for less"):
        connect(info, application="test")
    connect(replace(info, options={"sslmode": "prefer"}), application="test").close()


def test_less_than_a_proof_is_the_connections_choice_and_warned_of(secured: Secured) -> None:
    assert not list(checks.of_database("master", secured.info))
    chosen = replace(secured.info, options={"sslmode": "require"})
    with connect(chosen, application="test") as connection:
        assert connection.pgconn.ssl_in_use
    (warning,) = checks.of_database("master", chosen)
    assert "sslmode verify-full (the connection says require)" in str(warning)
    assert not list(checks.of_database("master", replace(chosen, host="127.0.0.1")))


def test_a_redis_that_obeys_everybody_is_warned_of(
    redis_server: RedisServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert checks.of_redis(redis_server.url) == []
    opened = RedisServer(tmp_path / "open")
    opened.start()
    request.addfinalizer(opened.stop)
    with redis.from_url(opened.url) as administrator:
        administrator.config_set("requirepass", "")
    without = f"redis://127.0.0.1:{opened.port}/0"
    for address in (without, f"redis://default:any@127.0.0.1:{opened.port}/0"):
        (warning,) = checks.of_redis(address)
        assert str(warning).startswith(f"Redis, 127.0.0.1:{opened.port}: a password: everybody")
    with redis.from_url(without) as administrator:
        administrator.execute_command("ACL", "SETUSER", "sluice", "on", ">secret", "~*", "+@all")
        administrator.execute_command("ACL", "SETUSER", "default", "off")
    with pytest.raises(StoreRefuses) as refused:
        checks.of_redis(without)
    assert checks.no_redis(refused.value).severity is Severity.ERROR
    assert checks.of_redis(f"redis://sluice:secret@127.0.0.1:{opened.port}/0") == []
    named = f"redis://sluice:secret@{HOST}:{opened.port}/0"
    (warning,) = checks.of_redis(named)
    assert "in clear" in str(warning) and "rediss://" in str(warning)
    opened.stop()
    with pytest.raises(StoreUnreachable):
        checks.of_redis(without)


@pytest.fixture
def administered(tmp_path: Path) -> Iterator[tuple[RedisServer, redis.Redis]]:
    """A Redis of the test's own, and its administrator."""
    server = RedisServer(tmp_path / "own")
    server.start()
    with redis.from_url(server.url, decode_responses=True) as administrator:
        yield server, administrator
    server.stop()


def test_each_command_that_redis_refuses_is_named(administered: tuple[RedisServer, redis.Redis]) -> None:
    server, administrator = administered
    address = f"redis://sluice:secret@127.0.0.1:{server.port}/0"
    documented = ("on", ">secret", "resetkeys", "~sluice:*", "-@all", "+@read", "+@write", "+@scripting",
                  "+@transaction", "+@connection", "+@pubsub")  # fmt: skip
    administrator.execute_command("ACL", "SETUSER", "sluice", "reset", *documented)
    assert checks.of_redis(address) == [], "the rights that the remedy gives are enough"
    for command in ("eval", "pexpire", "set", "hgetall", "xadd", "del", "scan", "multi"):
        administrator.execute_command("ACL", "SETUSER", "sluice", f"-{command}")
        (issue,) = checks.of_redis(address)
        named = "EVAL" if command == "pexpire" else command.upper()
        assert (issue.what, issue.severity) == (f"the command {named}", Severity.ERROR)
        administrator.execute_command("ACL", "SETUSER", "sluice", f"+{command}")
    administrator.execute_command("ACL", "SETUSER", "sluice", "resetkeys", "~other:*")
    (issue,) = checks.of_redis(address)
    assert issue.what.startswith("the commands SET, GET,")
    assert "~sluice:*" in issue.remedy
    assert all(administrator.pttl(name) > 0 for name in administrator.keys("sluice:check:*"))


def test_a_redis_that_may_evict_or_is_almost_full_is_warned_of(
    administered: tuple[RedisServer, redis.Redis],
) -> None:
    server, administrator = administered
    used = int(administrator.info("memory")["used_memory"])
    administrator.config_set("maxmemory", 40 * used)
    assert checks.of_redis(server.url) == []
    administrator.config_set("maxmemory-policy", "allkeys-lru")
    (issue,) = checks.of_redis(server.url)
    assert (issue.what, issue.severity) == ("maxmemory-policy noeviction", Severity.WARNING)
    administrator.config_set("maxmemory-policy", "noeviction")
    for number in range(36):
        administrator.set(f"filling{number}", "x" * used)
    (issue,) = checks.of_redis(server.url)
    assert issue.what == "memory"
    administrator.config_set("maxmemory", used)
    with pytest.raises(StoreUnreachable, match="Redis is full"):
        checks.of_redis(server.url)
