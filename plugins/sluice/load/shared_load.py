"""A loader for several slaves: reads each block once, and each slave stores the rows independently.

Only the reading is shared. Each slave has its own BLOCKS, with the protocol of `sluice.model.blocks`: "begun" is
committed there before the snapshot is taken; rows, marker and "stored" are committed together. So a slave that fails,
or is much slower than the others, is left out: its block is planned again, and a separate load loads the rest. The
same holds for a block that only one slave has planned, for rows that a slave needs in another format, and for blocks
that must wait for an apply.

One slave leads: its BLOCKS decide what is read next. Blocks of the others are begun before other loaders see those of
the leader, so that all slaves have the same bounds of blocks.
"""

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from sluice.database.placed import vendor_at
from sluice.database.rows import BlockRead, RowStream
from sluice.errors import Transient
from sluice.load.load_ownership import expect_loading
from sluice.load.loader import BlockWriter, Loader
from sluice.load.update import Update
from sluice.load.worker import BlockOvertaken, LoadReport, SlaveNotReady
from sluice.model.blocks import Block, Key
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape

log = logging.getLogger("sluice.load")

SLOW_SECONDS = 5.0
"""How long the others wait for a slave before it is left out: at a time, or in total and half of the time."""
PIECES_AHEAD = 16
"""How many pieces a slave may be behind before the others wait for it."""


class OtherFormat(Transient):
    """A slave needs the rows in another format than the leading one."""

    def __init__(self, table: TableName):
        super().__init__(f"rows of {table} have to be read otherwise for this slave")


def shared_worker(
    updates: Sequence[Update],
    loader: str,
    stopped: Callable[[], bool] = lambda: False,
    slow_seconds: float = SLOW_SECONDS,
) -> LoadReport:
    """Loads the blocks that the first of `updates` has planned, for all of them; see `sluice.load.loader.load_worker`.

    Ends when nothing is left that the first slave can store without its apply. Raises as the first slave's loader;
    failures of the other slaves are not raised.
    """
    followers = [Follower(update, loader, stopped) for update in updates[1:]]
    return SharedLoader(updates[0], followers, loader, stopped, slow_seconds).run()


@dataclass(frozen=True)
class _Head:
    """The definition and format in which a block is read."""

    shape: TableShape
    writer: BlockWriter


@dataclass(frozen=True)
class _End:
    """Follows the last piece of a block."""

    marker: Position
    bytes: int


class _GivenUp(Transient):
    """The block is not read to its end."""


@dataclass
class Share:
    """One block for one slave."""

    planned: Block
    """The block before the leading slave's loader set its end."""
    hi: Key | None
    answered: threading.Event = field(default_factory=threading.Event)
    accepted: bool = False
    """Whether the slave has begun the block."""
    ended: bool = False
    """Whether all rows were passed on."""
    given_up: threading.Event = field(default_factory=threading.Event)
    parts: "queue.Queue[_Head | bytes | _End]" = field(default_factory=lambda: queue.Queue(PIECES_AHEAD))
    end: _End | None = None
    """Set once `rows` has given all pieces."""

    def answer(self, accepted: bool) -> None:
        """Only the first answer counts."""
        if not self.answered.is_set():
            self.accepted = accepted
            self.answered.set()

    def put(self, part: "_Head | bytes | _End", seconds: float) -> bool:
        """Passes a part on, unless the block is given up. False if the slave did not take it within `seconds`."""
        if self.given_up.is_set():
            return True
        try:
            self.parts.put(part, timeout=seconds)
        except queue.Full:
            return False
        return True

    def get(self) -> "_Head | bytes | _End":
        """The next part. Raises `_GivenUp`."""
        while True:
            with suppress(queue.Empty):
                return self.parts.get(timeout=0.2)
            if self.given_up.is_set():
                raise _GivenUp(f"block {self.planned.number} of {self.planned.table} is read no further")

    def rows(self) -> Iterator[bytes]:
        """The pieces. Raises `_GivenUp`."""
        while not isinstance(part := self.get(), _End):
            assert isinstance(part, bytes)
            yield part
        self.end = part


