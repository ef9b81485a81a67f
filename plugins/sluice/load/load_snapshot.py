"""The one snapshot of the master in which all blocks are read, with `initial.read: snapshot`.

The load job exports the snapshot and keeps its session open while blocks are read. The gate is closed meanwhile, so
nothing is applied. At the end the slave is what the master was at that one position, and later changes are applied in
order: once the load is done, no reader sees a mixture of moments.

A snapshot ends with the session that exported it. Then the load starts over: all blocks are planned again at a new
snapshot, and read again. The same happens when a table was emptied, rewritten or dropped on the master before all of it
was read, because an older snapshot sees it empty.
"""

import logging

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.counted import counted
from sluice.database.errors import DatabaseError
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.load import steps
from sluice.load.load_ownership import expect_loading
from sluice.load.preparation import Preparation, tables_to_load
from sluice.load.read_modes import SnapshotLost
from sluice.load.steps import master_changing
from sluice.load.update import Update, on_master, on_slave
from sluice.model.position import Position

log = logging.getLogger("sluice.load")


class LoadSnapshot:
    """A context of a load job, inside `sluice.load.load_job.LoadJob`. Entering raises as `sluice.load.steps.plan`.

    It does nothing if blocks are read in another mode, or come from files (not `reads`).
    """

    def __init__(self, update: Update, *, reads: bool = True):
        self.update = update
        self._reads = reads
        self._session: Session | None = None

    def check(self) -> None:
        """Raises `SnapshotLost` when the snapshot's session has ended."""
        if self._session is None:
            return
        try:
            self._session.ping()
        except DatabaseError as error:
            raise SnapshotLost(self.update, f"the session that held the snapshot ended: {error}") from error

    def __enter__(self) -> "LoadSnapshot":
        if not self._reads:
            return self
        try:
            with on_slave(self.update) as slave:
                store = BlockStore.of(self.update, slave)
                planned, begun, _ = store.left()
                if planned + begun and steps.in_one_snapshot(self.update, slave):
                    self._begin(slave, store)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _begin(self, slave: Session, store: BlockStore) -> None:
        """Plans all blocks again at a new snapshot."""
        update = self.update
        stored = [progress for progress in store.progress() if progress.stored or progress.exported]
        if stored:
            log.warning(
                "%s: the snapshot that the load began with is gone: it starts over with a new one, and what was "
                "read is read again: %s", update, counted(sum(progress.rows for progress in stored), "row"),
            )  # fmt: skip
        with on_master(update) as master:
            for _ in range(steps.PLAN_TRIES):
                # First the captured tables: others may change before the snapshot without any trace.
                tables = tables_to_load(update, master, slave)
                marker, exported = self._export()
                preparation = Preparation(update, master, slave, tables)
                unfit = preparation.unfit()
                if not unfit or update.selection.partial:
                    break
                self._close()
                steps.prepare(update, master, slave)
            else:
                raise master_changing(update, unfit)
            preparation.drop_gone()
            if stored:
                steps.clear_tables(update, preparation, [progress.table for progress in stored])
            order = preparation.order()
            update.queue(master).secure(marker)
        with slave.transaction():
            checkpoints = CheckpointStore.of(update, slave)
            checkpoints.read(lock=True)
            expect_loading(update, slave)
            if update.selection.partial:
                store.plan_again(marker, exported)
                return
            store.reset(order)
            store.plan(order, marker=marker, snapshot=exported)
            checkpoints.start_at(marker)
        log.info("%s: all blocks are read in the master's snapshot of %s", update, marker.time)

    def _export(self) -> tuple[Position, str]:
        """The position of a new snapshot, and its name; it lives as long as its session."""
        update = self.update
        self._session = session = update.connect_master(f"sluice load snapshot {update.prefix} {update.slave.name}")
        snapshot = vendor_of(update.master_info.vendor).rows
        # Before the transaction: sequence values read in it would be too late as a lower bound.
        queue = update.queue(session)
        earlier = queue.take()
        snapshot.begin_snapshot(session)
        return queue.position_of_snapshot(earlier, None), snapshot.export_snapshot(session)

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
