"""The checkpoint on a real slave: states, epochs, fencing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from sluice.model.checkpoint import Fenced
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.slave_state import ForbiddenMove, SlaveState
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.target.control_tables import CheckpointStore

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


def test_a_slave_nobody_configured_has_no_checkpoint(connection: psycopg.Connection[Any]) -> None:
    assert CheckpointStore(connection, Prefix("DEMO_"), "public", "dr1").read() is None


def test_ensure_twice_changes_nothing(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction():
        store(connection).move(SlaveState.INITIAL, "hello")
    found = store(connection).read()
    assert found is not None
    assert (found.state, found.message) == (SlaveState.INITIAL, "hello")


def test_a_hostile_schema_name_works(connection: psycopg.Connection[Any]) -> None:
    found = store(connection, schema=HOSTILE_SCHEMA).read()
    assert found is not None
    assert found.state is SlaveState.UNCONFIGURED


def test_states_move_only_as_the_table_allows(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction(), pytest.raises(ForbiddenMove):
        store(connection).move(SlaveState.NORMAL)


def test_an_apply_with_an_old_epoch_is_fenced(connection: psycopg.Connection[Any]) -> None:
    mine = store(connection)
    with connection.transaction():
        mine.start_at(SnapshotPosition(5, 5))
        old = mine.claim()
    with connection.transaction():
        new = mine.claim()
    assert new.epoch == old.epoch + 1
    with pytest.raises(Fenced), connection.transaction():
        mine.advance(old, old.advanced(SnapshotPosition(9, 9), 3))
    with connection.transaction():
        mine.advance(new, new.advanced(SnapshotPosition(9, 9, low=4, high=7), 3))
    found = mine.read()
    assert found is not None and found.position is not None
    assert (found.position, SnapshotPosition.of(found.position).low, found.changes) == (SnapshotPosition(9, 9), 4, 3)


def test_slices_survive_a_round_trip(connection: psycopg.Connection[Any]) -> None:
    mine = store(connection)
    with connection.transaction():
        mine.start_at(SnapshotPosition(5, 5))
        before = mine.claim()
        after = replace(before.sliced(SnapshotPosition(9, 9), 17, 100), safemode_exit=SnapshotPosition(8, 8))
        mine.advance(before, after)
    found = mine.read()
    assert found is not None
    assert found.catching_up
    assert found.same_place(after)
    assert found.safemode_exit == SnapshotPosition(8, 8)


def test_two_slaves_share_a_table_and_nothing_else(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction():
        store(connection, "dr1").move(SlaveState.INITIAL)
    other = store(connection, "dr2").read()
    assert other is not None
    assert other.state is SlaveState.UNCONFIGURED


def test_what_others_rely_on_is_on_the_slaves_disk(connection: psycopg.Connection[Any]) -> None:
    """The apply's checkpoints need not wait for the disk; who deletes changes behind them makes sure first."""
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
