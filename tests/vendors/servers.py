"""Empty databases of each vendor for the contract tests.

A vendor joins the contract with a line in `SERVERS` and a fixture that creates databases.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST, OLDEST
from sluice.model.connection import ConnectionInfo
from tests.oracle import h2
from tests.oracle import server as oracle_server

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
    member: str = ""
    """Where the vendor's object is, where it is another than the registry's."""
    not_kept: Mapping[str, str] = field(default_factory=dict)
    """Tests that fail on it, and why: one that passes is a failure, too."""
    oracle: bool = False
    """Whether it is as Oracle: an empty text is NULL, a DATE has a time, no name holds a double quote."""


def _postgres(request: pytest.FixtureRequest, release: int) -> ConnectionInfo:
    running: Callable[[int], PostgresServer] = request.getfixturevalue("server_of_release")
    made: ConnectionInfo = request.getfixturevalue("database")(server=running(release))
    return made


def _mariadb(request: pytest.FixtureRequest, release: int) -> ConnectionInfo:
    """Databases of the installed release."""
    made: ConnectionInfo = request.getfixturevalue("mariadb")()
    return made


def _ivory(request: pytest.FixtureRequest, release: int) -> ConnectionInfo:
    """Databases that speak a part of Oracle's dialect."""
    made: ConnectionInfo = request.getfixturevalue("ivorysql")()
    return made


def _h2(request: pytest.FixtureRequest, release: int) -> ConnectionInfo:
    """Databases in Java whose parser knows Oracle's plain DML and queries."""
    made: ConnectionInfo = request.getfixturevalue("h2")()
    return made


def _oracle(request: pytest.FixtureRequest, release: int) -> ConnectionInfo:
    """New accounts of the server that the environment names, dropped after the test."""
    server = oracle_server.wanted()
    assert server is not None
    request.addfinalizer(server.drop)
    return server.database(slave=request.fixturename == TARGET)


SERVERS = {
    "postgres": Server(_postgres, frozenset({SOURCE, TARGET}), (NEWEST, OLDEST), two_phase=True),
    "mysql": Server(_mariadb, frozenset({TARGET})),
    "h2": Server(_h2, frozenset({TARGET}), member="tests.oracle.h2:ON_H2", oracle=True, not_kept=h2.NOT_KEPT),
}
_ON_ORACLE = {
    "oracle": Server(_oracle, frozenset({SOURCE, TARGET}), oracle=True),
    "ivorysql": Server(_ivory, frozenset({SOURCE, TARGET}), oracle=True, member="tests.oracle.ivorysql:ON_IVORY"),
}
SERVERS |= {name: _ON_ORACLE[name] for name in oracle_server.named()}
"""Those of Oracle's kind run where the environment names one."""
