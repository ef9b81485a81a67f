"""The throttle of a load job: once a second it measures, decides, and writes the limits of all workers to the slave.

    with LoadJob(update) as job, Throttle(update, loaders=4):
        workers run somewhere; each reads the limits before it claims a block

It reads its rules again when the configuration file changes. A failed measurement never ends a load: the load pauses
and says why.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.configuration.watched import WatchedFile
from sluice.control.own_tables import ThrottleStore
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal
from sluice.load.load_metrics import LoadMetrics
from sluice.load.throttle_rules import Readings, exceeded, load_message, rate_of, throttle_state
from sluice.load.update import Update
from sluice.model.throttle_state import ThrottleState

log = logging.getLogger("sluice.load")

LOOK_SECONDS = 1.0
MESSAGE_PREFIX = "Initial update "
"""The beginning of all messages of initial updates."""


class Throttle:
    """Runs in a separate thread while `with` lasts; the first limits are written before `with` begins."""

    def __init__(
        self,
        update: Update,
        loaders: int,
        *,
        reads_master: bool = True,
        stores: bool = True,
        redis_url: str | None = None,
    ):
        """See `LoadMetrics`."""
        self.update = update
        self.loaders = loaders
        self._metrics = LoadMetrics(update, reads_master=reads_master, stores=stores, redis_url=redis_url)
        self._limits = update.options.throttle
        self._file = WatchedFile(update.replication)
        self._mistakes = ""
        self._state: ThrottleState | None = None
        self._paused_at: float | None = None
        self._slave: Session | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="throttle", daemon=True)

    @property
    def state(self) -> ThrottleState:
        """The limits of the workers."""
        return self._state or ThrottleState()

    def __enter__(self) -> "Throttle":
        self._measure()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10.0)
        self._note_pause(ThrottleState())
        try:
            with self._on_slave() as store:
                store.clear()
                self._put_message(store, ThrottleState())
        except SluiceError as failure:
            log.warning("%s: %s", self.update, failure)
        self._metrics.close()
        self._close()

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            try:
                self._measure()
            except Exception:  # the workers keep their present limits
                log.exception("%s: the throttle failed in an unforeseen way", self.update)

    def _measure(self) -> None:
        """Measures, decides and writes, once."""
        self._reread()
        source = self.update.replication.source
        try:
            reasons = exceeded(self._limits, self._metrics.read(self._limits), str(source))
        except SluiceError as error:
            self._metrics.close()
            reasons = exceeded(self._limits, Readings(), str(source))
            if self._measures or not isinstance(error, Terminal):  # without limits, the load itself meets the error
                reasons.append(str(error))
        state = throttle_state(self._limits, reasons, self.loaders)
        self._note_pause(state)
        try:
            with self._on_slave() as store:
                if state != self._state:
                    store.write(state)
                    self._tell_rate(state)
                    self._state = state
                self._put_message(store, state, self._mistakes)
        except SluiceError as error:
            # Without the slave nothing is loaded either. A row that the apply has locked is written at the next look.
            log.debug("%s: %s", self.update, error)
            if self._slave is not None and self._slave.broken:
                self._close()

    def _put_message(self, store: ThrottleStore, state: ThrottleState, mistakes: str = "") -> None:
        update_id = self.update.update_id
        store.put_message(update_id, load_message(update_id, state) + mistakes, MESSAGE_PREFIX)

    @property
    def _measures(self) -> bool:
        limits = self._limits
        measured = (limits.active_sessions, limits.lock_waits, limits.replica_lag, limits.query, limits.apply_lag)
        return any(limit is not None for limit in measured)

    def _reread(self) -> None:
        source = self.update.replication.source
        try:
            changed = self._file.again()
        except Terminal as error:
            log.warning("%s: the limits stay as they are: %s", self.update, error)
            self._mistakes = f"; the limits are those from before {source.name} was changed: it has mistakes"
            return
        if changed is None:
            return
        self._mistakes = ""
        if changed.initial.throttle != self._limits:
            log.info("%s: limits of the load changed in %s", self.update, source)
            self._limits = changed.initial.throttle

    def _note_pause(self, state: ThrottleState) -> None:
        """Into the log when a pause begins or ends; in between its reason changes with every number."""
        if state.paused and self._paused_at is None:
            self._paused_at = time.monotonic()
            log.warning("%s: paused: %s", self.update, state.reason)
        elif not state.paused and self._paused_at is not None:
            lasted = time.monotonic() - self._paused_at
            self._paused_at = None
            log.info("%s: continues after a pause of %.0f s", self.update, lasted)

    def _tell_rate(self, state: ThrottleState) -> None:
        before = rate_of(self._state) if self._state else ""
        if (now := rate_of(state)) != before:
            log.info("%s: %s", self.update, now or "no limit of the rate any more")

    @contextmanager
    def _on_slave(self) -> Iterator[ThrottleStore]:
        """The store on the slave; opens its session if there is none."""
        if self._slave is None:
            self._slave = self.update.connect_slave()
            # The apply locks the row of CHECKPOINT for as long as its transaction takes.
            self._slave.limit_lock_waits(1.0)
        yield ThrottleStore.of(self.update, self._slave)

    def _close(self) -> None:
        if self._slave is not None:
            self._slave.close()
            self._slave = None
