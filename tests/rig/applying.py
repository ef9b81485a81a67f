"""The apply of a pair in a thread of the test's process."""

import threading
from contextlib import AbstractContextManager
from typing import Protocol, Self

from sluice.apply.apply_loop import ApplyLoop
from sluice.coordination import redis_store
from sluice.executor import Executor
from sluice.pair import Pair
from tests.waiting import DEADLINE_SECONDS


class Applied(Protocol):
    """A rig that has a pair."""

    pair: Pair
    redis_url: str
    failure: BaseException | None
    raised: BaseException | None


class Applying(AbstractContextManager["Applying"]):
    """An apply in a thread. Its error is raised by an await of the rig, else on leaving."""

    def __init__(self, rig: Applied, executor: Executor):
        self.rig = rig
        self.stop = threading.Event()
        self.loop = ApplyLoop(rig.pair, redis_store.connect(rig.redis_url), executor, self.stop)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.rig.failure = None
        self.thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop.set()
        self.thread.join(timeout=DEADLINE_SECONDS)
        assert not self.thread.is_alive(), "the apply did not stop"
        if error is None and self.failure is not None and self.failure is not self.rig.raised:
            raise self.failure

    @property
    def in_normal_mode(self) -> bool:
        """Whether it has claimed the slave and left safe mode."""
        checkpoint = self.loop.checkpoint
        told = checkpoint is not None and self.loop.report.status.read().get("epoch") == checkpoint.epoch
        return told and not self.loop.mode.on

    def _run(self) -> None:
        try:
            self.loop.run()
        except BaseException as error:
            self.failure = self.rig.failure = error
