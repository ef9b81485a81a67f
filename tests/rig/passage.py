"""Who talks to a database: sessions, bytes and rows by the process tree of the client.

Clients connect to a proxy, which finds the process of each connection. A row counts where its mark travels, a text that
a test writes into each row.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from workload.faults.proxy import Proxy

MARK = b"a-row-passes-6b1f"
SPARK = "spark"
"""The side of the processes below a server of Spark."""


@dataclass
class Passed:
    """What went through the sessions of one side."""

    sessions: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How many, by the client's command, shortened."""
    bytes: int = 0
    rows: int = 0
    """How often the mark of a row went through."""
    rows_by: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The same by the client's command."""


class Passage:
    """What passes between clients and databases. `servers`: the processes of Spark's servers, as they are now."""

    def __init__(self, servers: Callable[[], Collection[int]], others: Callable[[str], bool] = lambda _: False):
        """`others`: whether a command, given whole, is none of ours, such as that of the test itself."""
        self._servers = servers
        self._others = others
        self._lock = threading.Lock()
        self._proxies: list[Proxy] = []
        self.sides: dict[str, Passed] = defaultdict(Passed)

    def before(self, port: int) -> int:
        """The port of a proxy before a database on this machine."""
        proxy = Proxy(port, watch=lambda client: self._watch(client, proxy.port))
        self._proxies.append(proxy)
        return proxy.port

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.close()

    def _watch(self, client: int, proxy: int) -> Callable[[bytes, bool], None]:
        side, command = self._client(client, proxy)
        with self._lock:
            passed = self.sides[side]
            passed.sessions[command] += 1
        tails = {True: b"", False: b""}

        def saw(data: bytes, up: bool) -> None:
            text = tails[up] + data
            tails[up] = text[-len(MARK) + 1 :]
            with self._lock:
                passed.bytes += len(data)
                if marks := text.count(MARK):
                    passed.rows += marks
                    passed.rows_by[command] += marks

        return saw

    def _client(self, port: int, proxy: int) -> tuple[str, str]:
        """The side and the command of the process that has the other end."""
        # A client that ends at once must not end the proxy's thread with it.
        with suppress(psutil.NoSuchProcess, NoOwner):
            process = psutil.Process(owner(port, proxy))
            command = " ".join(process.cmdline())
            if {process.pid, *(parent.pid for parent in process.parents())} & set(self._servers()):
                return SPARK, command[-60:]
            return ("other" if self._others(command) else "airflow"), command[-60:]
        return "airflow", "a process that has ended"


class NoOwner(Exception):
    """No process has the connection any more."""


def owner(port: int, remote: int) -> int:
    """The process that has a connection over IPv4 from a local port to a remote one: another connection may have the
    same local port. Raises `NoOwner`."""
    ends = f":{port:04X}", f":{remote:04X}"
    connections = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    inode = next(
        (
            fields[9]
            for fields in connections
            if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]) and fields[9] != "0"
        ),
        "",
    )
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if file.readlink().name == f"socket:[{inode}]":
                return int(file.parts[2])
    raise NoOwner(f"no process has the connection from port {port}")


@contextmanager
def passage(servers: Callable[[], Collection[int]], **options: Callable[[str], bool]) -> Iterator[Passage]:
    """A passage whose proxies end with the block."""
    made = Passage(servers, **options)
    try:
        yield made
    finally:
        made.close()
