"""A master that fails over to a real standby, which has all seen transactions, or lacks some."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.capture import resources
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.errors import raises_code
from tests.standby import servers, standby_of

PREFIX = Prefix("DEMO_")
CAUTIOUS = "cautious"
"""A role that may read no file of the server."""


@pytest.fixture
def server(release: int) -> Iterator[Callable[[str], PostgresServer]]:
    """A factory of servers by name; all are removed after the test."""
    with servers(release) as make:
        yield make


@pytest.fixture
def master(server: Callable[[str], PostgresServer]) -> PostgresServer:
    """A master with a captured table, and the cautious role."""
    made = server("master")
    made.start(die_with_parent=True)
    with session(made) as connection:
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # which servers before 15 grant
        connection.execute("CREATE TABLE public.t (id int)")
        resources.install(connection, PREFIX, "public")
        connection.execute(f"CREATE ROLE {CAUTIOUS}")
        connection.execute(f"GRANT EXECUTE ON FUNCTION public.demo_position() TO {CAUTIOUS}")
        connection.execute(f"GRANT SELECT ON SEQUENCE public.demo_seq TO {CAUTIOUS}")
    return made


@contextmanager
def session(server: PostgresServer, role: str | None = None) -> Iterator[psycopg.Connection[Any]]:
    with connect(server.info(), application="test", autocommit=True) as connection:
        if role:
            connection.execute(f"SET ROLE {role}")
        yield connection


def commit(server: PostgresServer) -> SnapshotPosition:
    """Commits a transaction; returns a position that covers it, as a checkpoint keeps it."""
    with session(server) as connection:
        connection.execute("INSERT INTO public.t VALUES (1)")
        return SnapshotPosition.parse(PostgresQueue(connection, PREFIX, "public").take().text())


def take(server: PostgresServer, previous: SnapshotPosition, role: str | None = None) -> SnapshotPosition:
    with session(server, role) as connection:
        return PostgresQueue(connection, PREFIX, "public").take(previous)


def await_replay(standby: PostgresServer, seen: SnapshotPosition) -> None:
    assert seen.origin is not None
    place = str(seen.origin).split()[-1]
    with session(standby) as connection:
        for _ in range(3000):
            row = connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [place]).fetchone()
            if row == (True,):
                return
            connection.execute("SELECT pg_sleep(0.01)")
    raise AssertionError(f"the standby did not come to {place}")


def promote(standby: PostgresServer) -> None:
    with session(standby) as connection:
        assert connection.execute("SELECT pg_promote()").fetchone() == (True,)


@pytest.mark.long
def test_a_standby_that_had_everything_goes_on_where_the_master_stood(
    master: PostgresServer, server: Callable[[str], PostgresServer]
) -> None:
    standby = server("standby")
    standby_of(master, standby)
    seen = commit(master)
    await_replay(standby, seen)
    master.stop()
    promote(standby)
    for role in (None, CAUTIOUS):
        after = take(standby, seen, role)
        assert after.origin is not None
        assert after.origin.timeline == 2
        assert after.covers_all_of(seen)
    standby.stop()
    standby.start(die_with_parent=True)
    with raises_code("failover-unproven", match="GRANT EXECUTE ON FUNCTION"):
        take(standby, seen, CAUTIOUS)
    with session(standby) as connection:
        connection.execute(
            f"GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_file(text, bigint, bigint, boolean) TO {CAUTIOUS}"
        )
    assert take(standby, seen, CAUTIOUS).covers_all_of(seen)


@pytest.mark.long
def test_a_standby_that_lost_commits_is_noticed(
    master: PostgresServer, server: Callable[[str], PostgresServer]
) -> None:
    """Although new transactions have long reused the IDs of the lost ones."""
    standby = server("standby")
    standby_of(master, standby)
    early = commit(master)
    await_replay(standby, early)
    standby.stop()
    seen = commit(master)
    master.stop()
    standby.start(die_with_parent=True)
    promote(standby)
    for _ in range(20):
        late = commit(standby)
    assert late.xmax > seen.xmax, "by the numbers alone nothing seems to be missing"
    for role in (None, CAUTIOUS):
        assert take(standby, early, role).covers_all_of(early)
        with raises_code("master-replaced", match="what these held is lost"):
            take(standby, seen, role)


@pytest.mark.long
def test_another_cluster_is_noticed(master: PostgresServer, database: Callable[..., Any]) -> None:
    with connect(database(), application="test", autocommit=True) as other:
        resources.install(other, PREFIX, "public")
        seen = SnapshotPosition.parse(PostgresQueue(other, PREFIX, "public").take().text())
    with raises_code("master-replaced", match="another database cluster"):
        take(master, seen)


@pytest.mark.long
def test_restored_files_of_the_master_are_noticed(master: PostgresServer, tmp_path: Path) -> None:
    early = commit(master)
    master.stop()
    subprocess.run(["cp", "-a", str(master.data), str(tmp_path / "copy")], check=True)
    master.start(die_with_parent=True)
    for _ in range(20):
        seen = commit(master)
    assert take(master, early).covers_all_of(seen)
    master.stop()
    shutil.rmtree(master.data)
    os.rename(tmp_path / "copy", master.data)
    master.start(die_with_parent=True)
    with raises_code("master-replaced", match="its log ends earlier"):
        take(master, seen)
