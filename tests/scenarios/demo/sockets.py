"""The sockets on which a stack listens, and their answers to a client without credentials."""

import json
import os
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from devstack.home import Home
from devstack.leftovers import everything
from devstack.process import descendants

HOST = "127.0.0.1"
LISTENING = "0A"
"""State of a socket in `/proc/net/tcp`."""
ACCEPTS = 0x10000
"""Flag of a listening socket in `/proc/net/unix`."""
PUBLIC = {
    "/api/v2/monitor/health",
    "/api/v2/version",
    "/api/v2/auth/login",
    "/api/v2/auth/logout",
}
"""Of Airflow's API: what everybody may ask, since it tells nothing of what is stored."""
NOT_DESCRIBED = (
    ("GET", "/sluice/"),
    ("GET", "/sluice/overview.json"),
    ("GET", "/sluice/metrics"),
    ("GET", "/sluice/slaves/DEMO_/dr1/"),
    ("GET", "/sluice/slaves/DEMO_/dr1/state.json"),
    ("GET", "/sluice/masters/DEMO_/"),
    ("GET", "/sluice/actions/hold?prefix=DEMO_"),
    ("POST", "/sluice/actions/hold"),
    ("GET", "/sluice/static/monitor.js"),
    ("GET", "/sluice/reports/"),
    ("GET", "/sluice/reports/x/"),
    ("GET", "/sluice/reports/x/report.json"),
    ("GET", "/auth/token"),
    ("GET", "/auth/token/login"),
    ("GET", "/execution/connections/demo_master"),
    ("GET", "/execution/variables/x"),
    ("GET", "/execution/xcoms/a/b/c/d"),
    ("PATCH", "/execution/task-instances/00000000-0000-0000-0000-000000000000/run"),
)
"""Sluice's own pages, and what Airflow's description leaves out: log-in, and what tasks ask."""


@dataclass(frozen=True)
class Listener:
    """A socket with the command lines of the processes that hold it."""

    address: str
    """`host:port`, or the path of a Unix socket."""
    commands: tuple[str, ...]

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])

    def held_by(self, word: str) -> bool:
        return any(word in command for command in self.commands)


def listeners(pids: list[int]) -> set[Listener]:
    """The listening sockets of these processes."""
    holders: dict[str, set[str]] = {}
    for pid in pids:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor)):
                        holders.setdefault(found[1], set()).add(command)
    return {Listener(address, tuple(sorted(holders[inode]))) for inode, address in _listening() if inode in holders}


def _listening() -> Iterator[tuple[str, str]]:
    for file, bytes_of_address in (("tcp", 4), ("tcp6", 16)):
        for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTENING:
                host, port = columns[1].split(":")
                words = [bytes.fromhex(host)[at : at + 4][::-1] for at in range(0, bytes_of_address, 4)]
                family = socket.AF_INET if bytes_of_address == 4 else socket.AF_INET6
                shown = socket.inet_ntop(family, b"".join(words)).removeprefix("::ffff:")
                yield columns[9], f"{shown}:{int(port, 16)}"
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        columns = line.split(maxsplit=7)
        if int(columns[3], 16) & ACCEPTS:
            yield columns[6], columns[7] if len(columns) > 7 else "(without a name)"


# -- what a stranger gets. Each function: what was answered that should not be, empty if nothing was.


def ask(port: int, message: bytes, end: bytes = b"", seconds: float = 60) -> bytes:
    """Sends `message`, and reads until `end` came, or the other side closes or is silent for that many seconds."""
    answer = b""
    with socket.create_connection((HOST, port), timeout=seconds) as connection, suppress(OSError):
        connection.sendall(message)
        while not (end and end in answer) and (part := connection.recv(65536)):
            answer += part
    return answer


def of_redis(listener: Listener) -> str:
    commands = (b"PING", b"INFO", b"GET sluice:x", b"CONFIG GET *", b"HELLO 3")
    answers = [ask(listener.port, command + b"\r\nQUIT\r\n") for command in commands]
    return "".join(f"{answer!r} " for answer in answers if not answer.startswith(b"-NOAUTH"))


