"""Loads the blocks of an initial update: `python -m spark_jobs.load`, with its input on stdin (see `spark_jobs.job`).

Further keys of the input: `update_id`, the id of the initial update, which must have reached TRANSITION; `choice`, the
choice of its form (see `sluice.load.selection`); for a transfer by files, `files`: `step` (`export`: blocks become
files, then the folder is completed; `import`: files become blocks), `folder`, `s3`, `key`; `others`: further slaves of
the same update.

Each loader runs Spark jobs of one task, one after another, each named after the block with which it begins. Loaders
share only BLOCKS on the slave. If one fails, the others are stopped; what they stored stays, and the next start
continues from there.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sluice import config
from sluice.backoff import Backoff
from sluice.coordination import redis_store
from sluice.counted import counted
from sluice.database.errors import LoginRefused
from sluice.errors import SluiceError, Terminal, Transient
from sluice.executor import Executor, ExecutorsFailed
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.load_snapshot import LoadSnapshot
from sluice.load.loader import load_worker
from sluice.load.progress import estimates, next_block, progress
from sluice.load.selection import Selection
from sluice.load.shared_load import shared_worker
from sluice.load.throttle import Throttle
from sluice.load.throttle_rules import load_message
from sluice.load.transfer import encryption, transfer_steps
from sluice.load.transfer.exporter import export_worker
from sluice.load.transfer.importer import import_worker
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.load.update import Update
from sluice.load.worker import LoadReport
from sluice.model.location import Location, S3Access
from sluice.model.manifest import Manifest
from sluice.model.slave_state import SlaveState
from sluice.model.throttle_state import ThrottleState
from sluice.pair import ConnectionsOutdated, Pair
from spark_jobs.job import JobInput, main
from spark_jobs.session import SparkExecutor

log = logging.getLogger("sluice.load")

TICK_SECONDS = 1.0
PROGRESS_SECONDS = 5.0
STEADY_SECONDS = 60.0
"""After so many seconds without an error, the back-off of a load starts from the beginning."""
TURN_SECONDS = 15.0
"""The seconds of a loader's job: then its executor is free for others, and the next name shows the progress."""
LONGEST_BACKOFF_SECONDS = 16.0
"""With a longer pause the job ends; the task that started it decides whether to start it again."""

Worker = Callable[[str, Callable[[], bool]], LoadReport]
"""Runs a loader with the given name until it is stopped. It is sent to an executor with everything it needs."""


@dataclass(frozen=True)
class Work:
    """The work of a job's loaders."""

    worker: Worker
    throttle: Callable[[int], Throttle]
    """Makes the throttle for a number of loaders."""
    verb: str = "load"
    """`load`, `export`, or `import`, whose loaders read files instead of the master."""


class LoadStopped(Transient):
    """The job was told to stop."""


def run(job: JobInput, stop: threading.Event) -> None:
    update_id = job.extra.get("update_id")
    if not update_id:
        raise Terminal(
            "The load job was given no update_id. Start it from the DAG initial_update.", code="update-id-missing"
        )
    pair = Pair.of(config.load(job.prefix), job.slave, job.connections)
    update = Update.named(pair, update_id, Selection.from_dict(job.extra.get("choice", {})))
    transfer_folder = _files(job.extra.get("files"))
    if transfer_folder is None:
        work = stores(update, job.redis_url)
    elif job.extra["files"]["step"] == "import":
        work = _imports(update, job.redis_url, transfer_folder, transfer_folder.manifest())
    else:
        work = _exports(update, job.redis_url, transfer_folder)
    executor = SparkExecutor(f"sluice {pair}", job.endpoint)
    executor.begin()
    pairs = [Pair.of(update.replication, name, job.connections) for name in job.extra.get("others", [])]
    others = [Update.named(pair, update_id, update.selection) for pair in pairs]
    try:
        if others and transfer_folder is None:
            load_together([update, *others], executor, stop, job.redis_url)
            return
        load_through_outages(update, executor, stop, work)
        if transfer_folder is None:
            steps.arrive(update, redis_store.connect(job.redis_url))
        elif work.verb == "export":
            transfer_steps.seal(update, transfer_folder, others)
    except Terminal as error:
        _leave_word(update, str(error))
        raise
    finally:
        executor.stop()


def _files(values: dict[str, Any] | None) -> TransferFolder | None:
    """The folder in the input, if there is one."""
    if values is None:
        return None
    key = encryption.key_of(values["key"], "The connection of initial.files_key") if values["key"] else None
    return TransferFolder(Location.parse(values["folder"]), S3Access(**values["s3"]), key)


def stores(update: Update, redis_url: str | None = None) -> Work:
    """Online: blocks of the master go directly into the slave's tables."""
    return Work(
        lambda loader, stopped: load_worker(update, loader, stopped, TURN_SECONDS),
        partial(Throttle, update, redis_url=redis_url),
    )


