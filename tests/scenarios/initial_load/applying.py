"""The real apply of a pair, in a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from initial_load.loaders import Background
from initial_load.pair import Pair
from sluice.apply.apply_loop import ApplyLoop
from sluice.apply.executor import ThreadExecutor
from sluice.load.update import Update
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair as Ends
from sluice.vendors.postgres.source import position
from tests.waiting import until


class Applying:
    """An apply that runs inside a `with`; `failure` is what ended it."""

    def __init__(self, pair: Ends, store: redis.Redis):
        self._stop = threading.Event()
        self._loop = ApplyLoop(pair, store, ThreadExecutor(2), self._stop)
        self._thread: Background | None = None

    @property
    def failure(self) -> BaseException | None:
        return self._thread.failure if self._thread else None

    def __enter__(self) -> "Applying":
        self._thread = Background(self._loop.run)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.end(30)


@contextmanager
def applying(pair: Pair) -> Iterator[Applying]:
    """Raises what ended the apply."""
    connections = {"m": pair.master_info, "s": pair.slave_info}
    with Applying(Ends.of(pair.replication, pair.name, connections), pair.store) as running:
        yield running
    if running.failure:
        raise running.failure


def await_current(pair: Pair, running: Applying) -> None:
    """Returns when all is applied that the master has committed by now."""
    now = position.take(pair.master, pair.replication.prefix, pair.replication.master.schema)

    def current() -> bool:
        if running.failure:
            raise running.failure
        found = pair.checkpoint().read()
        return bool(found and found.position and found.position.covers_all_of(now))

    until(current)


def normal(pair: Pair, running: Applying) -> bool:
    """Whether the slave is NORMAL. Raises what ended the apply."""
    if running.failure:
        raise running.failure
    return pair.state() is SlaveState.NORMAL


def load(pair: Pair, update: Update, running: Applying) -> None:
    """Loads, and awaits NORMAL."""
    pair.load(update, 2)
    until(lambda: normal(pair, running))
