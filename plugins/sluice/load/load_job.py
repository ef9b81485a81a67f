"""A load job: the loaders of one slave. No two jobs of a slave run at the same time.

    with LoadJob(update) as job:
        loaders named job.loader(1), job.loader(2), … run somewhere
        job.tick() every second or so, from the thread that made the job

A session of the job has a lock as long as the job lives, and loaders claim blocks only then. Begun blocks are planned
again when a job ends, or when the next one starts after a killed job; a loader that lives longer than its job can store
nothing.
"""

import logging
import time
import uuid
from dataclasses import dataclass

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.own_tables import ThrottleStore
from sluice.counted import counted
from sluice.database.control import LoadRuns
from sluice.database.placed import vendor_at
from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.load.load_ownership import expect_loading
from sluice.load.update import LoadTarget

log = logging.getLogger("sluice.load")

LOCK_WAIT_SECONDS = 20.0
"""How long a job waits for the session of a former job to end."""


@dataclass(frozen=True)
class Left:
    """How many blocks are not stored yet, by state."""

    planned: int
    begun: int
    exported: int

    @property
    def nothing(self) -> bool:
        return self.planned == self.begun == self.exported == 0


class LoadJob:
    """A context. Entering raises `LoadRuns`, `LoadEnded`, and errors of the session."""

    def __init__(self, update: LoadTarget, name: str | None = None):
        """`name`: of the job that this one belongs to, on another slave."""
        self.update = update
        self.name = name or f"{update.update_id}/{uuid.uuid4().hex[:8]}"
        self._slave: Session | None = None

    def loader(self, number: int) -> str:
        """The name of one of this job's loaders, the same for each start of it."""
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
            self._release_blocks()
            self.tick()
            self._clear_throttle()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._slave is not None
        try:
            locks = vendor_at(self.update).load_locks
            locks.let_go(self._slave, self.name)
            self._release_blocks()
        except SluiceError as failure:
            log.warning("%s: %s Begun blocks are given back by the next job.", self.update, failure)
        self._close()

    def _clear_throttle(self) -> None:
        """Removes the limits of a former job."""
        assert self._slave is not None
        with self._slave.transaction():
            # A load that an earlier release of Sluice began has no THROTTLE yet.
            CheckpointStore.of(self.update, self._slave).ensure()
            ThrottleStore.of(self.update, self._slave).clear()

    def _release_blocks(self) -> None:
        """Plans every begun block again. No loader of another job, or of this one when it has ended, can claim."""
        locks = vendor_at(self.update).load_locks
        assert self._slave is not None
        with self._slave.transaction():
            locks.no_claims(self._slave, self.update.prefix, self.update.slave.name)
            released = self._store().release()
        if released:
            log.info("%s: planned again because they were being read: %s", self.update, counted(released, "block"))

    def tick(self) -> Left:
        """The remaining work. Raises `LoadEnded` when the update is over, `Transient` when the session is lost."""
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
