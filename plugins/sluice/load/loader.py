"""A loader: claims planned blocks one after another, reads each from the master, stores it on the slave.

Any number of loaders work side by side, in threads, Spark tasks or processes; they share only BLOCKS on the slave. A
loader follows the protocol of `sluice.model.blocks`:

1. claim a planned block and find its end, some `block_rows` rows on; the rest becomes another planned block, so
   that BLOCKS grows with the work done and not with the table;
2. commit "begun";
3. only then take a snapshot on the master; its position is the marker;
4. copy the rows, and commit them together with marker and "stored", if the block is still this loader's.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sluice.control.checkpoint import CheckpointStore
from sluice.database.conflicts import Conflict, ValueUnfit
from sluice.database.control import Claim
from sluice.database.errors import DatabaseRefused, StatementFailed, UndefinedTable, UniqueViolation
from sluice.database.load import LoadTarget
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of
from sluice.database.rows import BlockRead, MasterKeyOrder, RowFormat, RowStream, TableRefused
from sluice.database.session import Session
from sluice.database.translation import Translator
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import outdated_constraints, read_modes
from sluice.load.load_ownership import expect_loading, owner_of
from sluice.load.read_modes import BlockYielded, SnapshotLost
from sluice.load.update import Update
from sluice.load.worker import REST_SECONDS, BlockOvertaken, BlockWorker, LoadReport, Pieces, SlaveNotReady
from sluice.model.blocks import Block, BlockState, Key
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.model.throttle_state import ThrottleState
from sluice.transform.row_stream import TransformedRows
from sluice.transform.table_transform import RowNotTransformed, TableTransform, TransformationInvalid
from sluice.transform.transforms import Transforms, master_key

# Chooses the format in which a block's rows are read for one slave's table, and writes them there.


@dataclass(frozen=True)
class BlockWriter:
    """Writes rows of one table, read under the master's definition at a block's marker."""

    target: LoadTarget
    table: TableName
    columns: tuple[str, ...]
    """The columns of the rows, in order."""
    row_format: RowFormat
    canonical: bool
    """Whether the rows are canonical texts."""
    transform: TableTransform | None

    @classmethod
    def fitting(
        cls,
        update: Update,
        transforms: Transforms,
        master: Session,
        slave: Session,
        shape: TableShape,
        target: TableShape,
    ) -> "BlockWriter":
        """The writer for rows of `shape` into the slave's table `target`. Raises `SlaveNotReady` if they differ."""
        of_master, of_slave = master_of(update.master_info.vendor), vendor_at(update)
        transform = transforms.of(shape, master)
        transformed = shape if transform is None else transform.shape
        translator = Translator(of_master, of_slave, master, slave)
        if unfit := translator.differences(transformed, target, update.slave.lossy_columns):
            raise SlaveNotReady(shape.table, "; ".join(unfit))
        row_format = RowFormat.CSV
        if transform is None:
            offered = of_slave.load_target.formats(shape.replicated, target)
            row_format = next(each for each in offered if each in of_master.rows.formats)
        # Transformations read the canonical texts, which changes have too.
        canonical = transform is not None or of_master.types is not of_slave.types
        names = tuple(column.name for column in shape.replicated)
        return cls(of_slave.load_target, shape.table, names, row_format, canonical, transform)

    def reads_as(self, other: "BlockWriter") -> bool:
        """Whether rows that are read for one of the two can be written by both."""
        return (self.columns, self.row_format, self.canonical) == (other.columns, other.row_format, other.canonical)

    def write(self, slave: Session, pieces: Iterable[bytes | memoryview]) -> int:
        """Writes the rows in the caller's transaction. Returns how many."""
        if self.transform is None:
            return self.target.write(slave, self.table, self.columns, pieces, self.row_format)
        rows_to_write = TransformedRows(pieces, self.columns, self.transform)
        return self.target.write(slave, self.table, rows_to_write.columns, rows_to_write, self.row_format)


