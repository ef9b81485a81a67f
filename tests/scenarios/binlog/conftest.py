"""Servers and tasks of these tests."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer, ensure_installed
from sluice.model.connection import ConnectionInfo
from tests.scenarios.binlog.master import SETTINGS, Master

_databases = iter(range(1, 1_000_000))


@pytest.fixture(scope="session")
def logging_server() -> Iterator[MariaDBServer]:
    """A MariaDB with a binary log; it ends with the session."""
    folder = new_folder("sluice-test-binlog-")
    server = MariaDBServer(folder, settings=SETTINGS)
    try:
        ensure_installed()
        server.start(die_with_parent=True)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def master(logging_server: MariaDBServer, tmp_path: Path) -> Iterator[Master]:
    """An empty database of its own, whose log is recorded into a folder of the test."""
    made = Master(logging_server, f"shop_{next(_databases)}", tmp_path / "stream")
    yield made
    made.drop()


@pytest.fixture(params=["postgres", pytest.param("mysql", marks=pytest.mark.long)])
def slave(request: pytest.FixtureRequest) -> tuple[str, ConnectionInfo]:
    """An empty database: of MariaDB on the master's own server."""
    name = "database" if request.param == "postgres" else "mariadb_beside"
    make: Callable[[], ConnectionInfo] = request.getfixturevalue(name)
    return request.param, make()


@pytest.fixture
def mariadb_beside(logging_server: MariaDBServer) -> Iterator[Callable[[], ConnectionInfo]]:
    name = "beside"
    logging_server.drop_account(name, name)
    logging_server.create_account(name, name)
    yield lambda: logging_server.info(name, name)
    logging_server.drop_account(name, name)
