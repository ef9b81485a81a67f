"""Whoever listens in a server's place, on this machine or between, gets no password that he could read."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import adbc_driver_manager
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from sluice.database.errors import DatabaseError, ServerUnproved
from sluice.database.registry import vendor_of
from sluice.database.session import SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import uri
from sluice.vendors.postgres.source.reader import ArrowSession

PASSWORD = "correct horse"
SALT = b"12345678" + b"abcdefghijkl"


class Rogue(threading.Thread):
    """Talks to one client at a time as `serve` does; keeps everything that it hears."""

    def __init__(self, serve: Callable[["Rogue", socket.socket], None]):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.serve = serve
        self.heard = b""

    def run(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                try:
                    self.serve(self, peer)
                except (OSError, struct.error):
                    continue

    def take(self, peer: socket.socket, size: int) -> bytes:
        data = peer.recv(size, socket.MSG_WAITALL)
        self.heard += data
        return data


@contextmanager
def rogue(
    vendor: str, serve: Callable[[Rogue, socket.socket], None], **options: str
) -> Iterator[tuple[ConnectionInfo, Rogue]]:
    listening = Rogue(serve)
    listening.start()
    yield ConnectionInfo(vendor, "127.0.0.1", listening.port, "shop", "sluice", PASSWORD, options), listening
    listening.listener.close()


# -- PostgreSQL


def asks_for_clear_text(listening: Rogue, peer: socket.socket) -> None:
    while True:
        (size,) = struct.unpack(">I", listening.take(peer, 4))
        request = listening.take(peer, size - 4)
        if request[:4] in (struct.pack(">I", 80877103), struct.pack(">I", 80877104)):  # TLS, GSS
            peer.sendall(b"N")
            continue
        break
    peer.sendall(b"R" + struct.pack(">II", 8, 3))
    listening.take(peer, 5 + len(PASSWORD) + 1)


def test_postgresql_that_asks_for_the_password_itself_gets_none() -> None:
    with rogue("postgres", asks_for_clear_text) as (info, listening):
        with pytest.raises(ServerUnproved, match=r"asked for the password itself.*require_auth"):
            vendor_of("postgres").sessions.connect(info, application="test")
        with pytest.raises(adbc_driver_manager.Error, match="authentication method requirement"):
            ArrowSession(uri(info, "test"))
        assert PASSWORD.encode() not in listening.heard
    with rogue("postgres", asks_for_clear_text, require_auth="password") as (info, listening):
        with pytest.raises(DatabaseError):
            vendor_of("postgres").sessions.connect(info, application="test")
        assert PASSWORD.encode() in listening.heard, "who trusts the listener may say so"


# -- MySQL


def _packet(number: int, data: bytes) -> bytes:
    return struct.pack("<I", len(data))[:3] + bytes([number]) + data


def _greeting(plugin: bytes) -> bytes:
    capabilities = 0x00FF_F7FF & ~0x800  # all that clients know, and no TLS
    return (
        b"\x0a8.4.0\0" + struct.pack("<I", 1) + SALT[:8] + b"\0" + struct.pack("<H", capabilities & 0xFFFF) + b"\x2d"
        + struct.pack("<HH", 2, capabilities >> 16) + bytes([21]) + bytes(10) + SALT[8:] + b"\0" + plugin + b"\0"
    )  # fmt: skip


def _heard(listening: Rogue, peer: socket.socket) -> bytes:
    head = listening.take(peer, 4)
    return listening.take(peer, struct.unpack("<I", head[:3] + b"\0")[0])


_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_PUBLIC = _KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)  # fmt: skip


def _switches_to(plugin: bytes, greeting: bytes = b"mysql_native_password") -> Callable[[Rogue, socket.socket], None]:
    def serve(listening: Rogue, peer: socket.socket) -> None:
        peer.sendall(_packet(0, _greeting(greeting)))
        _heard(listening, peer)
        question = b"\x02Password: " if plugin == b"dialog" else SALT
        peer.sendall(_packet(2, b"\xfe" + plugin + b"\0" + question + b"\0"))
        _heard(listening, peer)
        if b"sha" in plugin:
            if b"caching" in plugin:
                peer.sendall(_packet(4, b"\x01\x04"))
                _heard(listening, peer)
            peer.sendall(_packet(6, b"\x01" + _PUBLIC))
            _heard(listening, peer)

    return serve


def _gives_key_at_once(plugin: bytes) -> Callable[[Rogue, socket.socket], None]:
    def serve(listening: Rogue, peer: socket.socket) -> None:
        peer.sendall(_packet(0, _greeting(plugin)))
        _heard(listening, peer)
        peer.sendall(_packet(2, b"\x01\x04" if b"caching" in plugin else b"\x01" + _PUBLIC))
        _heard(listening, peer)
        if b"caching" in plugin:
            peer.sendall(_packet(4, b"\x01" + _PUBLIC))
            _heard(listening, peer)

    return serve


MYSQL = {
    "clear text": _switches_to(b"mysql_clear_password"),
    "a dialog": _switches_to(b"dialog"),
    "its key, after a switch": _switches_to(b"caching_sha2_password"),
    "its key, of the older kind": _switches_to(b"sha256_password"),
    "its key": _gives_key_at_once(b"caching_sha2_password"),
    "its key, of the older kind, at once": _gives_key_at_once(b"sha256_password"),
}


def _decrypted(heard: bytes) -> bool:
    """Whether what was heard has the password, encrypted with the listener's key."""
    for start in range(max(0, len(heard) - 256 * 3), len(heard) - 255):
        try:
            plain = _KEY.decrypt(
                heard[start : start + 256],
                padding.OAEP(mgf=padding.MGF1(algorithm=hashes.SHA1()), algorithm=hashes.SHA1(), label=None),
            )
        except ValueError:
            continue
        if bytes(a ^ b for a, b in zip(plain, SALT * 9, strict=False)).rstrip(b"\0") == PASSWORD.encode():
            return True
    return False


@pytest.mark.parametrize("kind", MYSQL)
def test_mysql_that_asks_for_the_password_itself_gets_none(kind: str) -> None:
    with rogue("mysql", MYSQL[kind]) as (info, listening):
        # The driver itself refuses a dialog.
        with pytest.raises(DatabaseError, match=r"asks for the password itself.*nothing was sent|not configured"):
            vendor_of("mysql").sessions.connect(info, application="test", options=SessionOptions())
        assert PASSWORD.encode() not in listening.heard and not _decrypted(listening.heard)
