"""The base of loaders, exporters and importers: claims blocks one after another, and gives a begun one back on errors.

Any number of workers run side by side, in threads, Spark tasks or processes; they share only BLOCKS on the slave.
Subclasses define which blocks are claimed and what is done with them.
"""

import logging
import math
import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from sluice.backoff import Backoff
from sluice.control.blocks import BlockStore
from sluice.control.own_tables import ThrottleStore
from sluice.database.errors import (
    CheckViolation,
    DatatypeMismatch,
    ForeignKeyViolation,
    InvalidValue,
    NotNullViolation,
    UndefinedTable,
    UniqueViolation,
)
from sluice.database.placed import vendor_at
from sluice.database.rows import TableRefused
from sluice.database.session import Session
from sluice.errors import SluiceError, Transient
from sluice.load.load_ownership import expect_loading
from sluice.load.update import LoadTarget
from sluice.model.blocks import Block
from sluice.model.names import TableName
from sluice.model.throttle_state import ThrottleState
from sluice.storage.folder import LocationUnreachable, LocationUnusable

log = logging.getLogger("sluice.load")

WAIT_SECONDS = 180.0
"""How long a worker tries again while outages let it do nothing."""
BEAT_SECONDS = 1.0
"""How often a worker that copies checks that the block is still its own."""
REST_SECONDS = 1.0
"""How long a table is left alone when a block of it does not fit yet."""
THROTTLED_SECONDS = 0.1
"""How often a throttled worker checks whether it may continue."""
SLAVE_NOT_READY = (
    UniqueViolation,
    ForeignKeyViolation,
    NotNullViolation,
    CheckViolation,
    InvalidValue,
    UndefinedTable,
    DatatypeMismatch,
)
"""Errors of the slave that the apply may resolve. Unique values and references: blocks are read at different positions,
so two rows may have a value that moved from one to the other until the apply has passed both markers. Columns, checks,
labels of enums: the block was read after DDL that the slave does not have yet."""


class BlockOvertaken(Transient):
    """The block is no longer this worker's: it was canceled, or another worker has it."""


class JobOver(Transient):
    """The worker's job has ended; another job loads the blocks."""


class SlaveNotReady(Transient):
    """The slave cannot take the block before the apply has come further."""

    def __init__(self, table: TableName, reason: str):
        super().__init__(f"{table} waits for the apply to catch up: {reason}")
        self.table = table


@dataclass
class LoadReport:
    """The result of a worker."""

    blocks: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    over: bool = True
    """Whether it ended because no block was left or it was told to stop; otherwise its turn was over."""

    def count(self, rows: int, size: int) -> None:
        """Adds a block of `rows` rows and `size` bytes."""
        self.blocks += 1
        self.rows += rows
        self.bytes += size


class Pieces:
    """Passes pieces of a stream of rows, cut anywhere. `bytes`: how many have passed.

    `beat` is called for each piece, and may raise.
    """

    def __init__(self, pieces: Iterable[bytes | memoryview], beat: Callable[[], None]):
        self.bytes = 0
        self._pieces = pieces
        self._beat = beat

    def __iter__(self) -> Iterator[bytes | memoryview]:
        for piece in self._pieces:
            self.bytes += len(piece)
            self._beat()
            yield piece