def _shares(updates: Sequence[Update]) -> Worker:
    """In one job, because it is known only during the loader's life which slaves were too slow for the others."""
    return lambda loader, stopped: shared_worker(updates, loader, stopped)


def load_together(
    updates: Sequence[Update], executor: Executor, stop: threading.Event, redis_url: str | None = None
) -> None:
    """Reads the master once for all slaves of `updates`; each slave's own load brings what it lacks at the end.

    If a slave cannot lead, the next one does. Raises `LoadStopped`, and the error of the last one.
    """
    for index, first in enumerate(updates):
        others = updates[index + 1 :]
        try:
            load_through_outages(first, executor, stop, stores(first, redis_url), others=others)
            return
        except (LoadStopped, ConnectionsOutdated):
            raise
        except SluiceError as failure:
            if not others:
                raise
            log.warning("%s: %s The others continue; this slave has a load of its own afterwards.", first, failure)


def _join(stack: ExitStack, load: LoadJob, other: Update) -> bool:
    """Whether the slave of `other` is loaded by this job as well."""
    try:
        stack.enter_context(LoadJob(other, load.name))
    except SluiceError as failure:
        log.warning("%s: has a load of its own afterwards: %s", other, failure)
        return False
    return True


def _exports(update: Update, redis_url: str | None, transfer_folder: TransferFolder) -> Work:
    return Work(
        lambda loader, stopped: export_worker(update, loader, transfer_folder, stopped, TURN_SECONDS),
        partial(Throttle, update, redis_url=redis_url, stores=False),
        "export",
    )


def _imports(update: Update, redis_url: str | None, transfer_folder: TransferFolder, manifest: Manifest) -> Work:
    return Work(
        lambda loader, stopped: import_worker(update, loader, transfer_folder, manifest, stopped, TURN_SECONDS),
        partial(Throttle, update, redis_url=redis_url, reads_master=False),
        "import",
    )


def load_through_outages(
    update: Update,
    executor: Executor,
    stop: threading.Event,
    work: Work,
    *,
    others: Sequence[Update] = (),
) -> None:
    """Loads with the executors, and again after an outage of a database. `others`: slaves that get the same blocks as
    far as possible."""
    backoff, logged_in, word = Backoff(0.5, LONGEST_BACKOFF_SECONDS), False, _Word(update)
    while True:
        begun = time.monotonic()
        try:
            with ExitStack() as stack:
                load = stack.enter_context(LoadJob(update))
                joined = [update, *(other for other in others if _join(stack, load, other))]
                held = stack.enter_context(LoadSnapshot(update, reads=work.verb != "import"))
                stack.enter_context(work.throttle(update.options.parallel))
                logged_in = True
                shared = replace(work, worker=_shares(joined)) if others else work
                _load(load, held, executor, stop, shared, word)
            return
        except (LoadStopped, ConnectionsOutdated):
            raise
        except LoginRefused as refused:
            raise (ConnectionsOutdated(update, refused) if logged_in else refused) from None
        except Transient as outage:
            if time.monotonic() - begun > STEADY_SECONDS:
                backoff.reset()
            pause = backoff.next()
            if pause >= LONGEST_BACKOFF_SECONDS:
                raise
            log.warning("%s: %s Next try in %.2g s.", update, outage, pause)
            if isinstance(outage, ExecutorsFailed):
                word.leave(str(outage))
            if stop.wait(pause):
                raise LoadStopped(f"{update}: told to stop while waiting. {outage}") from outage


def _load(
    load: LoadJob, held: LoadSnapshot, executor: Executor, stop: threading.Event, work: Work, word: "_Word"
) -> None:
    """Runs the jobs of the loaders, calls `tick`, and reports the progress until all have ended."""
    update, ended = held.update, threading.Event()
    loaders = [_Loader(load, number, executor, ended, work.worker) for number in range(1, update.options.parallel + 1)]
    tables = [entry.table for entry in progress(update, expected={}).tables]
    expected = estimates(update, tables)

    def start(ready: Sequence[_Loader]) -> None:
        tables = progress(update, expected=expected).tables
        for ahead, loader in enumerate(ready):
            block = next_block(tables, ahead, update.options.block_rows, imports=work.verb == "import")
            loader.start(f"{work.verb} {block}".rstrip())

    began = reported_at = time.monotonic()
    try:
        start(loaders)
        log.info("%s: %s, %s", update, counted(len(loaders), "loader"), counted(len(tables), "table"))
        while not all(loader.done for loader in loaders):
            ended.wait(TICK_SECONDS)
            ended.clear()
            _expect_good(update, loaders)
            if ready := [loader for loader in loaders if loader.turn_over]:
                start(ready)
            if stop.is_set():
                raise LoadStopped(f"{update}: told to stop. What is stored stays; start the load again to continue.")
            load.tick()
            held.check()
            if time.monotonic() - reported_at >= PROGRESS_SECONDS:
                reported_at = time.monotonic()
                for line in progress(update, expected=expected).lines():
                    log.info("%s: %s", update, line)
                if executor.waits or any(loader.reports for loader in loaders):
                    word.leave(executor.waits)
        _expect_good(update, loaders)
        word.leave("")
    finally:
        for loader in loaders:
            loader.stopping = True
        if not all(loader.done for loader in loaders):
            executor.cancel()
            for loader in loaders:
                loader.join(10.0)
    reports = [report for loader in loaders for report in loader.reports]
    rows, seconds = sum(report.rows for report in reports), time.monotonic() - began
    log.info(
        "%s: loaded: %s in %s, %.1f MB, %.1f s, %.0f rows/s",
        update, counted(rows, "row"), counted(sum(report.blocks for report in reports), "block"),
        sum(report.bytes for report in reports) / 1e6,
        seconds, rows / max(seconds, 0.001),
    )  # fmt: skip


