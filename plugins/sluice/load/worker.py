"""What works on the blocks of an initial update: claims one after another, and gives the one in hand back on trouble.

Any number work side by side, in threads, Spark tasks or processes; BLOCKS on the slave is all they share. What is
claimed, and what becomes of it, is a loader's, an exporter's or an importer's.
"""

import logging
import math
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from sluice.control.blocks import BlockStore
from sluice.control.throttle import ThrottleStore
from sluice.database.errors import (
    DatatypeMismatch,
    ForeignKeyViolation,
    NotNullViolation,
    UndefinedTable,
    UniqueViolation,
)
from sluice.database.placed import vendor_at
from sluice.database.session import Session
from sluice.errors import SluiceError, Transient
from sluice.load.load_ownership import expect_loading
from sluice.load.update import LoadTarget
from sluice.model.blocks import Block
from sluice.model.names import TableName
from sluice.model.throttle_state import ThrottleState

log = logging.getLogger("sluice.load")

WAIT_SECONDS = 180.0
"""How long a worker goes on through outages that leave it nothing to do."""
BEAT_SECONDS = 1.0
"""How often a worker that copies looks whether the block is still its own."""
REST_SECONDS = 1.0
"""How long a table is left alone when a block of it did not fit yet."""
THROTTLED_SECONDS = 0.1
"""How often a worker that the throttle holds back looks whether it may go on."""
SLAVE_NOT_READY = (UniqueViolation, ForeignKeyViolation, NotNullViolation, UndefinedTable, DatatypeMismatch)
"""Errors of the slave that the apply may yet mend. Unique values and references: blocks are read at
different positions, so a value that moved from one row to another may be there twice until the apply
has passed both markers. Columns: DDL that the block has seen and the slave has not."""


class BlockOvertaken(Transient):
    """The block is not this worker's any more: it was cancelled, or given to another one."""


class JobOver(Transient):
    """The worker outlived its job, which ended or died; another job goes on with the blocks."""


class SlaveNotReady(Transient):
    """The slave cannot take the block yet: the apply has to bring it further first."""

    def __init__(self, table: TableName, reason: str):
        super().__init__(f"{table} waits for the apply to catch up: {reason}")
        self.table = table


@dataclass
class LoadReport:
    """What a worker did."""

    blocks: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    over: bool = True
    """Whether it ended because nothing was left, or it was told to stop; else its turn was over."""


class Pieces:
    """Rows on their way, in pieces that are cut anywhere. `bytes`: of those that have passed.

    `beat` is called for each, and may raise to stop.
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
    """The course of the work and the sessions on the slave: `control` for BLOCKS, another one for what is stored.

    `loader`: what the job calls it (see `sluice.load.load_job`). Spark may start the work of one name again while its
    first start is not surely dead: each start adds something of its own, and gives back what earlier ones had in hand.
    """

    work: ClassVar[str] = "load"
    """What the job is called in messages."""
    _durable: ClassVar[bool] = True
    """Whether the commits of its sessions wait for the slave's disk, where the slave does not say otherwise."""
    turn_seconds: float = math.inf
    """How long it goes on before another start of the same name follows, which may be somewhere else."""

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
        """Whether a block may still be begun by this worker, or an earlier start of it, that it does not work on."""
        self._throttle_state = ThrottleState()
        """What the work is held to, as last seen."""

    def run(self) -> LoadReport:
        """Until no block is left, its turn is over, or `stopped` says so.

        A turn ends after a block, and never while a table waits for the slave: since when, this start alone knows.
        """
        started, backoff = time.monotonic(), 0.0
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
                    if self._fine_at - started >= self.turn_seconds and not self._resting:
                        self.report.over = False
                        break
                elif self._finished():
                    break
                else:
                    self._idle()
                backoff = 0.0
            except SlaveNotReady as reason:
                self._give_back()
                self._rest(reason)
            except JobOver:
                raise
            except BlockOvertaken as reason:
                self._give_back()
                log.info("%s: %s", self.target, reason)
            except Transient as outage:
                self._give_back()
                if time.monotonic() - self._fine_at > WAIT_SECONDS:
                    raise
                backoff = min(max(2 * backoff, 0.1), 5.0)
                log.warning("%s: %s Next try in %.2g s.", self.target, outage, backoff)
                time.sleep(backoff)
            except BaseException:
                self._give_back()
                raise
        self.report.seconds = time.monotonic() - started
        return self.report

    def close(self) -> None:
        """Ends the sessions; never raises."""
        for link in (self._slave, self._control):
            self._end(link)
        self._slave = self._control = None

    @abstractmethod
    def _claim(self) -> Block | None:
        """A block that is begun by this worker, committed; None when none can be claimed now."""

    @abstractmethod
    def _transfer(self, block: Block) -> None:
        """Does with the begun block what is to be done, and says so in BLOCKS if it is still this worker's."""

    @abstractmethod
    def _finished(self) -> bool:
        """True when nothing is left to do for anyone: a block in another's hands may yet come back."""

    @abstractmethod
    def _idle(self) -> None:
        """Others have all blocks that are left, or these rest."""

    @abstractmethod
    def _rest(self, reason: SlaveNotReady) -> None:
        """Leaves a table alone for a moment."""

    # -- what all of them do

    def _throttled(self) -> bool:
        """Whether the throttle lets no block be begun now. No transaction is open while a worker waits for that."""
        control = self._linked(self._control)
        self._throttle_state = ThrottleStore.of(self.target, control).read()
        if self._throttle_state.holds:
            with control.transaction():
                self._expect_job(control)
                expect_loading(self.target, control)
        return self._throttle_state.holds

    def _backoff_over(self) -> list[TableName]:
        """Tables that are still left alone."""
        now = time.monotonic()
        return [table for table, until in self._resting.items() if until > now]

    def _expect_job(self, control: Session) -> None:
        """Raises `JobOver` when the job this worker works for has ended or died."""
        locks = vendor_at(self.target).load_locks
        if not locks.claiming(control, self.target.prefix, self.target.slave.name, self.loader.rpartition("/")[0]):
            raise JobOver(f"{self.target}: the {self.work} job of loader {self.loader} is over")

    def _beat(self, block: Block) -> Callable[[], None]:
        """Looks once a second whether the block is still ours, so that cancelled work ends within it."""
        last = time.monotonic()

        def beat() -> None:
            nonlocal last
            if time.monotonic() - last < BEAT_SECONDS:
                return
            last = time.monotonic()
            if self.stopped() or not self._blocks(self._linked(self._control)).is_mine(block, self.loader):
                raise BlockOvertaken(f"block {block.number} of {block.table} was taken away or the {self.work} stopped")

        return beat

    def _give_back(self) -> None:
        """Drops the sessions, which may be in the middle of anything, and puts the block in hand back."""
        self.close()
        self._holds_block = True
        try:
            self._release_block()
        except SluiceError as error:
            # It is tried again before the next claim; else the job that runs these workers, or its successor, does it.
            log.warning("%s: block not given back yet: %s", self.target, error)

    def _release_block(self) -> None:
        """Needs the slave alone: the master may be what has failed."""
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
        """A row that does not fit into the slave's `table` is `SlaveNotReady`."""
        try:
            yield
        except SLAVE_NOT_READY as error:
            if error.place == self.target.slave_info.place:
                raise SlaveNotReady(table, error.reason or str(error)) from error
            raise

    def _linked(self, connection: Session | None) -> Session:
        assert connection is not None, "_open() first"
        return connection

    def _end(self, link: Session | None) -> None:
        if link is not None:
            link.close()
