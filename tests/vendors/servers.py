"""Where the contract's tests get an empty database of each vendor from: a line a vendor.

A vendor joins the contract with a line in `SERVERS` and a fixture that makes databases.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST, OLDEST
from sluice.model.connection import ConnectionInfo

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True)
class Server:
    """One vendor's databases."""

    make: Callable[[pytest.FixtureRequest, int], ConnectionInfo]
    """An empty one, of a release where there are several."""
    offers: frozenset[str]
    releases: tuple[int, ...] = (0,)
    two_phase: bool = False
    """Whether a master has PREPARE TRANSACTION."""
    schema: str = "public"
    """Where Sluice's own tables are."""


def _postgres(request: pytest.FixtureRequest, release: int) -> ConnectionInfo:
    running: Callable[[int], PostgresServer] = request.getfixturevalue("server_of_release")
    made: ConnectionInfo = request.getfixturevalue("database")(server=running(release))
    return made


def _mariadb(request: pytest.FixtureRequest, release: int) -> ConnectionInfo:
    """Of the one release that is installed."""
    made: ConnectionInfo = request.getfixturevalue("mariadb")()
    return made


SERVERS = {
    "postgres": Server(_postgres, frozenset({SOURCE, TARGET}), (NEWEST, OLDEST), two_phase=True),
    "mysql": Server(_mariadb, frozenset({TARGET})),
}
