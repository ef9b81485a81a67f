"""A loader: claims planned blocks one after another, reads each from the master, stores it on the slave.

Any number of loaders work side by side, in threads, Spark tasks or processes; BLOCKS on the slave is
all they share. What a loader does with a block reads like the protocol of `sluice.domain.blocks`:

1. claim a planned block and find where it ends: `block_rows` rows on, the rest becomes a block
   of its own, so that the plan grows with the work done and not with the table;
2. commit "begun";
3. only then take a snapshot on the master, its position is the marker;
4. copy the rows, and commit them together with marker and "stored", if the block is still ours.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection, Error, errors

from sluice import vendors
from sluice.domain.blocks import Block, BlockState
from sluice.domain.compatibility import differences
from sluice.domain.names import TableName
from sluice.domain.shape import TableShape
from sluice.errors import SluiceError, Terminal, Transient
from sluice.initial import pace
from sluice.initial.owner import expect_loading, owner_of
from sluice.initial.update import Update

log = logging.getLogger("sluice.initial")

PATIENCE_SECONDS = 180.0
"""How long a loader goes on through outages that leave it nothing to do."""
OVERDUE = timedelta(seconds=60)
"""A block that did not fit yet must fit when the apply has come this much further than where that was noticed."""
BEAT_SECONDS = 1.0
"""How often a loader that copies looks whether the block is still its own."""
IDLE_SECONDS = 0.02
LONGEST_IDLE_SECONDS = 0.5
"""How long a loader waits for a block, at first and after others have had all of them for a while."""
REST_SECONDS = 1.0
"""How long a table is left alone when a block of it did not fit yet."""
NOT_YET = frozenset({"23505", "23503", "23P01", "23502", "42P01", "42703", "42804"})
"""SQLSTATEs of the slave that the apply may yet mend. Unique values and references: blocks are read at
different positions, so a value that moved from one row to another may be there twice until the apply
has passed both markers. Columns: DDL that the block has seen and the slave has not."""


class KeyChanged(Terminal):
    """The key of a table is another one than that its blocks were planned by."""

    def __init__(self, update: Update, table: TableName):
        super().__init__(
            f"{update}: the key of {table} changed on the master while it was being loaded. "
            "Cancel this initial update, then start a new one."
        )
        self.table = table


class BlockOvertaken(Transient):
    """The block is not this loader's any more: it was cancelled, or given to another loader."""


class JobOver(Transient):
    """The loader outlived its job, which ended or died; another job goes on with the blocks."""


class NeverFits(Terminal):
    """The apply is past the point where a block did not fit, and the block still does not."""

    def __init__(self, update: Update, reason: "NotYet"):
        super().__init__(
            f"{update}: {reason}. The apply is past that point and did not mend it. If the table was dropped, "
            "renamed or altered where Sluice could not see it, run the DAG reconcile_tables; else mend the slave's "
            "table. Then cancel this initial update and start a new one."
        )
        self.table = reason.table


class NotYet(Transient):
    """The slave cannot take the block yet: the apply has to bring it further first."""

    def __init__(self, table: TableName, reason: str):
        super().__init__(f"{table} waits for the apply to catch up: {reason}")
        self.table = table


@dataclass
class LoadReport:
    """What a loader did."""

    blocks: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0


def load_worker(
    update: Update, loader: str, stopped: Callable[[], bool] = lambda: False, per_table: int = 1_000_000
) -> LoadReport:
    """Loads until no block is left or `stopped` says so. Runs inside a Spark task, or anywhere.

    `loader` is a name that no loader had before: the job's (see `sluice.initial.job`), a slash, and
    something of its own. Raises `LoadEnded` when the update was cancelled, other `Terminal` for
    what a person must mend, `JobOver`, and `Transient` when outages outlast `PATIENCE_SECONDS`.
    The block in hand is given back in any case.
    """
    worker = Loader(update, loader, stopped, per_table)
    try:
        return worker.run()
    finally:
        worker.close()


