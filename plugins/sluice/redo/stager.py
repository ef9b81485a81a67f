"""Fetches a master's redo logs to where OpenLogReplicator reads them, and verifies the checksum of each block.

A log is fetched in pieces, several ahead, into a hidden file until it is complete; a stager that was killed continues
after the last good piece. A log that is still being written is followed, so that little is left when it is complete.
"""

import base64
import http.client
import json
import logging
import os
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from sluice.configuration.redo import RedoOptions
from sluice.counted import counted
from sluice.errors import Terminal, Transient
from sluice.redo import blocks, proxy
from sluice.redo.blocks import LogHeader, NotRedo

# A client of a redo proxy: with a persistent connection for each thread, time limits and retries.

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


log = logging.getLogger("sluice.redo")

PIECE = 1 << 20
PARALLEL = 4
DAY = "staged"
"""The folder of a day, in which OpenLogReplicator looks; its name does not matter."""
SUFFIX = ".arc"
NOT_THERE = 404


class LogDamaged(Transient):
    """A fetched block is not right: it was changed in transit."""

    def __init__(self, path: str, numbers: Sequence[int]):
        more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
        super().__init__(
            f"{path}: block {numbers[0]}{more} has a wrong checksum or number. It is fetched again; if this repeats, "
            "the log is damaged on the master: restore it there with RMAN."
        )


class Files(Protocol):
    """A source of logs."""

    def files(self, folder: str) -> list[Entry]: ...

    def read(self, path: str, offset: int, length: int) -> bytes: ...


class Archive:
    """The logs of all threads in `folders` of `source`."""

    def __init__(self, source: Files, folders: Sequence[str]):
        self.source, self._folders = source, folders
        self._known: dict[tuple[str, int], LogHeader] = {}
        """The headers of complete logs, by path and size."""

    def logs(self) -> tuple[list[tuple[str, LogHeader]], ProxyRefuses | None]:
        """The logs with their paths, and what was refused while other folders were read. Raises `Transient`."""
        logs: list[tuple[str, LogHeader]] = []
        refused: ProxyRefuses | None = None
        for folder in self._folders:
            try:
                entries = self.source.files(folder)
            except ProxyRefuses as error:
                refused = refused or error
                continue
            for name, size in entries:
                path = f"{folder.rstrip('/')}/{name}"
                try:
                    header = self._known.get((path, size)) or self._header(path, size)
                except ProxyRefuses as error:
                    if error.status != NOT_THERE:  # Otherwise it was deleted since.
                        refused = refused or error
                    continue
                if header is not None:
                    logs.append((path, header))
        return logs, refused

    def headers(self, resetlogs: int) -> list[LogHeader]:
        """The logs of the database with that incarnation: there may be logs of others. Raises `Transient`."""
        headers = [header for _, header in self.logs()[0]]
        databases = {header.database for header in headers if header.resetlogs == resetlogs}
        return [header for header in headers if header.database in databases]

    def _header(self, path: str, size: int) -> LogHeader | None:
        try:
            header = blocks.read_header(self.source.read(path, 0, 2 * max(blocks.SIZES)))
        except NotRedo as reason:
            log.debug("%s: %s", path, reason)
            return None
        # A log that is being written has its final size from the beginning, and is another log when it is reused.
        if header.complete and header.blocks is not None and header.blocks * header.size == size:
            self._known[path, size] = header
        return header


