"""Between a client and a server: a proxy of TCP that can be made a bad connection, and counts what travels.

Each connection has two pumps, threads that carry bytes one way. What the weather is, they look at for every chunk.
An ambush waits for a COMMIT on its way to the server, and acts before the server gets it, or before the client gets
the answer.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from devstack.ports import HOST

CHUNK = 1 << 16
COMMIT = b"COMMIT\x00"
"""As PostgreSQL's clients send it."""
COMMIT_OF_MARIADB = b"\x07\x00\x00\x00\x03COMMIT"
"""A packet of seven bytes: a query."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST, and what was not sent yet is lost."""


class Moment(StrEnum):
    """When a strike falls."""

    NOW = "at once"
    BEFORE_COMMIT = "before the server gets a COMMIT"
    BEFORE_ANSWER = "after the server got a COMMIT, before its answer arrives"


@dataclass
class Weather:
    """How bytes travel at present. `latency` in seconds a chunk; `bandwidth` in bytes a second, 0 unlimited."""

    latency: float = 0.0
    bandwidth: float = 0.0
    halve: bool = False
    """The next chunk of more than one byte is cut in the middle, and the connection with it."""


@dataclass
class Ambush:
    """Acts once, at the next COMMIT. `act` returns True when the connection is to be cut as well."""

    moment: Moment
    act: Callable[[], bool]


class Proxy:
    """Listens on its own port for a server's port on this machine."""

    def __init__(
        self,
        server_port: int,
        commit: bytes = COMMIT,
        watch: Callable[[int], Callable[[bytes, bool], None]] | None = None,
    ):
        """`watch`: is called with the client's port for each connection; what it returns sees each chunk, and whether
        it goes to the server."""
        self.server_port = server_port
        self.watch = watch
        self.commit = commit
        self.weather = Weather()
        self.bytes = 0
        """How many went through, either way."""
        self.met = 0
        """How many chunks met bad weather, or nothing that travels."""
        self._flowing = threading.Event()
        self._flowing.set()
        self._ambush: Ambush | None = None
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name=f"proxy of {server_port}", daemon=True).start()

    def stall(self) -> None:
        """Stops all data without a message: half-open connections."""
        self._flowing.clear()

    def heal(self) -> None:
        """Fine weather."""
        self.weather = Weather()
        self._flowing.set()

    def lie_in_wait(self, ambush: Ambush | None) -> None:
        self._ambush = ambush

    @property
    def lurking(self) -> bool:
        """Whether an ambush still waits for its COMMIT."""
        return self._ambush is not None

    def cut(self) -> int:
        """Resets all connections; how many."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.heal()
        self.cut()

    def sprung(self) -> Ambush | None:
        """The ambush, for the one link that meets a COMMIT first."""
        with self._lock:
            ambush, self._ambush = self._ambush, None
        return ambush

    def await_flow(self) -> None:
        if not self._flowing.is_set():
            self.met += 1
        self._flowing.wait()

    def forget(self, link: "_Link") -> None:
        with self._lock:
            self._links.discard(link)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((HOST, self.server_port), timeout=5.0)
            except OSError:  # the server is down
                client.close()
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket):
        self._proxy = proxy
        self._client = client
        self._server = server
        self._answers = threading.Event()
        self._answers.set()
        self._ended = 0
        self._saw = proxy.watch(client.getpeername()[1]) if proxy.watch is not None else None

    def start(self) -> None:
        for pump in (self._up, self._down):
            threading.Thread(target=self._pump, args=(pump,), name=pump.__name__, daemon=True).start()

    def cut(self) -> None:
        """Ends it at once, with a reset where the system allows."""
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RD)  # wakes the pump, which closes
        self._answers.set()

    def _pump(self, pump: Callable[[], None]) -> None:
        try:
            pump()
        except OSError:
            self.cut()
        # The other pump ends as well: nobody continues with half a connection.
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)
        with self._proxy._lock:  # noqa: SLF001
            self._ended += 1
        if self._ended == 2:
            self._client.close()
            self._server.close()
            self._proxy.forget(self)

    def _up(self) -> None:
        tail = b""
        while data := self._client.recv(CHUNK):
            at_commit = self._proxy.commit in tail + data
            tail = data[-len(self._proxy.commit) :]
            ambush = self._proxy.sprung() if at_commit and self._proxy.lurking else None
            if ambush is None:
                self._forward(data, self._server)
            elif ambush.moment is Moment.BEFORE_ANSWER:
                self._answers.clear()
                try:
                    self._forward(data, self._server)
                    time.sleep(0.02)  # the server commits; whether it is through by then is left to chance
                    if ambush.act():
                        self.cut()
                finally:
                    self._answers.set()
            elif ambush.act():
                self.cut()
            else:
                self._forward(data, self._server)

    def _down(self) -> None:
        while data := self._server.recv(CHUNK):
            self._answers.wait()
            self._forward(data, self._client)

    def _forward(self, data: bytes, to: socket.socket) -> None:
        with self._proxy._lock:  # noqa: SLF001
            self._proxy.bytes += len(data)
        if self._saw is not None:
            self._saw(data, to is self._server)
        self._proxy.await_flow()
        weather = self._proxy.weather
        if weather.latency or weather.bandwidth:
            self._proxy.met += 1
            time.sleep(weather.latency + (len(data) / weather.bandwidth if weather.bandwidth else 0.0))
        if weather.halve and len(data) > 1:
            weather.halve = False
            self._proxy.met += 1
            to.sendall(data[: len(data) // 2])
            self.cut()
            return
        to.sendall(data)