class Follower(Loader):
    """Stores, in a separate thread, what the leading slave's loader reads."""

    def __init__(self, update: Update, loader: str, stopped: Callable[[], bool]):
        super().__init__(update, loader, stopped)
        self.left: str = ""
        """Why the slave was left out; empty while it was not."""
        self._shares: queue.SimpleQueue[Share | None] = queue.SimpleQueue()
        self._other_format: set[TableName] = set()
        """Tables whose rows it needs in another format."""
        self.waited = 0.0
        """Seconds that the others waited for it."""
        self.thread = threading.Thread(target=self._serve, name=f"load {update.slave.name}", daemon=True)

    def offer(self, share: Share) -> None:
        """Queues a block, which is answered and stored after the one before."""
        self._shares.put(share)

    def leave(self, why: str) -> None:
        """Leaves the slave out from now on."""
        if not self.left:
            self.left = why
            log.warning("%s: a separate load loads the rest: %s", self.update, why)
            self._shares.put(None)

    def end(self) -> None:
        """Ends the blocks: none follows."""
        self._shares.put(None)

    def _serve(self) -> None:
        try:
            while (share := self._shares.get()) is not None and not self.left:
                self._serve_one(share)
        finally:
            self.close()

    def _serve_one(self, share: Share) -> None:
        try:
            self._release_block()
            self._open()
            accepted = self._begin_share(share)
            share.answer(accepted)
            if accepted:
                self._holds_block = True
                self._store_share(share)
                self._holds_block = False
        except (SlaveNotReady, BlockOvertaken, OtherFormat, _GivenUp) as reason:
            log.info("%s: %s", self.update, reason)
            self._give_back()
        except Exception as reason:
            # Any failure is this slave's alone; its own load raises it again.
            self.leave(str(reason) or type(reason).__name__)
            self._give_back()
        finally:
            share.answer(False)
            share.given_up.set()

    def _begin_share(self, share: Share) -> bool:
        """Begins the block; False if the slave has not planned it."""
        planned = share.planned
        if planned.table in self._other_format:
            return False
        control = self._linked(self._control)
        with control.transaction():
            self._expect_job(control)
            expect_loading(self.update, control)
            store = self._blocks(control)
            ends = (planned.hi, share.hi)
            own = next((one for one in store.planned(planned.table) if one.lo == planned.lo and one.hi in ends), None)
            if own is None or not store.begin(own, share.hi, self.loader):
                return False
        self._block = Block(own.table, own.number, own.lo, share.hi)
        return True

    def _store_share(self, share: Share) -> None:
        block, slave = self._block, self._linked(self._slave)
        rows_of_slave = vendor_at(self.update).rows
        head = share.get()
        assert isinstance(head, _Head)
        with self._fitting(block.table), slave.transaction():
            target = rows_of_slave.shape(slave, block.table)
            if target is None:
                raise SlaveNotReady(block.table, f"{block.table} does not exist on the slave")
            master = self._linked(self._master)
            writer = BlockWriter.fitting(self.update, self._transforms, master, slave, head.shape, target)
            if not writer.reads_as(head.writer):
                self._other_format.add(block.table)
                raise OtherFormat(block.table)
            if self.update.slave.existing_tables == "keep":
                self._clear(slave, target, block)
            rows = writer.write(slave, share.rows())
            end = share.end
            assert end is not None, "the last piece was taken"
            if not self._blocks(slave).store(block, self.loader, end.marker, rows, end.bytes):
                raise BlockOvertaken(f"block {block.number} of {block.table} was taken away while it was read")


class SharedLoader(Loader):
    """Loads the leading slave, and passes its blocks on to the others."""

    def __init__(
        self,
        update: Update,
        followers: Sequence[Follower],
        loader: str,
        stopped: Callable[[], bool],
        slow_seconds: float,
    ):
        super().__init__(update, loader, stopped)
        self.followers = followers
        self.slow_seconds = slow_seconds
        self._shares: list[tuple[Follower, Share]] = []
        """The shares of the present block."""
        self._unready: set[TableName] = set()
        self._started = time.monotonic()
        for follower in followers:
            follower.thread.start()

    def run(self, turn_seconds: float = math.inf) -> LoadReport:
        """As there; then waits until the others have stored what they got, and ends their sessions."""
        try:
            return super().run(turn_seconds)
        finally:
            self._give_up_shares()
            for follower in self.followers:
                follower.end()
            for follower in self.followers:
                if not follower.left:
                    follower.thread.join(self.slow_seconds)

    # -- the protocol

    def _begun(self, planned: Block, hi: Key | None) -> None:
        shares = [(one, Share(planned, hi)) for one in self.followers if not one.left]
        for follower, share in shares:
            follower.offer(share)
        for follower, share in shares:
            self._wait(follower, share, share.answered.wait)
        self._shares = [pair for pair in shares if pair[1].accepted and not pair[1].given_up.is_set()]

    def _transfer(self, block: Block) -> None:
        try:
            super()._transfer(block)
        finally:
            self._give_up_shares()

    def _passing(self, stream: RowStream, read: BlockRead, writer: BlockWriter) -> Iterable[bytes | memoryview]:
        self._pass_on(_Head(read.shape, writer))
        for piece in stream:
            if piece:
                self._pass_on(bytes(piece))
            yield piece

    def _passed(self, marker: Position, size: int) -> None:
        self._pass_on(_End(marker, size))
        for _, share in self._shares:
            share.ended = True

    def _give_back(self) -> None:
        self._give_up_shares()
        super()._give_back()

    def _give_up_shares(self) -> None:
        """Gives up blocks that were not passed on to their end; they are planned again."""
        for _, share in self._shares:
            if not share.ended:
                share.given_up.set()
        self._shares = []

    def _pass_on(self, part: _Head | bytes | _End) -> None:
        for follower, share in self._shares:
            self._wait(follower, share, partial(share.put, part))
        self._shares = [pair for pair in self._shares if not pair[1].given_up.is_set()]

    def _wait(self, follower: Follower, share: Share, done: Callable[[float], bool]) -> None:
        """Waits until `done`, which gets the seconds it may take, returns True. Leaves out a slave that is too slow."""
        began = time.monotonic()
        in_time = False
        while not in_time and not follower.left and time.monotonic() - began < self.slow_seconds:
            in_time = done(min(0.5, self.slow_seconds))
        now = time.monotonic()
        follower.waited += now - began
        if not in_time:
            follower.leave(f"it took nothing for {self.slow_seconds:g} s")
        elif follower.waited > max(self.slow_seconds, (now - self._started) / 2):
            follower.leave(f"the others had waited for it for {follower.waited:.1f} s")
        if follower.left:
            share.given_up.set()

    # -- blocks that must wait for an apply are left to the slave's own load

    def _finished(self) -> bool:
        progress = self._blocks(self._linked(self._control)).progress()
        return not any(one.begun or (one.planned and one.table not in self._unready) for one in progress)

    def _backoff_over(self) -> list[TableName]:
        return [*super()._backoff_over(), *self._unready]

    def _rest(self, reason: SlaveNotReady) -> None:
        self._expect_own_snapshot(reason)
        log.info("%s: %s", self.update, reason)
        self._unready.add(reason.table)
