"""Captures a master from its redo logs: runs one OpenLogReplicator for each redo thread, and merges their output. A
master whose own log is recorded has the same supervisor (`sluice.redo.recording`).

One supervisor leads, by a lease in Redis; any number stand by, and take over when it is gone. The programs end with the
supervisor, for any reason. Each leader has an epoch: what an earlier one still stores is refused, and what it
still writes is not read (docs/redo.md).
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import redis

import sluice
from sluice.configuration.model import Replication
from sluice.configuration.redo import RedoOptions
from sluice.coordination.lease import Lease, LeaseHeld, LeaseLost
from sluice.coordination.redis_store import StoreUnreachable
from sluice.coordination.redo_state import RedoState, RedoStatus, Superseded
from sluice.database.redo_files import ArchivedLogs
from sluice.database.registry import recorded_source
from sluice.errors import SluiceError, Terminal, Transient
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Naming, TableName
from sluice.model.vendors import BINLOG, REDO, STREAM
from sluice.redo import checkpoints, redo_thread, supplemental_logging, unread_tables
from sluice.redo.checkpoints import Values
from sluice.redo.keeper import HEALTHY_SECONDS, Keeper, MergedStream, StreamContent, pause
from sluice.redo.program import Program
from sluice.redo.recording import Recording
from sluice.redo.redo_thread import RedoThread
from sluice.redo.stager import Archive, archive_of, stager_of
from sluice.redo.unread_redo import Stretch, UnreadRedo

log = logging.getLogger("sluice.redo")

LOOK_SECONDS = 0.2
STATUS_SECONDS = 1.0
STAGE_SECONDS, STAGE_RETRY_SECONDS = 1.0, 5.0
MERGE_GRACE_SECONDS = 12.0
WATCH_SECONDS = 30.0
"""Seconds between two queries of the master's archived logs, and between two searches for logs of other threads."""


class NotRedo(Terminal):
    """The replication is not captured by redo or by a binary log."""

    def __init__(self, replication: Replication):
        super().__init__(
            f"{replication.source}: the master of {replication.prefix} is not captured from redo logs or a binary log. "
            "Set capture: redo or binlog, or leave this command."
        )


class Supervisor:
    """The supervisor of one replication. `run` returns when `stop` is set."""

    def __init__(
        self,
        replication: Replication,
        client: "redis.Redis",
        archived: Callable[[], ArchivedLogs] | None = None,
        *,
        database: ConnectionInfo | None = None,
        watch_seconds: float = WATCH_SECONDS,
    ):
        """`archived`: queries the master for its archived logs regularly; None: there is no connection. `database`:
        the master whose own log is recorded. Raises `NotRedo`."""
        if replication.master.capture not in (REDO, BINLOG):
            raise NotRedo(replication)
        self.replication, self.database = replication, database
        self.location = Path(replication.master.location)
        self._lease = (replication.redo or replication.apply).lease
        self.state = RedoState(client, replication.prefix)
        self.archived, self.watch_seconds = archived, watch_seconds

    def run(self, stop: threading.Event) -> None:
        """Raises `Terminal`."""
        announced = False
        while not stop.is_set():
            lease = self.state.lease(self._lease)
            try:
                lease.acquire()
                epoch = self.state.next_epoch()
            except LeaseHeld as refused:
                if not announced:
                    log.info("%s: %s captures; this process stands by", self.replication.prefix, refused.holder)
                announced = True
                stop.wait(self._lease / 4)
                continue
            except StoreUnreachable as away:
                log.warning("%s: %s", self.replication.prefix, away)
                lease.release()
                stop.wait(min(5.0, self._lease))
                continue
            announced = False
            try:
                self._leading(lease, epoch).run(stop)
            except (LeaseLost, Superseded) as lost:
                log.warning("%s: the capture goes to another process. %s", self.replication.prefix, lost)
            except StoreUnreachable as away:
                log.warning("%s: %s", self.replication.prefix, away)
            finally:
                lease.release()

    def _leading(self, lease: Lease, epoch: int) -> "Recording | _Leading":
        if self.replication.redo is not None:
            return _Leading(self, self.replication.redo, lease, epoch)
        assert self.database is not None, "the master's own log is recorded"
        return Recording(self.replication, self.database, self.state, lease, epoch)


