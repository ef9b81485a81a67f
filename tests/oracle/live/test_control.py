"""Sluice's tables on an Oracle slave, as far as the contract tests and a whole replication do not use them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.own_tables import LoadOwner, ThrottleStore
from sluice.database.errors import StatementFailed
from sluice.database.registry import vendor_of
from sluice.model.connection import ConnectionInfo
from sluice.model.manifest import File
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from sluice.model.throttle_state import ThrottleState
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

PREFIX, SLAVE, TABLE = Prefix("DEMO_"), "dr1", TableName("public", "t")


def test_notes_throttles_and_imports_are_kept(oracle_database: Callable[[], ConnectionInfo]) -> None:
    vendor = vendor_of("oracle")
    with vendor.sessions.connect(oracle_database(), application="test") as session:
        checkpoint = CheckpointStore(session, PREFIX, "", SLAVE)
        blocks = BlockStore(session, PREFIX, "", SLAVE)
        throttle = ThrottleStore(session, PREFIX, "", SLAVE)
        checkpoint.ensure()
        mine = checkpoint.claim()
        checkpoint.note(mine, "it stands still, 100 % sure", SnapshotPosition(9, 9))
        found = checkpoint.configured()
        assert (found.message, found.safemode_exit) == ("it stands still, 100 % sure", SnapshotPosition(9, 9))
        checkpoint.note(replace(mine, epoch=mine.epoch - 1), "fenced")
        assert checkpoint.configured().message == found.message
        checkpoint.note(mine, "")

        assert throttle.read() == ThrottleState() and not throttle.read().holds
        state = ThrottleState(False, "by hand", 1.0, None, 2)
        throttle.write(state)
        assert throttle.read() == state
        throttle.write(replace(state, paused=True, reason=""))
        assert throttle.read() == replace(state, paused=True, reason="")
        LoadOwner(session, PREFIX, "", SLAVE).name("update 1")
        checkpoint.move(SlaveState.INITIAL)
        checkpoint.move(SlaveState.TRANSITION)
        throttle.put_message("update 1", "Initial update: waits", "Initial update")
        assert checkpoint.configured().message == "Initial update: waits"
        throttle.put_message("update 1", "Initial update: continues", "Initial update")
        assert checkpoint.configured().message == "Initial update: continues"

        assert vendor.queries.run(session, "SELECT 'a', NULL FROM DUAL;", 5)[1] == [("a", None)]
        with pytest.raises(StatementFailed, match="no query"):
            vendor.queries.run(session, "DELETE FROM demo_locks", 5)

        blocks.plan([TABLE])
        with session.transaction():
            claim = blocks.claim()
            assert claim is not None and blocks.begin(claim.block, None, "l/1")
        assert blocks.export(claim.block, "l/1", SnapshotPosition(9, 9), 3_600, 10, File("public.t.1.csv", 10, "abc"))
        assert throttle.read().ahead_seconds > 3_000
        with session.transaction():
            begun = blocks.begin_import("l/2")
        assert begun is not None and begun.file == "public.t.1.csv"
        assert blocks.release(loader_prefix="l/1") == 0 and blocks.release(loader_prefix="l/") == 1
        assert blocks.left() == (0, 0, 1)
        assert vendor.rows.estimates(session, [TABLE]) == {}