class Stager:
    """The stager of one redo thread, from `archive` to `target`, where a log is named
    `<thread>_<sequence>_<resetlogs>.arc`.

    Logs that end before the SCN `since` are not fetched.
    """

    def __init__(
        self,
        archive: Archive,
        target: Path,
        thread: int,
        resetlogs: int,
        *,
        since: int = 0,
        piece: int = PIECE,
    ):
        self._archive, self.source, self.target = archive, archive.source, target / DAY
        self.thread, self.resetlogs, self._piece = thread, resetlogs, piece
        self._since = since
        self.freed = 0
        """Logs below this sequence are no longer needed."""

    def turn(self) -> int:
        """Fetches what is new. Returns how many logs became complete. Raises `Transient`, `ProxyRefuses`.

        One good copy of a log is enough: errors of other copies are raised at the end if they keep a log away.
        """
        self.target.mkdir(parents=True, exist_ok=True)
        staged, damaged = 0, dict[int, LogDamaged]()
        logs, refused = self._archive.logs()
        own = [each for each in logs if (each[1].thread, each[1].resetlogs) == (self.thread, self.resetlogs)]
        for path, header in sorted(own, key=lambda each: (each[1].sequence, not each[1].complete)):
            past = header.next_scn is not None and header.next_scn <= self._since
            if not past and header.sequence >= self.freed and not self.file(header.sequence).exists():
                try:
                    staged += self._bring(path, header)
                except LogDamaged as error:
                    damaged[header.sequence] = error
        for sequence, reason in damaged.items():
            if not self.file(sequence).exists():
                raise reason
        if refused is not None:
            raise refused
        return staged

    def free(self, sequence: int) -> list[int]:
        """Deletes the logs below a sequence, which nobody needs to continue. Returns their sequences."""
        self.freed = max(self.freed, sequence)
        gone = [each for each in self.staged() if each < self.freed]
        for each in gone:
            self.file(each).unlink(missing_ok=True)
        return gone

    def staged(self) -> list[int]:
        """The sequences of the complete logs."""
        names = (file.stem.split("_") for file in self.target.glob(f"[0-9]*{SUFFIX}"))
        return sorted(
            int(parts[1])
            for parts in names
            if len(parts) == 3 and parts[0::2] == [str(self.thread), str(self.resetlogs)]
        )

    def file(self, sequence: int) -> Path:
        return self.target / f"{self.thread}_{sequence}_{self.resetlogs}{SUFFIX}"

    def _bring(self, path: str, header: LogHeader) -> bool:
        """Fetches the existing part of a log. Returns whether it is complete."""
        part = self.target / f".{self.file(header.sequence).name}.part"
        with closing(_Part(part, header)) as local:
            end = header.blocks if header.complete else None
            for data in self._pieces(path, local.blocks * header.size, end and end * header.size):
                whole = data[: len(data) - len(data) % header.size]
                if end is None:
                    # The last block may be half written: a later check finds it complete, or damaged when archived.
                    count = blocks.written(whole, header.size, local.blocks, header.sequence)
                    good = whole[: count * header.size]
                    if wrong := blocks.damaged(good, header.size, local.blocks, header.sequence):
                        good = good[: (wrong[0] - local.blocks) * header.size]
                elif wrong := blocks.damaged(whole, header.size, local.blocks, header.sequence):
                    raise LogDamaged(path, wrong)
                else:
                    good = whole
                local.add(good)
                if len(good) < len(data):
                    break
            if end is None or local.blocks < end:
                return False
            # The header is written again when a log is complete.
            local.head(self.source.read(path, 0, 2 * header.size))
        part.rename(self.file(header.sequence))
        log.info("thread %d: log %d is staged, %s", self.thread, header.sequence, counted(end, "block"))
        return True

    def _pieces(self, path: str, begin: int, end: int | None) -> Iterator[bytes]:
        """Yields the pieces in order; some are fetched ahead, if the end is known."""
        if end is None:
            while data := self.source.read(path, begin, self._piece):
                yield data
                begin += len(data)
            return
        with ThreadPoolExecutor(PARALLEL) as pool:
            waiting: deque[Future[bytes]] = deque()
            for offset in range(begin, end, self._piece):
                waiting.append(pool.submit(self.source.read, path, offset, min(self._piece, end - offset)))
                if len(waiting) > PARALLEL:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


class _Part:
    """A log that is not complete yet; the rest of a crash is verified."""

    def __init__(self, file: Path, header: LogHeader):
        self._size = header.size
        self._file = file.open("r+b" if file.exists() else "w+b")
        self.blocks = 2
        """The number of blocks on disk; the first two are written last."""
        length = self._file.seek(0, os.SEEK_END)
        while self.blocks * self._size < length:
            self._file.seek(self.blocks * self._size)
            data = self._file.read(PIECE)
            data = data[: len(data) - len(data) % self._size]
            good = blocks.written(data, self._size, self.blocks, header.sequence) if data else 0
            if wrong := blocks.damaged(data[: good * self._size], self._size, self.blocks, header.sequence):
                good = wrong[0] - self.blocks
            self.blocks += good
            if good * self._size < len(data) or not data:
                break
        self._file.truncate(self.blocks * self._size)
        self._file.seek(self.blocks * self._size)

    def add(self, data: bytes) -> None:
        self._file.write(data)
        self.blocks += len(data) // self._size

    def head(self, data: bytes) -> None:
        """Writes the first two blocks; then everything is on disk."""
        self._file.seek(0)
        self._file.write(data)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_token(file: str) -> str:
    """Raises `token-refused`."""
    try:
        return proxy.read_token(file)
    except proxy.CannotServe as refused:
        raise Terminal(str(refused), code="token-refused") from None


def stager_of(options: RedoOptions, logs: Path, thread: int, resetlogs: int, since: int) -> Stager:
    """Raises `token-refused`, `ProxyRefuses`."""
    return Stager(archive_of(options), logs, thread, resetlogs, since=since)


def archive_of(options: RedoOptions) -> Archive:
    """Raises `token-refused`, `ProxyRefuses`."""
    return Archive(_client(options), options.archived)


def _client(options: RedoOptions) -> ProxyClient:
    assert options.proxy is not None
    assert options.token_file is not None
    authority = Path(os.path.abspath(options.proxy_authority)) if options.proxy_authority else None
    limits = Limits(options.proxy_connect, options.proxy_read, options.proxy_tries, options.proxy_pause)
    return ProxyClient(options.proxy, read_token(options.token_file), authority, limits)
