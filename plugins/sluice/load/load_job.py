"""A load job: the loaders of one slave, kept apart from those of any other job.

    with LoadJob(update) as job:
        loaders named job.loader(1), job.loader(2), … run somewhere
        job.tick() every second or so, from the thread that made the job

Two jobs never run together: the session that holds the lock lives as long as the job. Loaders claim
blocks only while their job lives. What was begun is planned again when a job ends, and when the next
one starts after a job that died; a loader that outlived its job can no longer store what it read.
"""

import logging
import time
import uuid
from dataclasses import dataclass
from types import TracebackType

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.throttle import ThrottleStore
from sluice.counted import counted
from sluice.database.control import LoadRuns
from sluice.database.placed import vendor_at
from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.load.load_ownership import expect_loading
from sluice.load.update import LoadTarget

log = logging.getLogger("sluice.load")

LOCK_WAIT_SECONDS = 20.0
"""How long a job waits for a predecessor whose session has still to end."""


@dataclass(frozen=True)
class Left:
    """What is still to do."""

    planned: int
    begun: int
    exported: int
    """In a file, and not on the slave yet."""

    @property
    def nothing(self) -> bool:
        return self.planned == self.begun == self.exported == 0


class LoadJob:
    """See above. Entering raises `LoadRuns`, `LoadEnded`, and errors of the connection."""

    def __init__(self, update: LoadTarget, name: str | None = None):
        """`name`: of the job that this one belongs to, on another slave."""
        self.update = update
        self.name = name or f"{update.update_id}/{uuid.uuid4().hex[:8]}"
        self._slave: Session | None = None

    def loader(self, number: int) -> str:
        """What one of this job's loaders is called, however often it is started."""
        return f"{self.name}/{number}"

    def __enter__(self) -> "LoadJob":
        try:
            self._slave = self.update.connect_slave(f"sluice load job {self.update.prefix} {self.update.slave.name}")
            self._lock(self._slave)
            locks = vendor_at(self.update).load_locks
            locks.hold(self._slave, self.name)
            ended = locks.end_sessions(self._slave, self.update.loader_application)
            if ended:
                log.info("%s: ended %s of loaders that a former job left", self.update, counted(ended, "session"))
            self._give_all_back()
            self.tick()
            self._unthrottled()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._slave is not None
        try:
            locks = vendor_at(self.update).load_locks
            locks.let_go(self._slave, self.name)
            self._give_all_back()
        except SluiceError as failure:
            log.warning("%s: %s Blocks in hand are given back by the next job.", self.update, failure)
        self._close()

    def _unthrottled(self) -> None:
        """What a dead predecessor was held to is forgotten."""
        assert self._slave is not None
        with self._slave.transaction():
            # A load that an earlier release began has no THROTTLE yet.
            CheckpointStore.of(self.update, self._slave).ensure()
            ThrottleStore.of(self.update, self._slave).clear()

    def _give_all_back(self) -> None:
        """Every begun block is planned again, and stays so: no loader of another job, or of this one once it ended,
        can claim any more."""
        locks = vendor_at(self.update).load_locks
        assert self._slave is not None
        with self._slave.transaction():
            locks.no_claims(self._slave, self.update.prefix, self.update.slave.name)
            given_back = self._store().release()
        if given_back:
            log.info("%s: planned again because they were being read: %s", self.update, counted(given_back, "block"))

    def tick(self) -> Left:
        """What is left to do. Raises `LoadEnded` when the update is over, `Transient` when this job is cut off."""
        assert self._slave is not None
        expect_loading(self.update, self._slave)
        return Left(*self._store().left())

    def _lock(self, slave: Session) -> None:
        locks = vendor_at(self.update).load_locks
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            try:
                locks.lock(slave, self.update.prefix, self.update.slave.name)
                return
            except LoadRuns:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.25)

    def _store(self) -> BlockStore:
        assert self._slave is not None
        return BlockStore.of(self.update, self._slave)

    def _close(self) -> None:
        if self._slave is not None:
            self._slave.close()
            self._slave = None
