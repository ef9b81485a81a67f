"""The checkpoint on a PostgreSQL slave: hostile schema names, and the disk. Tests of every vendor: tests/vendors."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from sluice.control.checkpoint import CheckpointStore
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

pytestmark = pytest.mark.releases

HOSTILE_SCHEMA = "Odd 'schema\" of %s"


@pytest.fixture
def info(database: Callable[..., ConnectionInfo]) -> ConnectionInfo:
    return database()


@pytest.fixture
def connection(info: ConnectionInfo) -> Iterator[psycopg.Connection[Any]]:
    with connect(info, application="test", autocommit=True) as opened:
        opened.execute(b'CREATE SCHEMA "Odd \'schema"" of %s"')
        yield opened


def store(connection: psycopg.Connection[Any], slave: str = "dr1", schema: str = "public") -> CheckpointStore:
    made = CheckpointStore(connection, Prefix("DEMO_"), schema, slave)
    with connection.transaction():
        made.ensure()
    return made


def test_a_hostile_schema_name_works(connection: psycopg.Connection[Any]) -> None:
    found = store(connection, schema=HOSTILE_SCHEMA).read()
    assert found is not None
    assert found.state is SlaveState.UNCONFIGURED


def test_a_checkpoint_that_others_rely_on_is_flushed(connection: psycopg.Connection[Any]) -> None:
    """The apply's checkpoints need not be flushed; the purge, which relies on them, flushes them first."""
    mine = store(connection)
    for number in range(20):
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = off")
            mine.start_at(SnapshotPosition(number, number))
        assert mine.read() is not None
        row = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        assert row is not None
        mine.secure()
        flushed = connection.execute("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", [row[0]]).fetchone()
        assert flushed == (True,)