def _expect_good(update: Update, loaders: "Sequence[_Loader]") -> None:
    """Raises the failure of a loader. A refused login is `ConnectionsOutdated` if executors were let in before."""
    for loader in loaders:
        if isinstance(loader.failure, LoginRefused):
            let_in = any(each.reports for each in loaders)
            raise (
                ConnectionsOutdated(update, loader.failure)
                if let_in
                else Terminal(str(loader.failure), code="load-failed")
            )
        if loader.failure is not None:
            raise loader.failure


class _Loader:
    """One loader: threads of the driver, one after another, each of which waits for a Spark job."""

    def __init__(self, load: LoadJob, number: int, executor: Executor, ended: threading.Event, worker: Worker):
        self.load = load
        self.task = _task(worker, load.loader(number), executor.stopped)
        self.number = number
        self.executor = executor
        self.ended = ended
        self.reports: list[LoadReport] = []
        """The results of its jobs."""
        self.failure: SluiceError | None = None
        self.turn_over = False
        """Whether it has to be started again."""
        self.done = False
        """Set before `ended`: the thread itself lives a moment longer."""
        self.stopping = False
        """Its task will be canceled, which is not a failure."""
        self._thread: threading.Thread | None = None

    def start(self, what: str) -> None:
        """Runs a job; `what`: its name."""
        self.turn_over = False
        self._thread = threading.Thread(target=self._run, args=(what,), name=f"loader {self.number}", daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Waits at most so many seconds for the end of its job."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, what: str) -> None:
        over = True
        try:
            kind, outcome = self.executor.map(self.task, 1, what)[0]
            if kind == "loaded":
                self.reports.append(outcome)
                over = outcome.over
            else:
                self.failure = FAILURES[kind](outcome)
        except Exception as failure:  # unexpected, or Spark lost the task repeatedly
            if not self.stopping:
                # An error with its own reason and remedy needs no traceback.
                trace = None if isinstance(failure, SluiceError) else failure
                log.warning("%s: loader %s failed: %s", self.load.update, self.number, failure, exc_info=trace)
                reason = str(failure).strip().split("\n", 1)[0] or type(failure).__name__
                failed = ExecutorsFailed if isinstance(failure, ExecutorsFailed) else Transient
                self.failure = failed(f"{self.load.update}: loader {self.number} failed: {reason}")
        finally:
            self.done, self.turn_over = over, not over
            self.ended.set()


FAILURES: Mapping[str, type[SluiceError]] = {
    "refused": LoginRefused,
    "terminal": Terminal,
    "transient": Transient,
}
"""By the kind of outcome with which a loader's task comes back."""


def _task(worker: Worker, loader: str, stopped: Callable[[], bool]) -> Callable[[int], tuple[str, Any]]:
    """The function that an executor runs, with everything it needs in the closure, passwords included. Errors are
    returned as values, so that their type and text are preserved."""

    def task(_: int) -> tuple[str, Any]:
        try:
            return "loaded", worker(loader, stopped)
        except LoginRefused as error:
            return "refused", str(error)
        except Terminal as error:
            return "terminal", str(error)
        except SluiceError as error:
            return "transient", str(error)

    return task


class _Word:
    """What a load waits for, told on the slave, from where pages and the status read it."""

    def __init__(self, update: Update):
        self._update = update
        self._left = ""

    def leave(self, why: str) -> None:
        """Empty if it does not wait any more."""
        if why != self._left:
            if why:
                log.warning("%s: the load waits: %s", self._update, why)
            self._left = why
            _leave_word(self._update, load_message(self._update.update_id, ThrottleState(bool(why), why)))


def _leave_word(update: Update, message: str) -> None:
    try:
        if progress(update, expected={}).state is SlaveState.TRANSITION:
            steps.note(update, message)
    except SluiceError as error:
        log.warning("%s: could not leave word on the slave: %s", update, error)


if __name__ == "__main__":
    sys.exit(main(run))
