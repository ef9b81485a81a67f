"""A client of a redo proxy: with a persistent connection for each thread, time limits and retries."""

import base64
import http.client
import json
import logging
import ssl
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from sluice.errors import Terminal, Transient
from sluice.redo import proxy

_log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """How long a client waits, and how often it asks."""

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    tries: int = 5
    pause_seconds: float = 0.5
    """Between two tries."""


DEFAULTS = Limits()


class NotPacked(ValueError):
    """The bytes do not come from `proxy.pack`."""


class ProxyRefuses(Terminal):
    """The proxy refuses the request."""

    def __init__(self, address: str, path: str, status: int, reason: str):
        super().__init__(
            f"The redo proxy at {address} refuses {path or 'its address'}: {reason} ({status}). Check the token, and "
            "that the folder is below a --root of the proxy."
        )
        self.status = status


class Entry(NamedTuple):
    """A file of a folder."""

    name: str
    """The path below the folder."""
    size: int


class ProxyClient:
    """`address`: `http://host:9527` or `https://…`; then `authority` is trusted beside the system's authorities."""

    def __init__(self, address: str, token: str, authority: Path | None = None, limits: Limits = DEFAULTS):
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ProxyRefuses(address, "", 0, "write http://host:9527 or https://host:9527")
        self.address = address
        self._host, self._port = parts.hostname, parts.port or proxy.PORT
        self._headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": proxy.ENCODING}
        self._context = ssl.create_default_context(cafile=authority) if parts.scheme == "https" else None
        self._limits = limits
        self._own = threading.local()

    def size(self, path: str) -> int:
        """Raises `proxy-unreachable`, `ProxyRefuses`, like the other methods."""
        return int(json.loads(self._get("attr", path))["size"])

    def files(self, folder: str) -> list[Entry]:
        entries: list[dict[str, Any]] = json.loads(self._get("list", folder))
        return [Entry(each["name"], each["size"]) for each in entries]

    def read(self, path: str, offset: int, length: int) -> bytes:
        return self._get("read", path, offset, length)

    def _get(self, kind: str, path: str, offset: int = 0, length: int = 0) -> bytes:
        encoded = quote(base64.b64encode(path.encode()).decode(), safe="")
        target = f"/file?type={kind}&filePath={encoded}"
        if kind == "read":
            target += f"&startOffset={offset}&length={length}"
        for left in reversed(range(self._limits.tries)):
            try:
                connection = self._connection()
                connection.request("GET", target, headers=self._headers)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status >= 500:
                    raise OSError(f"status {answer.status}")
                if answer.status != 200:
                    raise ProxyRefuses(self.address, path, answer.status, _reason(body))
                if answer.headers.get("Content-Encoding") == proxy.ENCODING:
                    body = unpack(body, length)
                _log.debug("%s: %s %s from %d: %d bytes", self.address, kind, path, offset, len(body))
                return body
            except (OSError, http.client.HTTPException, NotPacked) as error:
                _log.debug("%s: %s %s from %d: %s", self.address, kind, path, offset, error)
                self._own.connection = None
                if not left:
                    raise Transient(
                        f"The redo proxy at {self.address} does not answer: {error!s}.", code="proxy-unreachable"
                    ) from error
                time.sleep(self._limits.pause_seconds)
        raise AssertionError

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            if self._context is None:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=self._limits.connect_seconds)
            else:
                connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._limits.connect_seconds, context=self._context
                )
            connection.connect()
            connection.sock.settimeout(self._limits.read_seconds)
            self._own.connection = connection
        return connection


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:100].decode("utf-8", "replace")


def unpack(packed: bytes, most: int) -> bytes:
    """Restores at most so many bytes from those of `proxy.pack`. Raises `NotPacked`."""
    parts: list[bytes] = []
    at = size = 0
    while at < len(packed):
        if at + proxy.RUN.size > len(packed):
            raise NotPacked("ends within a run")
        zeros, length = proxy.RUN.unpack_from(packed, at)
        at += proxy.RUN.size
        size += zeros * proxy.BLOCK + length
        if size > most or at + length > len(packed):
            raise NotPacked("holds more than was asked for, or less than it says")
        parts += [bytes(zeros * proxy.BLOCK), packed[at : at + length]]
        at += length
    return b"".join(parts)
