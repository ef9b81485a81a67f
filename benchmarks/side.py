"""The common part of both sides of a comparison."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from benchmarks.servers import Servers, connect
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo

WAIT_SECONDS = 900.0
"""Seconds that anything awaited may take."""
LOOK, FIRST_LOOK = 0.005, 0.001
"""Seconds between two looks at what is awaited: a twentieth of what has passed, within these. A look costs a server
0.1 ms, and what is measured is late by half of a pause."""


class Side(ABC):
    """A way from a master's database to a slave's, with the same tables in both.

    `hold` keeps what happens on the master from the slave until `release`.
    """

    name: str

    def __init__(self, servers: Servers, database: str) -> None:
        self.servers = servers
        self.infos: dict[str, ConnectionInfo] = {
            place: servers.database(place, database) for place in ("master", "slave")
        }
        self.master = connect(self.infos["master"])
        self.slave = connect(self.infos["slave"])

    @abstractmethod
    def hold(self) -> None:
        """Returns when nothing is delivered any more."""

    @abstractmethod
    def release(self) -> None:
        """Deliver from now on; returns at once."""

    @abstractmethod
    def await_current(self) -> None:
        """Returns when the slave has all that is committed by now."""

    @abstractmethod
    def forget(self) -> None:
        """Removes the traces of delivered changes on the master."""

    @abstractmethod
    def check(self) -> None:
        """Raises `bench-side-failed` when this side cannot deliver any more."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """Settings, for the detail of a report."""

    def roots(self) -> dict[str, int]:
        """The processes of this side, beside the servers."""
        return {}

    def close(self) -> None:
        """Ends what was started."""
        self.master.close()
        self.slave.close()

    def run_on_both(self, statements: str) -> None:
        for connection in (self.master, self.slave):
            connection.execute(statements.encode())

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        """Raises `bench-side-failed` when it does not come true."""
        begun = time.monotonic()
        looks = 0
        while not condition():
            looks += 1
            if looks % 50 == 0:
                self.check()
            passed = time.monotonic() - begun
            if passed > WAIT_SECONDS:
                raise Terminal(f"{self.name}: not within {WAIT_SECONDS:.0f} s: {what}", code="bench-side-failed")
            time.sleep(min(max(passed / 20, FIRST_LOOK), LOOK))


def scalar(connection: psycopg.Connection[Any], statement: str, *parameters: Any) -> Any:
    """The one value of a statement; None without a row."""
    row = connection.execute(statement, list(parameters) or None).fetchone()
    return row[0] if row else None