class BlockWorker(ABC):
    """The loop of a worker, and its two sessions on the slave: `control` for BLOCKS, the other for rows.

    `loader`: its name in the job (see `sluice.load.load_job`). Spark may start a name again while the first start may
    still be alive. So each start adds its own suffix, and gives back the blocks of earlier starts.
    """

    work: ClassVar[str] = "load"
    """The name of the work in messages."""
    _durable: ClassVar[bool] = True
    """Whether commits wait for the slave's disk, unless the slave's settings decide it."""

    def __init__(self, target: LoadTarget, loader: str, stopped: Callable[[], bool]):
        self.target = target
        self._loader_prefix = f"{loader}."
        self.loader = f"{self._loader_prefix}{uuid.uuid4().hex[:8]}"
        self.stopped = stopped
        self.report = LoadReport()
        self._slave: Session | None = None
        self._control: Session | None = None
        self._resting: dict[TableName, float] = {}
        self._fine_at = time.monotonic()
        self._holds_block = True
        """Whether this worker, or an earlier start of its name, may have begun a block that nobody works on."""
        self._throttle_state = ThrottleState()
        """The limits, as read last."""

    def run(self, turn_seconds: float = math.inf) -> LoadReport:
        """Works until no block is left, its turn is over, or `stopped` says so; then ends its sessions.

        `turn_seconds`: how long a turn lasts, after which the name is started again, possibly elsewhere. A turn ends
        after a block, and never while a table waits for the slave: only this start knows since when.
        """
        with closing(self):
            return self._work(turn_seconds)

    def _work(self, turn_seconds: float) -> LoadReport:
        started, backoff = time.monotonic(), Backoff(0.1, 5.0)
        while not self.stopped():
            try:
                self._release_block()
                self._open()
                if self._throttled():
                    time.sleep(THROTTLED_SECONDS)
                    self._fine_at = time.monotonic()
                    continue
                block = self._claim()
                if block is not None:
                    self._transfer(block)
                    self._resting.pop(block.table, None)
                    self._fine_at = time.monotonic()
                    if self._fine_at - started >= turn_seconds and not self._resting:
                        self.report.over = False
                        break
                elif self._finished():
                    break
                else:
                    self._idle()
                backoff.reset()
            except SlaveNotReady as reason:
                self._give_back()
                self._rest(reason)
            except JobOver:
                raise
            except TableRefused as refused:
                self._give_back()
                self._leave_out(refused)
            except BlockOvertaken as reason:
                self._give_back()
                log.info("%s: %s", self.target, reason)
            except Transient as outage:
                self._give_back()
                if time.monotonic() - self._fine_at > WAIT_SECONDS:
                    if isinstance(outage, LocationUnreachable) and not self.report.blocks:
                        raise LocationUnusable(
                            outage.location,
                            f"{socket.gethostname()} has not reached it in {WAIT_SECONDS:.0f} s: {outage.reason}. "
                            "Every machine with executors of Spark must reach it: see its network, the endpoint, the "
                            "credentials and the file of certificate authorities there. Then start the update again",
                        ) from outage
                    raise
                pause = backoff.next()
                log.warning("%s: %s Next try in %.2g s.", self.target, outage, pause)
                time.sleep(pause)
            except BaseException:
                self._give_back()
                raise
        self.report.seconds = time.monotonic() - started
        return self.report

    def close(self) -> None:
        """Ends the sessions; never raises."""
        for session in (self._slave, self._control):
            self._end(session)
        self._slave = self._control = None

    @abstractmethod
    def _claim(self) -> Block | None:
        """Begins a block and commits that; None if none can be claimed now."""

    @abstractmethod
    def _transfer(self, block: Block) -> None:
        """Transfers the begun block, and marks it in BLOCKS if it is still this worker's."""

    @abstractmethod
    def _finished(self) -> bool:
        """Whether no worker has anything left to do. A block of another worker may be given back."""

    @abstractmethod
    def _idle(self) -> None:
        """Waits: other workers have all remaining blocks, or these are left alone for now."""

    @abstractmethod
    def _rest(self, reason: SlaveNotReady) -> None:
        """Leaves a table alone for a moment."""

    def _leave_out(self, refused: TableRefused) -> None:
        """Ends the load of one table if all others may continue without it; raises its error otherwise."""
        raise refused

    # -- what all of them do

    def _throttled(self) -> bool:
        """Whether the throttle forbids to begin a block now. No transaction is open while a worker waits."""
        control = self._linked(self._control)
        self._throttle_state = ThrottleStore.of(self.target, control).read()
        if self._throttle_state.holds:
            with control.transaction():
                self._expect_job(control)
                expect_loading(self.target, control)
        return self._throttle_state.holds

    def _backoff_over(self) -> list[TableName]:
        """Tables that are left alone now."""
        now = time.monotonic()
        return [table for table, until in self._resting.items() if until > now]

    def _expect_job(self, control: Session) -> None:
        """Raises `JobOver` when this worker's job has ended."""
        locks = vendor_at(self.target).load_locks
        if not locks.claiming(control, self.target.prefix, self.target.slave.name, self.loader.rpartition("/")[0]):
            raise JobOver(f"{self.target}: the {self.work} job of loader {self.loader} is over")

    def _beat(self, block: Block) -> Callable[[], None]:
        """A function that checks once a second that the block is still this worker's, so that canceled work ends."""
        last = time.monotonic()

        def beat() -> None:
            nonlocal last
            if time.monotonic() - last < BEAT_SECONDS:
                return
            last = time.monotonic()
            if self.stopped() or not self._blocks(self._linked(self._control)).is_begun_by(block, self.loader):
                raise BlockOvertaken(f"block {block.number} of {block.table} was taken away or the {self.work} stopped")

        return beat

    def _give_back(self) -> None:
        """Ends the sessions, even if they are busy, and puts the begun block back."""
        self.close()
        self._holds_block = True
        try:
            self._release_block()
        except SluiceError as error:
            # This is tried again before the next claim, or else done by this job's end or the next job.
            log.warning("%s: block not given back yet: %s", self.target, error)

    def _release_block(self) -> None:
        """Puts begun blocks of this worker back. Needs only the slave, as the master may be away."""
        if self._holds_block:
            self._open_control()
            self._blocks(self._linked(self._control)).release(loader_prefix=self._loader_prefix)
            self._holds_block = False

    # -- its sessions

    def _open(self) -> None:
        target = self.target
        self._open_control()
        if self._slave is None:
            self._slave = target.connect_slave(target.loader_application, durable=self._durable)
            session = vendor_at(target).sessions
            session.begin_applying(self._slave, origin=str(target.prefix))

    def _open_control(self) -> None:
        if self._control is None:
            self._control = self.target.connect_slave(self.target.loader_application, durable=self._durable)

    def _blocks(self, connection: Session) -> BlockStore:
        return BlockStore.of(self.target, connection)

    @contextmanager
    def _fitting(self, table: TableName) -> Iterator[None]:
        """Raises `SlaveNotReady` if a row does not fit into the slave's `table`."""
        try:
            yield
        except SLAVE_NOT_READY as error:
            if error.server == self.target.slave_info.server:
                raise SlaveNotReady(table, error.reason or str(error)) from error
            raise

    def _linked(self, connection: Session | None) -> Session:
        assert connection is not None, "_open() first"
        return connection

    def _end(self, session: Session | None) -> None:
        if session is not None:
            session.close()
