"""What travels between a client and a server, in bytes: a proxy of TCP that counts."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from devstack.ports import HOST
from sluice.model.connection import ConnectionInfo

CHUNK = 1 << 16


class Wire:
    """Listens on a port of its own for a server; `bytes` went through in either direction."""

    def __init__(self, info: ConnectionInfo):
        self.server = (info.host, info.port)
        self.bytes = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, 0), backlog=16)
        self.info = replace(info, host=HOST, port=self._listener.getsockname()[1])
        """How to reach the server through it."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No more connections; those that are open end with their clients."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.server)
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(CHUNK):
                with self._lock:
                    self.bytes += len(data)
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wires(infos: Mapping[str, ConnectionInfo]) -> Iterator[dict[str, Wire]]:
    """One for each server."""
    made = {name: Wire(info) for name, info in infos.items()}
    try:
        yield made
    finally:
        for wire in made.values():
            wire.close()