class _Leading:
    """The work between taking the lease and losing it."""

    def __init__(self, supervisor: Supervisor, options: RedoOptions, lease: Lease, epoch: int):
        self.supervisor, self.lease, self.epoch = supervisor, lease, epoch
        self.prefix, self.options, self.state = supervisor.replication.prefix, options, supervisor.state
        location = supervisor.location
        self.threads, self.stream = location / "threads", location / STREAM
        self.logs = Path(self.options.logs or location / "logs")
        self._seed = checkpoints.read_seed(Path(self.options.schema))
        self._resetlogs, self._begins = int(self._seed["resetlogs"]), int(self._seed["scn"])
        self._naming = Naming(self.options.exact_names)
        supplemental_logging.expect(self._seed, self._replicated, self._naming)
        unread_tables.expect(self._seed, self._replicated, self._naming)
        self._merged = MergedStream(recorded_source().receiver, _content_of(self.stream), self._complete_from)
        self._stop = threading.Event()
        self.keepers: list[Keeper] = []
        self._beside = [threading.Thread(target=self._watch_for_threads, name="look around")]
        if supervisor.archived is not None:
            self._beside.append(
                threading.Thread(target=self._watch_logs, args=(supervisor.archived,), name="watch logs")
            )
        for number in self._numbers():
            self._add(number)
        self._unread = UnreadRedo(self.threads, self._resetlogs, self._begins, every=self.options.every_thread)
        self._joining: set[int] = set()
        """Threads that were found, and are not read yet."""
        self._watch_error = self._threads_error = self._tables_error = ""
        self._tables: Values | None = None
        """The threads that were examined."""
        self._merge: Program | None = None
        self._merge_error = ""
        self._merge_started = self._merge_next = 0.0
        self._merge_deaths = 0
        self._reported_at = 0.0
        self._ddl: dict[RedoThread, int] = {}
        """For each thread, the DDL for which its program was restarted."""

    def _numbers(self) -> list[int]:
        """The threads that are read from the beginning; with `all`, those that were found before."""
        if not self.options.every_thread:
            return [int(number) for number in self.options.threads]
        return redo_thread.known(self.threads, self._resetlogs)

    def _add(self, number: int) -> Keeper:
        """A thread that is read."""
        thread = RedoThread.of(self.options, self.supervisor.location, self._resetlogs, number)
        keeper = Keeper(thread, self._seed, self.options, self.state, self.epoch, self._merged)
        self.keepers = [*self.keepers, keeper]  # Other threads iterate over the list meanwhile.
        if self.options.proxy is not None:
            self._beside.append(threading.Thread(target=self._stage, args=(keeper,), name=f"stage {thread}"))
        return keeper

    def _complete_from(self) -> int | None:
        """The first SCN at which rows were read beside the stream; None: none were, or it is unknown at the moment."""
        try:
            return recorded_source().redo_stream(self.stream).complete_from()
        except Transient:
            return None

    def _replicated(self, table: TableName) -> bool:
        return self.supervisor.replication.rule(table) is not None

    def run(self, stop: threading.Event) -> None:
        """Raises `LeaseLost`, `Superseded`, `StoreUnreachable`, `Terminal`."""
        lost = False
        try:
            for keeper in self.keepers:
                self.lease.keep()
                keeper.start()
            for each in self._beside:
                each.start()
            log.info("%s: capturing with epoch %d", self.prefix, self.epoch)
            while not stop.wait(LOOK_SECONDS):
                self.lease.keep()
                self._turn()
        except (LeaseLost, Superseded):
            lost = True
            raise
        finally:
            self._end(at_once=lost)

    def _turn(self) -> None:
        try:
            self._join()
            for keeper in self.keepers:
                keeper.tick()
            self._follow_ddl()
            self._check_tables()
            self._keep_merging()
            if time.monotonic() - self._reported_at >= STATUS_SECONDS:
                self._reported_at = time.monotonic()
                self.state.write(self._status())
        except StoreUnreachable as away:
            # The programs continue as long as the lease certainly holds.
            log.warning("%s: %s", self.prefix, away)

    def _join(self) -> None:
        """Starts reading threads that were found since."""
        for number in sorted(self._joining - {keeper.thread.number for keeper in self.keepers}):
            beside = len(self._beside)
            keeper = self._add(number)
            with suppress(StoreUnreachable):  # Then it begins at a later check.
                keeper.start()
            for each in self._beside[beside:]:
                each.start()
            log.info("%s: thread %s is read from now on", self.prefix, keeper.thread)

    def _check_tables(self) -> None:
        """Checks that all replicated tables are read, and logged as required, by the newest schema checkpoint."""
        tables = [keeper.tables for keeper in self.keepers if keeper.tables is not None]
        newest = max(tables, key=lambda values: int(values["scn"]), default=None)
        if newest is None or newest is self._tables:
            return
        self._tables = newest
        unread = list(unread_tables.unread(newest, self._replicated, self._naming))
        statements = list(supplemental_logging.lacking(newest, self._replicated, self._naming))
        texts = [unread_tables.explained(unread)] if unread else []
        texts += [supplemental_logging.explained(statements)] if statements else []
        self._tables_error = " ".join(texts)

    def _follow_ddl(self) -> None:
        """Gives the tables after DDL to the other threads, when they have begun: only one thread shows the DDL."""
        if not all(keeper.begun for keeper in self.keepers):
            return
        for keeper in self.keepers:
            scn = keeper.receiver.ddl
            if len(self.keepers) == 1 or not scn:
                continue
            tables = keeper.tables_after(scn)
            if tables is None:
                if self._ddl.get(keeper.thread) != scn:
                    self._ddl[keeper.thread] = scn
                    keeper.restart(f"it writes a checkpoint with the tables behind the DDL at SCN {scn}")
                continue
            for other in self.keepers:
                if other is not keeper:
                    other.halt()
                    other.take_tables(tables)
                    other.restart(f"thread {keeper.thread} ran DDL at SCN {scn}")
            keeper.receiver.passed_on(scn)

    def _stage(self, keeper: Keeper) -> None:
        """Fetches the logs of a thread, and deletes those that nobody needs."""
        of = keeper.thread
        while not self._stop.is_set():
            try:
                stager = stager_of(self.options, of.logs, of.number, of.resetlogs, self._begins)
                while not self._stop.is_set():
                    stager.free(keeper.needed_sequence)
                    staged = stager.turn()
                    keeper.stage_error = ""
                    if not staged:
                        self._stop.wait(STAGE_SECONDS)
            except SluiceError as error:
                keeper.stage_error = str(error)
                log.warning("%s: %s", keeper.thread, error)
                self._stop.wait(STAGE_RETRY_SECONDS)

    def _watch_logs(self, archived: Callable[[], ArchivedLogs]) -> None:
        """Queries the master's logs, and checks whether reading each thread can continue."""
        while not self._stop.is_set():
            try:
                found_logs = archived()
                self._see(found_logs.copies)
                for keeper in self.keepers:
                    keeper.check_logs(found_logs)
                self._watch_error = ""
            except (SluiceError, OSError) as error:
                self._watch_error = f"The master cannot be asked which archived logs it has. {error}"
                log.warning("%s: %s", self.prefix, self._watch_error)
            self._stop.wait(self.supervisor.watch_seconds)

    def _watch_for_threads(self) -> None:
        """Searches for logs of threads that are not read, where logs are fetched from; the master is not queried."""
        archive: Archive | None = None
        while not self._stop.is_set():
            try:
                if self.options.proxy is None:
                    stretches = list(redo_thread.headers(self.logs, self._begins)) if self.logs.exists() else []
                else:
                    archive = archive or archive_of(self.options)
                    stretches = archive.headers(self._resetlogs)
                self._see(stretches)
                self._threads_error = ""
            except (SluiceError, OSError) as error:
                self._threads_error = f"Nobody knows whether there are logs of other threads. {error}"
            self._stop.wait(self.supervisor.watch_seconds)

    def _see(self, stretches: Collection[Stretch]) -> None:
        awaited = self._unread.saw(stretches, [keeper.thread.number for keeper in self.keepers])
        if self.options.every_thread:
            self._joining = self._joining | awaited

    def _keep_merging(self) -> None:
        now = time.monotonic()
        if self._merge is not None and self._merge.status is not None:
            self._merge.end(signal.SIGKILL, 1)
            self._merge_deaths = 0 if now - self._merge_started >= HEALTHY_SECONDS else self._merge_deaths + 1
            self._merge_error = self._merge.last_error
            self._merge_next = now + pause(self._merge_deaths)
            log.warning("%s: the merge ended with status %s. %s", self.prefix, self._merge.status, self._merge_error)
            self._merge = None
        if self._merge is None and now >= self._merge_next:
            command = [
                sys.executable, "-m", "sluice.cli", "redo", str(self.prefix), "--threads", str(self.threads),
                "--location", str(self.stream), "--silent-minutes", f"{self.options.silent_minutes:g}", "--free",
            ]  # fmt: skip
            if self.options.exact_names:
                command.append("--exact-names")
            command += [f"--ends-at={scn}" for scn in self.options.ends_at]
            library = str(Path(sluice.__path__[0]).parent)
            paths = os.pathsep.join(filter(None, [library, os.environ.get("PYTHONPATH", "")]))
            self._merge = Program(command, self.supervisor.location / "merge.log", {"PYTHONPATH": paths})
            self._merge_started = now

    def _status(self) -> RedoStatus:
        merging = self._merge is not None and time.monotonic() - self._merge_started > HEALTHY_SECONDS
        error = "" if merging else self._merge_error
        holder = f"process {os.getpid()} on {os.uname().nodename}"
        threads = tuple(each.status() for each in self.keepers)
        unread = self._unread.text
        if not threads:
            where = ", ".join(self.options.archived) or self.logs
            unread = f"No log of a redo thread of the incarnation {self._resetlogs} is in {where}: nothing is read yet."
        needed = " ".join(filter(None, [unread, self._tables_error]))
        watch_error = " ".join(filter(None, [self._watch_error, self._threads_error]))
        return RedoStatus(holder, self.epoch, time.time(), threads, error, watch_error, needed)

    def _end(self, *, at_once: bool) -> None:
        enders = [threading.Thread(target=keeper.end, kwargs={"at_once": at_once}) for keeper in self.keepers]
        self._stop.set()
        enders += [threading.Thread(target=each.join) for each in self._beside if each.is_alive()]
        if self._merge is not None:
            arguments = (signal.SIGKILL if at_once else signal.SIGTERM, MERGE_GRACE_SECONDS)
            enders.append(threading.Thread(target=self._merge.end, args=arguments))
        for each in enders:
            each.start()
        for each in enders:
            each.join()
        if at_once:
            return
        try:
            for keeper in self.keepers:
                keeper.copy_checkpoints()
            self.state.write(self._status())
        except (StoreUnreachable, Superseded) as error:
            log.warning("%s: the last checkpoints are not in Redis. %s", self.prefix, error)


def _content_of(folder: Path) -> StreamContent | None:
    """The contents of the stream; None without a stream. Raises `Terminal`."""
    try:
        stream = recorded_source().redo_stream(folder)
        return StreamContent(stream.begins(), stream.incarnations())
    except Transient:
        return None
