"""A client of a redo proxy: with a persistent connection for each thread, time limits and retries."""

import base64
import http.client
import json
import ssl
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from sluice.errors import Terminal, Transient
from sluice.redo import zero_blocks

CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
TRIES, PAUSE_SECONDS = 5, 0.5


class ProxyUnreachable(Transient):
    """The proxy does not answer, or answers wrongly."""

    def __init__(self, address: str, reason: str):
        super().__init__(f"The redo proxy at {address} does not answer: {reason}.")


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

    def __init__(self, address: str, token: str, authority: Path | None = None):
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ProxyRefuses(address, "", 0, "write http://host:9527 or https://host:9527")
        self.address = address
        self._host, self._port = parts.hostname, parts.port or 9527
        self._headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": zero_blocks.ENCODING}
        self._context = ssl.create_default_context(cafile=authority) if parts.scheme == "https" else None
        self._own = threading.local()

    def size(self, path: str) -> int:
        """Raises `ProxyUnreachable`, `ProxyRefuses`, like the other methods."""
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
        for left in reversed(range(TRIES)):
            try:
                connection = self._connection()
                connection.request("GET", target, headers=self._headers)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status >= 500:
                    raise OSError(f"status {answer.status}")
                if answer.status != 200:
                    raise ProxyRefuses(self.address, path, answer.status, _reason(body))
                if answer.headers.get("Content-Encoding") == zero_blocks.ENCODING:
                    body = zero_blocks.unpack(body, length)
                return body
            except (OSError, http.client.HTTPException, zero_blocks.NotPacked) as error:
                self._own.connection = None
                if not left:
                    raise ProxyUnreachable(self.address, str(error)) from error
                time.sleep(PAUSE_SECONDS)
        raise AssertionError

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            if self._context is None:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)
            else:
                connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=CONNECT_SECONDS, context=self._context
                )
            connection.connect()
            connection.sock.settimeout(READ_SECONDS)
            self._own.connection = connection
        return connection


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:100].decode("utf-8", "replace")
