"""Captures a master from its own log: records it into the stream that slaves replay, under the supervisor's lease.

A second reader of the same server and folder ends the first one, and only one can write to the folder; so a supervisor
whose lease continued may still be ending its recorder, and is awaited.
"""

import logging
import os
import threading
import time
from pathlib import Path

from sluice.configuration.model import Replication
from sluice.coordination.lease import Lease
from sluice.coordination.redis_store import StoreUnreachable
from sluice.coordination.redo_state import RedoState, RedoStatus, ThreadStatus
from sluice.database.recorder import LogRecorder
from sluice.database.registry import change_log, recorded_source
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.vendors import BINLOG

log = logging.getLogger("sluice.redo")

LOOK_SECONDS = 0.2
STATUS_SECONDS = 1.0
AGAIN_SECONDS = 1.0
ANOTHER_READER = frozenset({"recorder-runs", "other-reader"})
"""Codes of errors that pass when another recorder of the same stream ends."""


class Recording:
    """The work between taking the lease and losing it."""

    def __init__(self, replication: Replication, database: ConnectionInfo, state: RedoState, lease: Lease, epoch: int):
        self.prefix, self.state, self.lease, self.epoch = replication.prefix, state, lease, epoch
        self._replication, self._database = replication, database
        self._stop = threading.Event()
        self._recorder = self._made()
        self._failure: BaseException | None = None
        self._thread = self._started()
        self._error = ""
        self._restarts, self._again, self._reported_at = 0, 0.0, 0.0

    def run(self, stop: threading.Event) -> None:
        """Raises `LeaseLost`, `Terminal`."""
        log.info("%s: recording with epoch %d", self.prefix, self.epoch)
        try:
            while not stop.wait(LOOK_SECONDS):
                self.lease.keep()
                self._keep_recording()
                if time.monotonic() - self._reported_at >= STATUS_SECONDS:
                    self._report()
        except SluiceError as failure:
            self._error = str(failure)
            raise
        finally:
            self._stop.set()
            self._thread.join()
            self._report()

    def _keep_recording(self) -> None:
        if self._thread.is_alive():
            return
        failure = self._failure
        if failure is not None and not (isinstance(failure, SluiceError) and failure.code in ANOTHER_READER):
            raise failure
        if not self._error:
            self._error, self._again = str(failure or ""), time.monotonic() + AGAIN_SECONDS
            log.warning("%s: %s It is tried again.", self.prefix, self._error)
        if time.monotonic() >= self._again:
            self._failure, self._error, self._recorder = None, "", self._made()
            self._restarts += 1
            self._thread = self._started()

    def _made(self) -> LogRecorder:
        replication = self._replication
        reads = change_log(replication.master.vendor)
        assert reads is not None, "the configuration allows no other vendors"
        folder = Path(replication.master.location)
        return recorded_source().log_recorder(self._database, self.prefix, folder, self._wanted, reads)

    def _wanted(self, table: TableName) -> bool:
        rule = self._replication.rule(table)
        return rule is not None and rule.replicate

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._record, name="record")
        thread.start()
        return thread

    def _record(self) -> None:
        try:
            self._recorder.run(self._stop)
        except BaseException as failure:
            self._failure = failure

    def _report(self) -> None:
        self._reported_at = time.monotonic()
        try:
            self.state.write(self._status())
        except StoreUnreachable as away:
            # The recorder continues as long as the lease certainly holds.
            log.warning("%s: %s", self.prefix, away)

    def _status(self) -> RedoStatus:
        recorder = self._recorder
        place, outage = recorder.place, recorder.outage
        state = "waiting" if outage else "running" if place is not None else "starting"
        file = place.file if place is not None else ""
        offset = place.offset if place is not None else 0
        read = ThreadStatus(file, state, 0, offset, recorder.current_as_of, self._restarts, outage)
        holder = f"process {os.getpid()} on {os.uname().nodename}"
        kept = recorder.kept_seconds
        return RedoStatus(holder, self.epoch, time.time(), (read,), self._error, capture=BINLOG, kept_seconds=kept)