def of_postgres(listener: Listener) -> str:
    said = ""
    for user, database in (("postgres", "postgres"), ("demo", "demo"), ("airflow", "airflow"), ("x", "template1")):
        for replication in ("false", "database"):
            try:
                psycopg.connect(
                    host=HOST, port=listener.port, user=user, dbname=database, replication=replication,
                    passfile="/none", connect_timeout=10,
                ).close()  # fmt: skip
                said += f"{user} got into {database}. "
            except psycopg.OperationalError as error:
                if "no password supplied" not in str(error):
                    said += str(error)
    return said


def status_of(
    port: int, path: str, method: str = "GET", headers: dict[str, str] | None = None, tries: int = 3
) -> tuple[int, bytes]:
    body = b"{}" if method in ("POST", "PUT", "PATCH") else None
    request = urllib.request.Request(
        f"http://{HOST}:{port}{path}", body, {"Content-Type": "application/json", **(headers or {})}, method=method
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except ConnectionResetError:
        # A server that answers and closes before the body of the request has arrived resets the connection.
        if tries == 1:
            raise
        return status_of(port, path, method, headers, tries - 1)


def of_airflow(listener: Listener) -> str:
    """Each twentieth operation that Airflow's API describes, and those that it does not describe. All of them at once
    would block the API of a busy machine for the demo."""
    status, text = status_of(listener.port, "/openapi.json")
    if status != 200:
        return f"no description: {status}"
    paths = json.loads(text)["paths"]
    described = [(method.upper(), path) for path, operations in paths.items() for method in operations]
    said = "" if len(described) > 100 else f"few operations are described: {described}"
    for method, path in (*NOT_DESCRIBED, *described[::20]):
        if path in PUBLIC:
            continue
        status, text = status_of(listener.port, re.sub(r"\{[^}]*\}", "1", path), method)
        if status not in (401, 403):
            said += f"{method} {path}: {status} {text[:80]!r}. "
    return said


def of_the_log_server(listener: Listener) -> str:
    stranger = {"Authorization": "eyJhbGciOiJub25lIn0.eyJmaWxlbmFtZSI6IngifQ."}
    answers = [status_of(listener.port, "/log/x", headers=headers) for headers in ({}, stranger)]
    return "".join(f"{status} {text!r} " for status, text in answers if status != 403)


def of_spark_connect(listener: Listener) -> str:
    """A client without the token."""
    import grpc

    credentials = grpc.local_channel_credentials()
    said = ""
    with grpc.secure_channel(f"localhost:{listener.port}", credentials) as channel:
        for method in ("AnalyzePlan", "Config", "ExecutePlan", "Interrupt", "ReleaseSession"):
            call = channel.unary_unary(f"/spark.connect.SparkConnectService/{method}")
            for metadata in ((), (("authorization", "Bearer a guess"),)):
                try:
                    said += f"{method}: {call(b'', metadata=metadata, timeout=60)!r} "
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
                        said += f"{method}: {error.code()} "
    return said


def of_sparks_pages(listener: Listener) -> str:
    """Spark's pages are open to everybody on this machine: they show no secret, and nothing can be done there."""
    said = ""
    for path in ("/environment/", "/jobs/", "/connect/", "/api/v1/applications"):
        status, text = status_of(listener.port, path)
        # 404: the server begins, and this page is not there yet.
        said += "" if status in (200, 404) else f"{path}: {status}. "
        said += f"{path} offers to kill. " if b"(kill)" in text else ""
    for path in ("/executors/threadDump/?executorId=driver", "/executors/heapHistogram/?executorId=driver"):
        if b"for executor" in status_of(listener.port, path)[1]:
            said += f"{path} shows the inside of the server. "
    for path in ("/jobs/job/kill/?id=0", "/stages/stage/kill/?id=0"):
        if status_of(listener.port, path, "POST")[0] == 200:
            said += f"{path} is obeyed. "
    return said


def of_java(listener: Listener) -> str:
    """Spark asks for its secret first; Py4J, which connects Python with it, for one of its own."""
    body = b"\0" * 8
    length = 8 + 1 + 8 + 4 + len(body)
    request = length.to_bytes(8, "big") + b"\x03" + (1).to_bytes(8, "big") + len(body).to_bytes(4, "big") + body
    # Spark takes the first question for the length of a huge message, and closes.
    steering = ask(listener.port, b"r\nu\njava.lang.System\nrj\ne\n", b"\n")
    if steering.startswith(b"!xsAuthentication error"):
        return ""
    spark = ask(listener.port, request, b"Expected SaslMessage")
    return "" if b"Expected SaslMessage" in spark else f"unknown: {spark[:300]!r} {steering[:300]!r}"


def of_spark_workers(listener: Listener) -> str:
    """The worker sends its process number first."""
    secret = b"a guess"
    answer = ask(listener.port, len(secret).to_bytes(4, "big") + secret)
    return "" if answer[4:] == (3).to_bytes(4, "big") + b"err" else repr(answer)


@dataclass(frozen=True)
class Kind:
    """A kind of socket: its owner, and what a client without credentials gets from it."""

    name: str
    means: Callable[[Listener, Home], bool]
    stranger: Callable[[Listener], str]


def _kept(folder: Path, name: str) -> int:
    return int((folder / name).read_text())


KINDS = (
    Kind("Redis", lambda found, _: found.held_by("redis-server"), of_redis),
    Kind("PostgreSQL", lambda found, _: found.held_by("postgres"), of_postgres),
    Kind("Airflow", lambda found, home: found.port == _kept(home.airflow, "port"), of_airflow),
    Kind("logs", lambda found, home: found.port == _kept(home.airflow, "log-port"), of_the_log_server),
    Kind("Spark Connect", lambda found, home: found.port == _kept(home.spark / "connect", "port"), of_spark_connect),
    Kind("Spark's pages", lambda found, home: found.port == _kept(home.spark / "connect", "ui-port"), of_sparks_pages),
    Kind("Java", lambda found, _: found.held_by("/java "), of_java),
    Kind("Spark's workers", lambda found, _: found.held_by("worker_daemon"), of_spark_workers),
)


def kind_of(listener: Listener, home: Home) -> Kind | None:
    if not listener.address.startswith(f"{HOST}:"):
        return None
    return next((kind for kind in KINDS if kind.means(listener, home)), None)


@dataclass
class Watch:
    """Looks for sockets all the time, and tries each that stays open; one that is open for a single connection is left
    alone."""

    home: Home
    pid: int
    """The process that runs the demo; all below it belong to the stack."""
    answered: list[str] = field(default_factory=list)
    """What should not have been answered, and sockets of which nothing is known."""
    seen: set[str] = field(default_factory=set)
    """Names of kinds that were tried."""

    def __enter__(self) -> "Watch":
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        before: set[Listener] = set()
        done: set[str] = set()
        while not self._over.wait(1.0):
            processes = everything(self.home) | set(descendants(self.pid))
            now = listeners([process.pid for process in processes])
            addresses = {listener.address for listener in before}
            for listener in sorted(now, key=lambda each: each.address):
                if listener.address in addresses - done:
                    done.add(listener.address)
                    self._try(listener)
            before = now

    def _try(self, listener: Listener) -> None:
        kind = kind_of(listener, self.home)
        if kind is None:
            self.answered.append(f"nothing is known of {listener}")
            return
        try:
            answer = kind.stranger(listener)
        except ConnectionRefusedError:
            return  # it ended meanwhile
        except Exception as error:  # a fault of the test itself must be seen
            answer = repr(error)
        self.seen.add(kind.name)
        if answer:
            self.answered.append(f"{kind.name} at {listener}: {answer}")
