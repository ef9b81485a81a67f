"""A load under a throttle, whose limits are changed in the configuration file."""

import threading
from typing import Any

import yaml

from sluice.control.blocks import BlockStore
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.load.throttle import Throttle
from sluice.load.update import Update
from sluice.load.worker import LoadReport
from sluice.model.blocks import BlockState
from tests.rig.loaders import Worker, in_threads
from tests.rig.rig import Rig
from tests.waiting import until


def limit(pair: Rig, **limits: Any) -> None:
    """Rewrites `initial.throttle`."""
    source = pair.replication.source
    values = yaml.safe_load(source.read_text())
    values["initial"]["throttle"] = limits
    aside = source.with_suffix(".new")
    aside.write_text(yaml.safe_dump(values))
    aside.replace(source)


class Throttled(threading.Thread):
    """A load job with its throttle and two workers, all in threads."""

    def __init__(self, pair: Rig, update: Update, worker: Worker | None = None, **sides: bool):
        super().__init__(daemon=True)
        self.pair = pair
        self.update = update
        self.worker = worker or (lambda loader, stopped: load_worker(update, loader, stopped))
        self.sides = sides
        self.reports: list[LoadReport] = []
        self.failure: BaseException | None = None
        self.over = False
        self.start()

    def run(self) -> None:
        try:
            with LoadJob(self.update) as job, Throttle(self.update, 2, **self.sides):
                self.reports = in_threads(job, self.worker)
        except BaseException as failure:
            self.failure = failure
        finally:
            self.over = True

    # -- what a test asks

    def message(self) -> str:
        found = self.pair.checkpoints.read()
        return found.message if found else ""

    def await_message(self, part: str) -> None:
        until(lambda: part in self.message() or self.over)
        assert part in self.message(), self.failure or self.message()

    def done(self) -> int:
        """The number of stored or exported blocks."""
        found = BlockStore(self.pair.slave, self.update.prefix, "public", "dr1").map().tables.values()
        states = (BlockState.STORED, BlockState.EXPORTED)
        return sum(block.state in states for table in found for block in table.blocks)

    def await_more(self, than: int) -> None:
        until(lambda: self.done() > than or self.over)
        assert self.done() > than, self.failure or self.message()

    def assert_at_rest(self) -> None:
        """Checks that the load comes to rest: no new block begins, no worker has a transaction open on the master."""
        # A worker that asked before the pause began may still claim one block; only what comes after it counts.
        until(lambda: self.over or self._stays_at_rest())
        assert not self.over, self.failure or "the load continued to its end"

    def _stays_at_rest(self) -> bool:
        before = self.done()
        for _ in range(10):
            threading.Event().wait(0.05)
            begun = any(block.state is BlockState.BEGUN for block in self.pair.blocks())
            row = self.pair.master.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'sluice load %'"
                " AND datname = current_database() AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)"
            ).fetchone()
            if begun or row != (0,) or self.done() != before:
                return False
        return True

    def finish(self) -> None:
        """Waits for the end; raises the error of a thread."""
        self.join(60)
        assert self.over
        if self.failure:
            raise self.failure
