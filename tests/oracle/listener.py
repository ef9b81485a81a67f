"""A stand-in for Oracle's listener: it takes the driver's first packet, and answers as a listener would, or not at all.

It does not imitate the server behind a listener. Packets are those of Oracle Net as far as the driver reads them.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

REFUSE = 4
"""The type of a packet."""


@dataclass
class Listener:
    """A listener with the connect descriptors that it received."""

    port: int
    asked: list[str] = field(default_factory=list)
    """The connect descriptors."""

    @property
    def descriptor(self) -> str:
        (found,) = self.asked
        return found


def refusal(code: int) -> bytes:
    """The packet of a listener that refuses with ORA-`code`."""
    said = f"(DESCRIPTION=(TMP=)(VSNNUM=0)(ERR={code})(ERROR_STACK=(ERROR=(CODE={code})(EMFI=4))))".encode()
    body = struct.pack(">BBH", 34, 0, len(said)) + said
    return struct.pack(">HHBBH", 8 + len(body), 0, REFUSE, 0, 0) + body


def _asked(client: socket.socket) -> str:
    """The connect descriptor, which may come in its own packet."""
    read = b""
    while True:
        piece = client.recv(8192)
        read += piece
        begun = read.find(b"(DESCRIPTION=")
        if not piece or (begun >= 0 and read.count(b"(", begun) == read.count(b")", begun)):
            return read[max(begun, 0) :].decode("ascii", "replace")


@contextmanager
def listening(answer: bytes | None, tls: ssl.SSLContext | None = None) -> Iterator[Listener]:
    """Runs a listener. `answer` returns the packet for a connect descriptor; None: silence, until the client stops
    waiting."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Listener(server.getsockname()[1])
        taken: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    plain, _ = server.accept()
                    taken.append(plain)
                    with plain, suppress(OSError):
                        client = tls.wrap_socket(plain, server_side=True) if tls else plain
                        found.asked.append(_asked(client))
                        if answer is None:
                            client.recv(8192)
                        else:
                            client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield found
        for each in (*taken, server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=10)