log = logging.getLogger("sluice.load")

# Decides how many rows the next block of a table gets. Pure functions, no I/O.

FIRST_BYTES = 32 * 1024 * 1024
"""The size limit of a table's first block, whose rows may be wide."""
CAUTIOUS_ROWS = 1_000
"""The first block of a large table without statistics."""
SMALLEST = 100
FEW_BYTES = 64 * 1024
"""A block does not shrink below this, however long it takes."""
LARGEST = 5_000_000
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 0.2, 10.0
"""The first and the longest pause of a block that was put back for the application."""
GROWTH = 4.0
"""The most by which the size changes from one block to the next, as one measurement is unreliable."""


def first_rows(block_rows: int, rows: int | None, size: int) -> int:
    """Rows of a table's first block: `block_rows`, fewer if rows are wide.

    `rows` and `size` (bytes) as statistics have them; rows None when there are none.
    """
    if size <= FIRST_BYTES:
        return block_rows
    if not rows:
        return min(block_rows, CAUTIOUS_ROWS)
    return max(1, min(block_rows, FIRST_BYTES * rows // size))


def after_tries(rows: int, tries: int) -> int:
    """Rows of a block that was put back for the application `tries` times; `rows`: without that."""
    return max(1, rows >> min(tries, 60))


def rest_seconds(tries: int) -> float:
    """The pause of a block that is put back, after `tries` times before."""
    return float(min(FIRST_REST_SECONDS * 2 ** min(tries, 60), LONGEST_REST_SECONDS))


def next_rows(rows: int, seconds: float, target_seconds: float, block_rows: int, size: int | None = None) -> int:
    """Rows of the block after one with `rows` of `size` bytes that took `seconds`.

    After a block without rows: `block_rows`. A block with few bytes took its time for something else, such as opening a
    file in S3, so it does not shrink.
    """
    if rows <= 0:
        return block_rows
    factor = target_seconds / max(seconds, 0.001)
    if size is not None and size < FEW_BYTES:
        factor = max(factor, 1.0)
    adjusted = rows * min(max(factor, 1 / GROWTH), GROWTH)
    return int(min(max(adjusted, SMALLEST if seconds < target_seconds else 1), LARGEST))


SHARE_SECONDS = 0.25
"""A block gets what the rate allows its worker in this time, so that a load is never far above its rate."""


def within_rate(rows: int, state: ThrottleState, row_bytes: float | None) -> int:
    """`rows` of the next block, fewer if a rate is set. `row_bytes`: bytes of a row on average, None if unknown."""
    share = SHARE_SECONDS / state.loaders
    if state.rows_per_second is not None:
        rows = int(min(rows, state.rows_per_second * share))
    if state.bytes_per_second is not None and row_bytes:
        rows = int(min(rows, state.bytes_per_second * share / row_bytes))
    return max(rows, 1)


OVERDUE = timedelta(seconds=60)
"""A block that did not fit must fit when the apply is this much further than when that was noticed."""
IDLE_SECONDS = 0.02
LONGEST_IDLE_SECONDS = 0.5
"""The pauses of a loader that finds no block, at first and at most."""


class NeverFits(TableRefused):
    """A block does not fit, although the apply is past the point where that was noticed."""

    def __init__(self, update: Update, reason: SlaveNotReady):
        super().__init__(
            reason.table,
            f"{update}: {reason}. The apply is past that point and did not fix it. If the table was dropped, "
            "renamed or altered where Sluice could not see it, run the DAG reconcile_tables; else fix the slave's "
            "table. Then load the table again.",
        )


def load_worker(
    update: Update, loader: str, stopped: Callable[[], bool] = lambda: False, turn_seconds: float = math.inf
) -> LoadReport:
    """Loads until no block is left, its turn is over, or `stopped` says so. Runs in a Spark task, or anywhere.

    `loader`: a name that no loader had before: the job's (see `sluice.load.load_job`), a slash, and a suffix. Raises
    `LoadEnded` when the update was canceled, other `Terminal` for what a person must fix, `JobOver`, and `Transient`
    when outages outlast `WAIT_SECONDS`. A begun block is given back in any case.
    """
    return Loader(update, loader, stopped).run(turn_seconds)


class Loader(BlockWorker):
    """The protocol over the wire."""

    # A crash of the slave may lose a block's rows together with its "begun" or "stored": it is then planned, and read
    # again. No block is lost whose later commit of the apply survives.
    _durable = False

    def __init__(self, update: Update, loader: str, stopped: Callable[[], bool]):
        super().__init__(update, loader, stopped)
        self.update = update
        self._master: Session | None = None
        self._orders: dict[TableName, MasterKeyOrder] = {}
        self._transforms = Transforms(update.replication, update.slave)
        self._waiting_since: dict[TableName, datetime] = {}
        """Since when blocks of a table do not fit on the slave, by the master's clock."""
        self._idled = 0.0

    def close(self) -> None:
        super().close()
        self._end(self._master)
        self._master = None
        self._orders.clear()

    # -- the protocol

    def _claim(self) -> Block | None:
        control = self._linked(self._control)
        store, options = self._blocks(control), self.update.options
        try:
            with control.transaction():
                self._expect_job(control)
                expect_loading(self.update, control)
                if min(options.parallel_tables, options.parallel_ranges) < options.parallel:
                    locks = vendor_at(self.update).load_locks
                    locks.claim_in_turn(control, self.update.prefix, self.update.slave.name)
                claim = store.claim(
                    self._backoff_over(), tables=options.parallel_tables, ranges=options.parallel_ranges
                )
                if claim is None:
                    return None
                with self._refusing(claim.block.table):
                    block = self._cut(claim)
                if not store.begin(claim.block, block.hi, self.loader):
                    return None
                self._begun(claim.block, block.hi)
        except UniqueViolation:
            return None  # another loader cut a block of this table in the same moment
        self._idled = 0.0
        return replace(block, state=BlockState.BEGUN, loader=self.loader)

    def _cut(self, claim: Claim) -> Block:
        """The claimed block, with the end that this loader should read to, which the master finds."""
        block = claim.block
        try:
            order = self._order(block.table)
            if any(bound is not None and len(bound) != len(order.shape.key) for bound in (block.lo, block.hi)):
                raise self._key_changed(block.table)
            if order.shape.keyless:
                return block
            rows = self._size(claim)
            hi = order.next_bound(self._linked(self._master), block.lo, block.hi, rows)
        except UndefinedTable as error:
            raise SlaveNotReady(block.table, "it has just changed on the master") from error
        except StatementFailed as error:
            known = self._orders.pop(block.table, None)
            if known is None or known.shape.key == self._order(block.table).shape.key:
                raise
            raise self._key_changed(block.table) from error
        return replace(block, hi=hi or block.hi)

    def _key_changed(self, table: TableName) -> SluiceError:
        """The error for a table whose key is no longer that of its blocks; the apply leaves it out when it is there."""
        return SlaveNotReady(table, "its key has just changed on the master")

    def _transfer(self, block: Block) -> None:
        """Copies the begun block, or puts it back if the application holds its rows."""
        try:
            self._copy(block)
        except BlockYielded as reason:
            self._end(self._master)
            self._master = None
            seconds = rest_seconds(block.tries)
            self._blocks(self._linked(self._control)).give_way(block, self.loader, seconds)
            log.info("%s: %s. Others are read first; it comes again in %.2g s", self.update, reason, seconds)

    def _leave_out(self, refused: TableRefused) -> None:
        """Ends the load of one table: it is inconsistent, and all others are loaded. Raises its error if `on_error`
        says `stop`, or if the update loads nothing else."""
        table, failure = refused.table, refused.__cause__ if isinstance(refused.__cause__, Terminal) else refused
        if not self.update.may_leave_out([table]):
            raise failure
        self._open_control()
        control = self._linked(self._control)
        with control.transaction():
            checkpoints = CheckpointStore.of(self.update, control)
            states = checkpoints.configured(lock=True).tables
            expect_loading(self.update, control)
            # A claim adds the block behind its own; without this lock the deletion would not see that block.
            vendor_at(self.update).load_locks.no_claims(control, self.update.prefix, self.update.slave.name)
            blocks = self._blocks(control)
            if blocks.map().tables.keys() <= {table}:
                raise failure
            checkpoints.put_tables(states.leave_out({table: failure.reason_left_out}))
            blocks.delete(table)
        self._orders.pop(table, None)
        log.warning("%s: %s is left out, all others are loaded: %s", self.update, table, refused)

    def _copy(self, block: Block) -> None:
        """Reads the begun block and stores it."""
        master, slave = self._linked(self._master), self._linked(self._slave)
        update, order = self.update, self._order(block.table)
        of_master, of_slave = master_of(update.master_info.vendor), vendor_at(update)
        # What the slave refuses at the statement, or at the commit, may fit when the apply has come further.
        with self._fitting(block.table), slave.transaction():
            with (
                self._refusing(block.table),
                read_modes.reading(update, master, order.shape, block) as read,
                self._fitting(block.table),
            ):
                target = of_slave.rows.shape(slave, block.table)
                if read.shape.key != order.shape.key:
                    raise self._key_changed(block.table)
                if target is None:
                    raise SlaveNotReady(block.table, f"{block.table} does not exist on the slave")
                writer = BlockWriter.fitting(update, self._transforms, master, slave, read.shape, target)
                if update.slave.existing_tables == "keep":
                    self._clear(slave, target, block)
                query = order.select(
                    read.shape.replicated, block.lo, block.hi, locked=read.locked, canonical=writer.canonical
                )
                stream = of_master.rows.stream(master, query, writer.row_format, read.end if read.locked else None)
                pieces = Pieces(self._passing(stream, read, writer), self._beat(block))
                rows = writer.write(slave, pieces)
            update.queue(master).secure(read.marker)
            self._passed(read.marker, pieces.bytes)
            if not self._blocks(slave).store(block, self.loader, read.marker, rows, pieces.bytes):
                raise BlockOvertaken(f"block {block.number} of {block.table} was taken away while it was read")
        if read.shape != order.shape:
            self._orders.pop(block.table, None)
        self.report.count(rows, pieces.bytes)
        self._waiting_since.pop(block.table, None)

    @contextmanager
    def _refusing(self, table: TableName) -> Iterator[None]:
        """Raises `TableRefused` if the master does not let `table` be read, or the slave refuses a row of it for a
        reason that no apply fixes."""
        try:
            yield
        except (Conflict, DatabaseRefused, StatementFailed, TransformationInvalid, RowNotTransformed) as error:
            failure: Terminal = error
            if isinstance(error, StatementFailed) and error.server == self.update.slave_info.server:
                failure = ValueUnfit(table, error.reason or str(error))
            raise TableRefused(table, str(failure)) from failure

    # -- hooks of a loader for several slaves (`sluice.load.shared_load`)

    def _begun(self, planned: Block, hi: Key | None) -> None:
        """Called in the transaction that begins the `planned` block up to `hi`."""

    def _passing(self, stream: RowStream, read: BlockRead, writer: BlockWriter) -> Iterable[bytes | memoryview]:
        """The pieces of `stream` for `writer`."""
        return stream

    def _passed(self, marker: Position, size: int) -> None:
        """Called when all rows of the block are read and its marker is secure."""

    # -- what is left, and how much to take

    def _finished(self) -> bool:
        if not self._all_read():
            return False
        if not self.update.selection.partial:
            return True
        # Blocks that have not caught up may be planned again.
        return not CheckpointStore.of(self.update, self._linked(self._control)).configured().tables.loading

    def _all_read(self) -> bool:
        planned, begun, _ = self._blocks(self._linked(self._control)).left()
        return not planned and not begun

    def _idle(self) -> None:
        self._idled = min(self._idled + IDLE_SECONDS, LONGEST_IDLE_SECONDS)
        time.sleep(self._idled)
        self._fine_at = time.monotonic()

    def _rest(self, reason: SlaveNotReady) -> None:
        """Leaves the table alone for a moment, or out when the apply is far enough and did not help.

        While the apply is behind, a block may wait for hours; the reason is in the log.
        """
        self._expect_own_snapshot(reason)
        table = reason.table
        if table not in self._waiting_since:
            log.info("%s: %s", self.update, reason)
        self._resting[table] = time.monotonic() + REST_SECONDS
        try:
            self._open()
            since = self._waiting_since.setdefault(table, self._linked(self._master).clock())
            owner = owner_of(self.update, self._linked(self._control))
            # The rows were read after the master dropped what refuses them.
            if outdated_constraints.drop(self.update, self._linked(self._master), self._linked(self._control), [table]):
                self._resting.pop(table)
                return
        except Transient as outage:
            log.warning("%s: %s", self.update, outage)
            return
        if owner and owner.current_as_of and owner.current_as_of > since + OVERDUE:
            self._leave_out(NeverFits(self.update, reason))

    def _expect_own_snapshot(self, reason: SlaveNotReady) -> None:
        """Raises `SnapshotLost` if all blocks are read in one snapshot: the apply, which might help, waits then."""
        if self.update.options.read == "snapshot":
            raise SnapshotLost(self.update, reason)

    def _size(self, claim: Claim) -> int:
        """Rows that the claimed block should have."""
        options = self.update.options
        rows, row_bytes = options.block_rows, None
        if claim.last_rows is not None and claim.last_seconds is not None:
            target = options.block_target_seconds
            if options.read == "locked":
                target = min(target, options.lock_timeout)
            rows = next_rows(claim.last_rows, claim.last_seconds, target, options.block_rows, claim.last_bytes)
            row_bytes = claim.last_bytes / claim.last_rows if claim.last_rows and claim.last_bytes is not None else None
        else:
            module = master_of(self.update.master_info.vendor).rows
            estimate = module.estimates(self._linked(self._master), [claim.block.table]).get(claim.block.table)
            if estimate:
                rows = first_rows(options.block_rows, estimate.rows, estimate.bytes)
                row_bytes = estimate.bytes / estimate.rows if estimate.rows else None
        return after_tries(within_rate(rows, self._throttle_state, row_bytes), claim.block.tries)

    def _order(self, table: TableName) -> MasterKeyOrder:
        """The order of the table's keys on the master, read once."""
        if table not in self._orders:
            vendor = self.update.master_info.vendor
            master = self._linked(self._master)
            shape = master_of(vendor).rows.shape(master, table)
            if shape is None:
                raise SlaveNotReady(table, "it does not exist on the master any more")
            self._orders[table] = master_of(vendor).rows.key_order(master, shape)
        return self._orders[table]

    def _clear(self, slave: Session, target: TableShape, block: Block) -> None:
        """Deletes the old rows of a kept table that this block replaces.

        Where the slave orders keys differently, the range has other rows there; such a table was emptied before
        (see `sluice.load.preparation`), and nothing is deleted.
        """
        vendor = vendor_at(self.update)
        key = master_key(self._order(block.table).shape, self.update.transformation(block.table))
        slave_order = vendor.rows.key_order(slave, target.keyed_by(key))
        whole = block.lo is None and block.hi is None
        if whole or (slave_order.same_everywhere and self._order(block.table).same_everywhere):
            vendor.load_target.clear(slave, slave_order, block)

    # -- its sessions

    def _open(self) -> None:
        if self._master is None:
            self._master = self.update.connect_master(self.update.loader_application)
        super()._open()
