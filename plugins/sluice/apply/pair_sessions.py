"""The open sessions of an apply, and what it asks the source of its changes.

A lost connection raises `Transient`; the loop then closes all sessions and opens new ones.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sluice.apply.schema_history import SchemaHistory
from sluice.apply.transformed_tables import TransformedTables
from sluice.control.blocks import BlockStore
from sluice.database.apply import Alterer, Merger, Replayer
from sluice.database.changes import ChangeReader, ChangeSource
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, recorded_source, source_of
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.errors import DataLost
from sluice.model.checkpoint import Checkpoint
from sluice.model.mask import Mask
from sluice.model.position import Position
from sluice.model.purging import lost
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")

LOCK_SECONDS = 5.0
"""How long a statement waits for a lock on the master: with one that nobody gives, all tables would wait."""


class PairSessions:
    """The sessions of one pair: on the master (autocommit), on the slave, and of the reader of ITEMS."""

    def __init__(self, pair: Pair):
        self.pair = pair
        self._master: Session | None = None
        self._slave: Session | None = None
        self._reader: ChangeReader | None = None
        self._merger: Merger | None = None
        self._alterer: Alterer | None = None
        self.images: RowImageCodec = source_of(pair.master_info.vendor).images
        """Reads the row images of the source."""
        self.transformed = TransformedTables(self)
        """The tables that a transformation changes for the slave."""
        self.schema_history = SchemaHistory(self)
        self.replica_role = False
        """Whether this account may switch the slave's triggers and foreign keys off for its session."""

    @property
    def master(self) -> Session:
        assert self._master is not None, "open() first"
        return self._master

    @property
    def slave(self) -> Session:
        assert self._slave is not None, "open() first"
        return self._slave

    @property
    def opened(self) -> bool:
        """Whether there is a session on the slave, lost or not."""
        return self._slave is not None

    @property
    def reader(self) -> ChangeReader:
        """Reads windows of ITEMS as Arrow."""
        assert self._reader is not None, "open() first"
        return self._reader

    @property
    def merger(self) -> Merger:
        """Merges net changes into the slave."""
        assert self._merger is not None, "open() first"
        return self._merger

    @property
    def replayer(self) -> Replayer:
        """Applies changes one by one."""
        return self.merger.replayer()

    @property
    def alterer(self) -> Alterer:
        """Follows TRUNCATE and changes of definitions."""
        assert self._alterer is not None, "open() first"
        return self._alterer

    @property
    def queue(self) -> ChangeSource:
        """The queue of the pair's changes."""
        pair = self.pair
        return source_of(pair.master_info.vendor).queue(self.master, pair.prefix, pair.replication.master.schema)

    def open(self) -> None:
        """Opens what is not open. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
        pair, application = self.pair, self.pair.application
        if self._master is None:
            connect = source_of(pair.master_info.vendor).sessions.connect
            self._master = connect(pair.master_info, application=application, autocommit=True)
            self._master.limit_lock_waits(LOCK_SECONDS)
        if self._reader is None:
            schema = pair.replication.master.schema
            largest = pair.replication.apply.max_change_bytes
            self._reader = source_of(pair.master_info.vendor).reader(
                pair.master_info, pair.prefix, schema, application=application, largest=largest
            )
        if self._slave is None:
            slave_vendor = vendor_at(pair)
            self._slave = slave_vendor.sessions.connect(pair.slave_info, application=application)
            self.replica_role = slave_vendor.sessions.begin_applying(self._slave, origin=str(pair.prefix))
            if not self.replica_role:
                log.warning(
                    "%s: this account may not switch triggers and foreign keys of %s off, so these act on every "
                    "change. As an administrator there: %s, then clear the task apply.",
                    pair,
                    pair.slave_info.place,
                    slave_vendor.sessions.allow_silence(self._slave),
                )
            mask = Mask(pair.slave_info.mask)
            self._merger = slave_vendor.applying.Merger(self._slave, cascades=not self.replica_role, mask=mask)
            self._alterer = self._merger.alterer(
                trusted=pair.slave.trusted_ddl,
                of_master=source_of(pair.master_info.vendor).types,
                lossy=pair.placement.patterns(pair.slave.lossy_columns),
            )

    def close(self) -> None:
        """Closes everything; never raises."""
        for session in (self._reader, self._master, self._slave):
            try:
                if session is not None:
                    session.close()
            except Exception as error:  # a broken connection may fail in any way when closed
                log.debug("closing a lost connection: %s", error)
        self._reader = self._master = self._slave = self._merger = self._alterer = None
        self.schema_history.clear()

    @contextmanager
    def slave_transaction(
        self, *, durable: bool | None = None, first: Callable[[], object] | None = None
    ) -> Iterator[Session]:
        """One transaction on the slave. `durable`, `first`: as of `Session.transaction`."""
        try:
            with self.slave.transaction(durable=durable, first=first):
                yield self.slave
        except BaseException:
            # Tables may have been read in the form that the transaction gave them, which is rolled back.
            if self._merger is not None:
                self._merger.targets.forget()
            raise

    def beginning(self) -> Position | None:
        """The position at which a slave without a checkpoint begins; None if an initial update must bring its rows."""
        master = self.pair.replication.master
        if self.pair.rows_info is not None and master.after is None:
            return None  # this slave and an initial update would begin at the same time
        return self.queue.beginning(master.after)

    def taken_over(self, position: Position) -> Position | None:
        """This source's position for a slave whose `position` another source gave; None if it is this source's."""
        return None if has_rows(self.pair.master_info.vendor) else recorded_source().takeover(self.master, position)

    def window_end(self, previous: Position) -> Position:
        """The end of the next window. Raises `DataLost`."""
        return self.queue.window_end(previous, self.pair.most_changes)

    def secure(self, position: Position, applied: Position | None = None) -> None:
        """Returns when a crash of the master can no longer undo what `position` saw, so that the slave may have it.

        With `applied` it also checks what `check_purged` does, in the same round trip.
        """
        purged = self.queue.secure(position)
        if applied is not None:
            self._expect_kept(applied, purged)

    def expect_continued(self, checkpoint: Checkpoint) -> None:
        """Raises `DataLost` if the master no longer has what the slave has of it: its files were restored."""
        positions = [each for each in (checkpoint.position, checkpoint.target) if each is not None]
        if checkpoint.loading:
            with self.slave_transaction() as slave:
                positions += BlockStore.of(self.pair, slave).map().markers
        self.queue.expect_continued(positions)

    def check_purged(self, applied: Position) -> None:
        """Raises `changes-purged` if the master may have deleted changes that the slave at `applied` lacks."""
        self._expect_kept(applied, self.queue.purged())

    def _expect_kept(self, applied: Position, purged: Sequence[Position]) -> None:
        if lost(applied, purged):
            raise DataLost(
                f"{self.pair}: the slave is older than it has been, as after a restore from a backup or a fail-over "
                "to a standby that lagged, or it was out of the configuration for a time, or dropped at "
                "items_limit, and the master has deleted changes it needs. Start an initial update of this slave.",
                code="changes-purged",
            )
