"""The open connections of an apply, and the small statements it sends over them.

A lost connection is `Transient`: the loop then closes all and opens anew.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.apply.schema_history import SchemaHistory
from sluice.apply.transformed_tables import TransformedTables
from sluice.database.apply import Alterer, Merger, Replayer
from sluice.database.changes import ChangeReader
from sluice.database.placed import vendor_at
from sluice.database.registry import source_of, takeover_of
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.errors import DataLost
from sluice.model.mask import Mask
from sluice.model.position import Position
from sluice.model.purging import lost
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")


class ChangesPurged(DataLost):
    """The slave's checkpoint is older than what every slave was seen to have, and ITEMS was purged by."""

    def __init__(self, pair: Pair):
        super().__init__(
            f"{pair}: the slave is older than it has been, as after a restore from a backup or a fail-over to a "
            "standby that lagged, or it was out of the configuration for a time, or dropped at items_limit, and "
            "the master has deleted changes it needs. Start an initial update of this slave."
        )


class PairSessions:
    """Connections of one pair: the master's (autocommit), the slave's, and the reader of ITEMS."""

    def __init__(self, pair: Pair):
        self.pair = pair
        self._master: Session | None = None
        self._slave: Session | None = None
        self._reader: ChangeReader | None = None
        self._merger: Merger | None = None
        self._alterer: Alterer | None = None
        self.images: RowImageCodec = source_of(pair.master_info.vendor).images
        """What the source's items are read with."""
        self.transformed = TransformedTables(self)
        """Tables that the slave gets otherwise than the master has them."""
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
        """Whether there is a connection to the slave, lost or not."""
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

    def open(self) -> None:
        """Opens what is not open. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
        pair = self.pair
        if self._master is None:
            connect = source_of(pair.master_info.vendor).sessions.connect
            self._master = connect(pair.master_info, application=pair.application, autocommit=True)
        if self._reader is None:
            queue = source_of(pair.master_info.vendor).changes
            self._reader = queue.Reader(
                pair.master_info, pair.prefix, pair.replication.master.schema, application=pair.application
            )
        if self._slave is None:
            connect = vendor_at(pair).sessions.connect
            self._slave = connect(pair.slave_info, application=pair.application)
            session = vendor_at(pair).sessions
            self.replica_role = session.begin_applying(self._slave, origin=str(pair.prefix))
            if not self.replica_role:
                log.warning(
                    "%s: this account may not switch triggers and foreign keys of %s off, so these act on every "
                    "change. As an administrator there: %s, then clear the task apply.",
                    pair,
                    pair.slave_info.place,
                    session.allow_silence(self._slave),
                )
            applying = vendor_at(pair).applying
            mask = Mask(pair.slave_info.mask)
            self._merger = applying.Merger(self._slave, cascades=not self.replica_role, mask=mask)
            self._alterer = self._merger.alterer(
                trusted=pair.slave.trusted_ddl,
                of_master=source_of(pair.master_info.vendor).types,
                lossy=pair.placement.patterns(pair.slave.lossy_columns),
            )

    def close(self) -> None:
        """Closes everything; never raises."""
        for link in (self._reader, self._master, self._slave):
            try:
                if link is not None:
                    link.close()
            except Exception as error:  # a broken connection may fail in any way when closed
                log.debug("closing a lost connection: %s", error)
        self._reader = self._master = self._slave = self._merger = self._alterer = None
        self.schema_history.clear()

    @contextmanager
    def slave_transaction(self, *, durable: bool | None = None) -> Iterator[Session]:
        """One transaction on the slave. `durable`: as of `Session.transaction`."""
        try:
            with self.slave.transaction(durable=durable):
                yield self.slave
        except BaseException:
            # Tables may have been looked at as the transaction had altered them, which is undone.
            if self._merger is not None:
                self._merger.targets.forget()
            raise

    def take_position(self, previous: Position) -> Position:
        """Where the master stands now. Raises `MasterWentBack`."""
        module = source_of(self.pair.master_info.vendor).changes
        return module.take(self.master, self.pair.prefix, self.pair.replication.master.schema, previous)

    def beginning(self) -> Position | None:
        """Where a slave without a checkpoint begins; None where an initial update must bring its rows."""
        module, master = source_of(self.pair.master_info.vendor).changes, self.pair.replication.master
        if self.pair.rows_info is not None and master.after is None:
            return None  # a load that begins just now would meet it
        return module.beginning(self.master, self.pair.prefix, master.schema, master.after)

    def taken_over(self, position: Position) -> Position | None:
        """Where the source goes on for a slave whose `position` another one gave; None where it is the source's own."""
        place = takeover_of(self.pair.master_info.vendor)
        return place(self.master, position) if place is not None else None

    def window_end(self, previous: Position) -> Position:
        """Where the next window ends. Raises `DataLost`."""
        module, most = source_of(self.pair.master_info.vendor).changes, self.pair.replication.apply.max_batch_changes
        return module.window_end(self.master, self.pair.prefix, self.pair.replication.master.schema, previous, most)

    def secure(self, position: Position) -> None:
        """Returns when a crash of the master cannot undo what `position` saw; the slave may have it then."""
        info = self.pair.master_info
        source_of(info.vendor).changes.secure(self.master, position)

    def compare_structure(self) -> int:
        """Finds changed definitions where no event trigger tells of them; how many. None while locks are in the way."""
        info = self.pair.master_info
        structure = source_of(info.vendor).changes
        return structure.compare_definitions(self.master, self.pair.prefix, self.pair.replication.master.schema)

    def definitions_digest(self) -> str:
        """Changes with the definitions on the master, those included that no change says."""
        info = self.pair.master_info
        structure = source_of(info.vendor).changes
        return structure.definitions_digest(self.master, self.pair.prefix, self.pair.replication.master.schema)

    def has_ddl_triggers(self) -> bool:
        """Whether event triggers on the master notice changes of definitions by themselves."""
        info = self.pair.master_info
        structure = source_of(info.vendor).changes
        return structure.reports_definitions(self.master, self.pair.prefix, self.pair.replication.master.schema)

    def check_purged(self, applied: Position) -> None:
        """Raises `ChangesPurged` where the master may have deleted changes that are still to be applied."""
        info = self.pair.master_info
        purged = source_of(info.vendor).changes.purged(
            self.master, self.pair.prefix, self.pair.replication.master.schema
        )
        if lost(applied, purged):
            raise ChangesPurged(self.pair)