class Loader:
    """The protocol, with the sessions it needs; what becomes of a block that was begun is `_transfer`'s."""

    def __init__(self, update: Update, loader: str, stopped: Callable[[], bool], per_table: int):
        self.update = update
        self.loader = loader
        self.stopped = stopped
        self.per_table = per_table
        self.report = LoadReport()
        self._master: Connection[Any] | None = None
        self._slave: Connection[Any] | None = None
        self._control: Connection[Any] | None = None
        self._orders: dict[TableName, Any] = {}
        self._resting: dict[TableName, float] = {}
        self._waiting_since: dict[TableName, datetime] = {}
        """By the master's clock, since when blocks of a table do not fit on the slave."""
        self._fine_at = time.monotonic()

    def run(self) -> LoadReport:
        started = time.monotonic()
        backoff = idle = 0.0
        while not self.stopped():
            try:
                self._open()
                block = self._claim()
                if block is not None:
                    self._transfer(block)
                    idle = 0.0
                elif self._finished():
                    break
                else:
                    idle = min(idle + IDLE_SECONDS, LONGEST_IDLE_SECONDS)
                    time.sleep(idle)
                self._fine_at, backoff = time.monotonic(), 0.0
            except NotYet as reason:
                self._give_back()
                self._rest(reason)
            except JobOver:
                raise
            except BlockOvertaken as reason:
                self._give_back()
                log.info("%s: %s", self.update, reason)
            except Transient as outage:
                self._give_back()
                self._check_patience(outage)
                backoff = min(max(2 * backoff, 0.1), 5.0)
                log.warning("%s: %s Next try in %.2g s.", self.update, outage, backoff)
                time.sleep(backoff)
            except BaseException:
                self._give_back()
                raise
        self.report.seconds = time.monotonic() - started
        return self.report

    def close(self) -> None:
        """Ends the sessions; never raises."""
        for link in (self._master, self._slave, self._control):
            if link is not None:
                try:
                    link.close()
                except Error as error:
                    log.debug("closing: %s", error)
        self._master = self._slave = self._control = None

    # -- the protocol

    def _claim(self) -> Block | None:
        """A block that is begun by this loader, committed; None when none can be claimed now."""
        control = self._linked(self._control)
        store = self._store(control)
        now = time.monotonic()
        resting = [table for table, until in self._resting.items() if until > now]
        with self._on_slave():
            try:
                with control.transaction():
                    self._expect_job(control)
                    expect_loading(self.update, control)
                    claim = store.claim(resting, self.per_table)
                    if claim is None:
                        return None
                    block = self._cut(claim)
                    if not store.begin(claim.block, block.hi, self.loader):
                        return None
            except errors.UniqueViolation:
                return None  # another loader cut a block of this table in the same moment
        return replace(block, state=BlockState.BEGUN, loader=self.loader)

    def _cut(self, claim: Any) -> Block:
        """The claimed block, ending where this loader should stop reading. Asks the master."""
        block: Block = claim.block
        with self._on_master():
            try:
                order = self._order(block.table)
                if any(bound is not None and len(bound) != len(order.shape.key) for bound in (block.lo, block.hi)):
                    raise KeyChanged(self.update, block.table)
                if order.shape.keyless:
                    return block
                rows = self._size(claim)
                hi = order.next_bound(self._linked(self._master), block.lo, block.hi, rows)
            except (errors.UndefinedTable, errors.UndefinedColumn) as error:
                raise NotYet(block.table, "it has just changed on the master") from error
        return replace(block, hi=hi or block.hi)

    def _transfer(self, block: Block) -> None:
        """Reads the begun block and stores it."""
        master, slave = self._linked(self._master), self._linked(self._slave)
        update, order = self.update, self._order(block.table)
        snapshot = vendors.module(update.master_info.vendor, "snapshot")
        positions = vendors.module(update.master_info.vendor, "position")
        copying = vendors.module(update.slave_info.vendor, "copying")
        catalog = vendors.module(update.slave_info.vendor, "catalog")
        with self._on_slave(block.table), slave.transaction():
            with (
                self._on_master(),
                snapshot.reading(master, order.shape, update.prefix, update.replication.master.schema) as seen,
                self._on_slave(block.table),
            ):
                target = catalog.shape(slave, block.table)
                if seen.shape.key != order.shape.key:
                    raise NotYet(block.table, "its key has just changed on the master")
                unfit = differences(seen.shape, target) if target else [f"{block.table} does not exist on the slave"]
                if unfit:
                    raise NotYet(block.table, "; ".join(unfit))
                if update.slave.existing_tables == "keep":
                    self._clear(slave, target, block)
                copied = copying.copy(
                    master,
                    slave,
                    order.select(seen.shape.replicated, block.lo, block.hi),
                    target,
                    seen.shape.replicated,
                    in_binary=copying.binary(seen.shape.replicated, target),
                    beat=self._beat(block),
                    place=update.master_info.place,
                )
            with self._on_master():
                positions.secure(master, seen.marker)
            if not self._store(slave).store(block, self.loader, seen.marker, copied.rows, copied.bytes):
                raise BlockOvertaken(f"block {block.number} of {block.table} was taken away while it was read")
        if seen.shape != order.shape:
            self._orders.pop(block.table, None)
        self.report.blocks += 1
        self.report.rows += copied.rows
        self.report.bytes += copied.bytes
        self._waiting_since.pop(block.table, None)

    def _give_back(self) -> None:
        """Drops the sessions, which may be in the middle of anything, and puts the block in hand back to planned."""
        self.close()
        self._orders.clear()
        try:
            self._open()
            with self._on_slave():
                self._store(self._linked(self._control)).release(self.loader)
        except SluiceError as error:
            # The job that runs these loaders, or its successor, does it later.
            log.warning("%s: block not given back yet: %s", self.update, error)

    # -- what it asks

    def _finished(self) -> bool:
        """True when nothing is left to do for anyone: a block in another's hands may yet come back."""
        with self._on_slave():
            planned, begun, _ = self._store(self._linked(self._control)).left()
        return bool(planned == begun == 0)

    def _expect_job(self, control: Connection[Any]) -> None:
        """Raises `JobOver` when the job this loader works for has ended or died."""
        module = vendors.module(self.update.slave_info.vendor, "updates")
        if not module.claiming(control, self.update.prefix, self.update.slave.name, self.loader.rpartition("/")[0]):
            raise JobOver(f"{self.update}: the load job of loader {self.loader} is over")

    def _rest(self, reason: NotYet) -> None:
        """Leaves the table alone for a moment. Raises `NeverFits` when the apply should have mended it by now.

        As long as the apply is behind, it may have to wait for hours; the reason is in the log.
        """
        table = reason.table
        if table not in self._waiting_since:
            log.info("%s: %s", self.update, reason)
        self._resting[table] = time.monotonic() + REST_SECONDS
        try:
            self._open()
            with self._on_master():
                row = self._linked(self._master).execute("SELECT clock_timestamp()").fetchone()
            assert row is not None
            since = self._waiting_since.setdefault(table, row[0])
            with self._on_slave():
                owner = owner_of(self.update, self._linked(self._control))
        except Transient as outage:
            log.warning("%s: %s", self.update, outage)
            return
        if owner and owner.current_as_of and owner.current_as_of > since + OVERDUE:
            raise NeverFits(self.update, reason)

    def _check_patience(self, outage: Transient) -> None:
        """Raises an outage that lasts too long."""
        if time.monotonic() - self._fine_at > PATIENCE_SECONDS:
            raise outage

    def _beat(self, block: Block) -> Callable[[], None]:
        """Looks once a second whether the block is still ours, so that a cancelled load ends within it."""
        last = time.monotonic()

        def beat() -> None:
            nonlocal last
            if time.monotonic() - last < BEAT_SECONDS:
                return
            last = time.monotonic()
            control = self._linked(self._control)
            if self.stopped() or not self._store(control).is_mine(block, self.loader):
                raise BlockOvertaken(f"block {block.number} of {block.table} was taken away or the load stopped")

        return beat

    def _size(self, claim: Any) -> int:
        """Rows that the claimed block should have."""
        options = self.update.options
        if claim.last_rows is not None:
            return pace.next_rows(claim.last_rows, claim.last_seconds, options.block_target_seconds, options.block_rows)
        module = vendors.module(self.update.master_info.vendor, "estimates")
        found = module.read(self._linked(self._master), [claim.block.table]).get(claim.block.table)
        return pace.first_rows(options.block_rows, found.rows, found.bytes) if found else options.block_rows

    def _order(self, table: TableName) -> Any:
        """How the master orders the table's keys, read once."""
        if table not in self._orders:
            vendor = self.update.master_info.vendor
            master = self._linked(self._master)
            shape = vendors.module(vendor, "catalog").shape(master, table)
            if shape is None:
                raise NotYet(table, "it does not exist on the master any more")
            self._orders[table] = vendors.module(vendor, "ranges").key_order(master, shape)
        return self._orders[table]

    def _clear(self, slave: Connection[Any], target: TableShape, block: Block) -> None:
        """Deletes the old rows of a kept table that this block replaces.

        Where the slave orders keys in its own way the same range holds other rows there; such a
        table was emptied beforehand (see `sluice.initial.preparation`), and nothing is deleted.
        """
        vendor = self.update.slave_info.vendor
        there = vendors.module(vendor, "ranges").key_order(slave, target)
        whole = block.lo is None and block.hi is None
        if whole or (there.same_everywhere and self._order(block.table).same_everywhere):
            vendors.module(vendor, "copying").clear(slave, there, block)

    # -- its sessions

    def _open(self) -> None:
        update = self.update
        if self._master is None:
            self._master = update.connect_master(update.loader_application)
        if self._control is None:
            self._control = update.connect_slave(update.loader_application)
            with self._on_slave():
                # Losing a "begun" in a crash of the slave is harmless: the block is then planned, and storing it fails.
                self._control.execute("SET synchronous_commit = off")
        if self._slave is None:
            self._slave = update.connect_slave(update.loader_application)
            with self._on_slave():
                session = vendors.module(update.slave_info.vendor, "session")
                session.begin_applying(self._slave, origin=str(update.prefix))
                # A block and its "stored" are lost together, and never after a later commit of the apply survived.
                self._slave.execute("SET synchronous_commit = off")

    def _store(self, connection: Connection[Any]) -> Any:
        module = vendors.module(self.update.slave_info.vendor, "blocks")
        return module.BlockStore(connection, self.update.prefix, self.update.slave.schema, self.update.slave.name)

    def _on_master(self) -> Any:
        return vendors.module(self.update.master_info.vendor, "connection").classified(self.update.master_info)

    @contextmanager
    def _on_slave(self, table: TableName | None = None) -> Iterator[None]:
        """Errors of the slave classified; with `table`, a row that does not fit in it is `NotYet`."""
        with vendors.module(self.update.slave_info.vendor, "connection").classified(self.update.slave_info):
            try:
                yield
            except Error as error:
                if table is not None and error.sqlstate in NOT_YET:
                    raise NotYet(table, " ".join(str(error).split())) from error
                raise

    def _linked(self, connection: Connection[Any] | None) -> Connection[Any]:
        assert connection is not None, "_open() first"
        return connection
