"""The loop that applies one pair; the checkpoint on the slave says where it is (docs/apply.md).

A turn:

1. waits while the gate is closed or the slave's state forbids applying; renews the lease;
2. takes the window `(checkpoint, now]`;
3. applies it in one slave transaction that carries the new checkpoint;
4. reports what was done.

After an outage the loop tries again, with back-off, for ten minutes. Then the process ends, as it does if a login that
was good before is refused: a new one gets the connections as Airflow has them now. An error that needs a person
closes the gate (`error`) and ends the process; the next start opens that closure, because a person starts the apply
again.
"""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

import redis

from sluice.apply import slave_foreign_keys
from sluice.apply.checkpoint_writer import RedisCheckpointWriter, SlaveCheckpointWriter, require_repeatable
from sluice.apply.definition_follower import DefinitionFollower, DefinitionWatch
from sluice.apply.escalation import Outages
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.request_handler import RequestHandler, SlaveAnswers
from sluice.apply.status_report import StatusReport, SummaryLog
from sluice.apply.window_applier import WindowApplier
from sluice.configuration.model import Replication
from sluice.configuration.watched import WatchedFile, used_by_apply
from sluice.coordination.gate import ERROR, Closure, Gate
from sluice.coordination.lease import Lease, LeaseHeld
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.coordination.requests import Requests, Signals
from sluice.counted import counted
from sluice.database.errors import LoginRefused
from sluice.errors import DataLost, SluiceError, Terminal, Transient, labeled
from sluice.executor import Executor
from sluice.model import safemode
from sluice.model.apply_status import ApplyStatus
from sluice.model.checkpoint import Checkpoint, CheckpointMoved, Fenced
from sluice.model.comparison_trigger import COMPARE_AND_TELL
from sluice.model.connection import ConnectionInfo
from sluice.model.event import EventKind
from sluice.model.position import Position, Window
from sluice.model.safemode import SafeMode
from sluice.model.slave_state import APPLYING, SlaveState
from sluice.pair import ConnectionNotGiven, Pair

# When an apply reads what other processes tell it: in each turn, and now and then while the master is at rest.

REST_SECONDS = 0.2
"""How long, in seconds, an apply only asks whether the master has committed anything; a whole turn costs three times as
much."""


class GateWatch:
    """Watches the gate for one apply, in its thread. Each whole turn reads `closures` first, and calls `rest` if the
    slave has everything that the master had committed."""

    def __init__(self, signals: Signals):
        self.signals = signals
        self.requested = False
        """Whether a request was waiting when `closures` was last read."""
        self._rests_until = float("-inf")

    @property
    def resting(self) -> bool:
        """Whether the next turn can be skipped if the master has committed nothing."""
        return time.monotonic() < self._rests_until

    def closures(self) -> list[Closure]:
        """Why the gate is closed; empty if it is open. Raises `StoreUnreachable`."""
        self._rests_until = float("-inf")
        signals = self.signals.read()
        self.requested = signals.requested
        return signals.closures

    def rest(self) -> None:
        """Notes that a turn found nothing to do."""
        self._rests_until = time.monotonic() + REST_SECONDS


SHORTEST_SECONDS = 0.01


class Pace:
    """How long one apply pauses between turns. More changes are likely soon after a window, but not after a rest.

    So the first pause after a window lasts as long as the window took, and each further one twice as long, up to
    `longest` seconds. Under light traffic an apply is busy at most half of the time.
    """

    def __init__(self, longest: float):
        self._longest = longest
        self._next = longest

    def applied(self, seconds: float) -> None:
        """Notes that a window took `seconds`."""
        self._next = min(max(seconds, SHORTEST_SECONDS), self._longest)

    def pause(self) -> float:
        """Seconds to wait now."""
        seconds = self._next
        self._next = min(2 * seconds, self._longest)
        return seconds


log = logging.getLogger("sluice.apply")

IDLE_CHECKPOINT_SECONDS = 1.0
"""How often the checkpoint advances while nothing changes, so that 'current as of' stays true."""
WAIT_SECONDS = 0.25
"""How long a turn waits while the slave's state, or another apply's lease, forbids applying."""
BLOCK_SECONDS = 0.02
"""How often BLOCKS is read while changes wait for a block that is being read."""
_END = "The apply has ended"
REREAD_SECONDS = 1.0
"""How often the configuration file is read again."""


class Stopping(Transient):
    """The apply was told to stop in the middle of a turn; the turn is void."""


class ApplyLoop:
    """Applies one pair until told to stop or its configuration changes. One at a time in a process."""

    def __init__(
        self,
        pair: Pair,
        store: redis.Redis,
        executor: Executor,
        stop: threading.Event,
        *,
        logged_in: bool = False,
        watches_file: bool = True,
    ):
        """`logged_in`: this job was connected to both databases before. `watches_file`: an executor has none."""
        self.pair = pair
        self.stop = stop
        self.gate = Gate(store, pair.prefix, pair.slave.name)
        requests = Requests(store, pair.prefix, pair.slave.name)
        self.gate_watch = GateWatch(Signals(self.gate, requests))
        self.lease = Lease(store, pair.prefix, pair.slave.name, pair.replication.apply.lease)
        self.report = StatusReport(store, pair)
        self.sessions = PairSessions(pair)
        self.executor = executor
        self.checkpoints = SlaveCheckpointWriter(self.sessions, self.gate)
        if pair.slave.checkpoint == "redis":
            stored = StoredCheckpoint(store, pair.prefix, pair.slave.name)
            self.checkpoints = RedisCheckpointWriter(
                self.sessions, self.gate, stored, pair.replication.apply.checkpoint_interval
            )
        self.follower = DefinitionFollower(pair)
        self.applier = WindowApplier(
            self.sessions,
            self.checkpoints,
            executor,
            self.lease.keep,
            self._pause,
            self._heartbeat,
            self.follower.away_from,
        )
        self.request_handler = RequestHandler(self.sessions, requests, self.checkpoints)
        self.definitions = DefinitionWatch(self.sessions, self.follower)
        self.answers = SlaveAnswers(self.sessions)
        self.checkpoint: Checkpoint | None = None
        self._last_known: Checkpoint | None = None
        """The last checkpoint before an outage, for the status."""
        self.seen: Position | None = None
        self.mode = safemode.OFF
        self.summary = SummaryLog(pair)
        self.pace = Pace(pair.replication.apply.poll_interval)
        self._file = WatchedFile(pair.replication) if watches_file else None
        self._reread_at = 0.0
        self._changed: Replication | None = None
        self._mistake = ""
        """Why the current configuration file cannot be used."""
        self._waiting_for = ""
        self._begun = False
        self.outages = Outages(pair, logged_in=logged_in)
        self._lease_deadline: float | None = None
        self._waited = False
        """Whether the master has been idle for a while since the last window."""
        self._written = time.monotonic()

    def run(self) -> Replication | None:
        """Runs until `stop` is set (returns None) or the configuration changes (returns the new one).

        Raises `Fenced` when another apply took over, `LeaseHeld` when one is active already, `ConnectionsOutdated`
        when a new job may reach the databases, and any other `Terminal` after closing the gate.
        """
        try:
            while not self.stop.is_set() and not self._reconfigured():
                try:
                    if self.checkpoint is None:
                        self._take_over()
                    self.turn()
                    self.outages.ended()
                except Fenced:
                    raise
                except LeaseHeld as refused:
                    self._await_lease(refused)
                except CheckpointMoved as moved:
                    log.info("%s: %s", self.pair, moved)
                    self._forget()
                except Stopping:
                    break
                except LoginRefused as refused:
                    raise self.outages.refused(refused) from None
                except Transient as outage:
                    backoff = self.outages.pause(outage)
                    log.warning("%s: %s Next try in %.2g s.", self.pair, outage, backoff)
                    self._forget()
                    self._write_status(f"waiting: {outage}", force=True)
                    self.stop.wait(backoff)
        except (Fenced, LeaseHeld):
            raise
        except Terminal as error:
            self._close_gate(error)
            raise
        finally:
            why = "The apply begins again with the changed configuration" if self._changed else _END
            self.report.ended(self._status("ended"), why)
            self.follower.end()
            self._forget()
            self.gate.forget()
            self.lease.release()
        return self._changed

    def turn(self) -> None:
        """Does one turn. Raises `Transient` for outages, `Terminal` for errors that need a person."""
        assert self.checkpoint is not None
        if self._rests():
            return
        closures = self.gate_watch.closures()
        if closures:
            reason = "the gate is closed: " + "; ".join(str(closure) for closure in closures)
            self._note_waiting(reason)
            # Opening the gate sends a message that wakes us; a lost message costs one interval.
            self.gate.await_change(min(self.pair.replication.apply.poll_interval, WAIT_SECONDS))
            return
        self.lease.keep()
        self.executor.check()
        if self.checkpoint.state not in APPLYING:
            reason = f"the slave is {self.checkpoint.state}: {self.checkpoint.message or 'start an initial update'}"
            self._wait(reason, WAIT_SECONDS)
            self.checkpoint = self.checkpoints.read(self.checkpoint)
            self.seen = self.checkpoint.position
            mode = self._mode_at_start(self.checkpoint)
            if mode.reason != self.mode.reason:
                log.info("%s: safe mode is %s", self.pair, mode.explain(time.monotonic()))
            self.mode = mode
            return
        self._waiting_for = ""
        try:
            self._apply_next()
        except CheckpointMoved as moved:
            if not self._states_moved():
                raise
            log.info("%s: states of tables have changed, the other tables are applied as before: %s", self.pair, moved)

    def _rests(self) -> bool:
        """Waits and returns True if the last turn found nothing to do and the master has committed nothing since.

        Once in a while a whole turn looks at everything else.
        """
        if self.seen is None or not self.gate_watch.resting or not self.sessions.queue.nothing_committed(self.seen):
            return False
        self._waited = True
        self.stop.wait(self.pace.pause())
        return True

    def _states_moved(self) -> bool:
        """Whether only states of tables have changed on the slave, for example by a load that begins or ends.

        Then the window is read again with the new states; connections, epoch and mode stay, so that other tables do
        not wait.
        """
        before = self.checkpoint
        if before is None or self.checkpoints.overlap:
            return False
        now = self.checkpoints.read(before)
        if now.tables == before.tables or not now.same_place(replace(before, tables=now.tables)):
            return False
        self.sessions.schema_history.clear()
        self.checkpoint = replace(before, tables=now.tables)
        return True

    def _reconfigured(self) -> bool:
        """Whether the configuration file has changed in what the apply uses."""
        if self._file is None or time.monotonic() < self._reread_at:
            return False
        self._reread_at = time.monotonic() + REREAD_SECONDS
        slave = self.pair.slave.name
        try:
            changed = self._file.again()
            if changed is None:
                return False
            different = used_by_apply(changed, slave) != used_by_apply(self.pair.replication, slave)
        except Terminal as mistake:
            log.warning("%s: the apply keeps its configuration: %s", self.pair, mistake)
            self._mistake = str(mistake)
            return False
        self._mistake = ""
        if different:
            log.info("%s: %s has changed: the apply begins again with it", self.pair, changed.source)
            self._changed = changed
        return different

    def _apply_next(self) -> None:
        assert self.checkpoint is not None and self.seen is not None
        consistent = self.checkpoint.state is SlaveState.NORMAL and not self.checkpoint.catching_up
        if consistent and self.mode.reason in (None, "configured"):
            self.applier.pair_rejects.apply_requested(self.checkpoint, self.checkpoints, self.lease.keep)
        self.definitions.check_follower()
        if not self.definitions.compared:
            self._check_definitions()
        ticket = self.follower.ticket if consistent else 0
        target = self.checkpoint.target or self._requested_target() or self.sessions.window_end(self.seen)
        if consistent:
            end = self.answers.window_end(self.seen, target, exact=not self._ahead)
            ticket, target = ticket if end is target else 0, end
        self._leave_safe_mode(self.seen)
        started = time.monotonic()
        window = Window(self.seen, target, self.checkpoint.slice_key or 0)
        applied = self.applier.apply(self.checkpoint, window, safe=self.mode.on)
        if applied is None:
            if target == self.seen and not self.checkpoint.loading:
                self.gate_watch.rest()
            self._idle(target)
            self.follower.passed(ticket)
            self._check_definitions()
            self._waited = True
            self.stop.wait(self.pace.pause())
            return
        done = applied.checkpoint
        changes = done.changes - self.checkpoint.changes
        if done.state is not self.checkpoint.state:
            log.info("%s: the slave is %s, current as of %s", self.pair, done.state, target.time)
        self.checkpoint = done
        self.seen = done.position
        self.checkpoints.committed(done)
        if not done.catching_up:
            self.follower.passed(ticket)
        self.request_handler.reached(done, done.position)
        self._written = time.monotonic()
        self.summary.applied(changes, self._written - started)
        self.pace.applied(self._written - started)
        # Under steady traffic another window follows at once, so asking first would only waste time.
        if self._waited and not done.catching_up and not done.loading:
            self.gate_watch.rest()
        self._waited = False
        self.report.applied(changes, self._written - started, applied.written)
        for cut in applied.definitions:
            self.report.event(EventKind.DEFINITION, str(cut))
        if applied.definitions:
            self.follower.tables_altered(again=applied.untied)
        self._write_status("applying")
        self.summary.log(self.seen, self.mode)
        self._check_definitions()

    def _idle(self, target: Position) -> None:
        """The window is empty: notes that the slave is current as of its end."""
        assert self.checkpoint is not None and self.seen is not None
        if target != self.seen:  # else nothing was committed that could have been purged
            self.sessions.check_purged(self.seen)
        self.seen = target
        self.request_handler.reached(self.checkpoint, target)
        now = time.monotonic()
        if now - self._written >= IDLE_CHECKPOINT_SECONDS:
            self.checkpoint = self.checkpoints.idle(self.checkpoint, self.checkpoint.rested(target))
            self._written = now
        self._write_status("applying")
        self.summary.log(self.seen, self.mode)

    def _requested_target(self) -> Position | None:
        assert self.checkpoint is not None and self.seen is not None
        return self.request_handler.target(
            self.checkpoint, self.seen, exact=not self._ahead, requested=self.gate_watch.requested
        )

    @property
    def _ahead(self) -> bool:
        """Whether the slave may have changes after its checkpoint: with `checkpoint: redis`, until safe mode ends."""
        return self.checkpoints.overlap and self.mode.on and self.mode.reason != "configured"

    def _check_definitions(self) -> None:
        """From time to time checks whether the master's definitions have changed, and how long its queue is.

        After a window, because with a thousand tables a comparison takes a second.
        """
        assert self.checkpoint is not None
        self.definitions.compare()
        if self.definitions.check(self.checkpoint, self.applier.pair_rejects.tables_differing):
            log.info("%s: the master's definitions have changed, or tables differ: %s", self.pair, COMPARE_AND_TELL)
        self.report.measure_queue(self.sessions.master)

    def _leave_safe_mode(self, applied: Position) -> None:
        assert self.checkpoint is not None
        after = self.mode.after(applied, time.monotonic())
        if after.on == self.mode.on:
            return
        # First durably clear the exit point: a later start must not use it.
        if self.checkpoint.safemode_exit is not None:
            self.checkpoint = self.checkpoints.clear_exit(self.checkpoint)
        self.mode = after
        log.info("%s: safe mode is off, changes must match the slave's rows from now on", self.pair)

    def _take_over(self) -> None:
        """Takes the lease and a new epoch, with which no former apply can commit, and decides on safe mode."""
        self.lease.acquire()
        self._lease_deadline = None
        self.sessions.open()
        self.outages.logged_in = True
        claimed = self.checkpoints.claim()
        first = claimed is None
        if claimed is None:
            claimed = self._first()
        if not self._begun and self.gate.open(ERROR):
            log.info("%s: the gate's closure 'error' is opened by this start", self.pair)
        claimed = self.checkpoints.taken_over(claimed)
        self._begun = True
        self.applier.stage_driver.drop(claimed.epoch)
        self.applier.pair_rejects.begin()
        self.follower.begin()
        self.definitions.begin()
        self.answers.begin()
        self.checkpoint = claimed
        self.seen = claimed.position
        self.mode = self._mode_at_start(claimed, first=first)
        log.info(
            "%s: epoch %d, state %s, %s applied so far, safe mode %s",
            self.pair, claimed.epoch, claimed.state, counted(claimed.changes, "change"),
            self.mode.explain(time.monotonic()),
        )  # fmt: skip

    def _await_lease(self, refused: LeaseHeld) -> None:
        """Waits for the lease of a killed apply to expire. Raises `LeaseHeld` if it is renewed: its holder lives."""
        now = time.monotonic()
        if self._lease_deadline is None:
            log.info("%s: waiting for %s to end or its lease to expire", self.pair, refused.holder)
            self._lease_deadline = now + 1.5 * self.lease.duration
        if now > self._lease_deadline:
            raise refused
        self.stop.wait(WAIT_SECONDS)

    def _first(self) -> Checkpoint:
        """Writes the first checkpoint if the source says at which position a slave without one begins."""
        beginning = self.sessions.beginning()
        if beginning is None:
            raise Terminal(
                f"{self.pair}: the slave has no checkpoint. Start an initial update: DAG initial_update with prefix "
                f"{self.pair.prefix} and slave {self.pair.slave.name}.",
                code="no-checkpoint",
            )
        self.checkpoints.begin(beginning)
        claimed = self.checkpoints.claim()
        assert claimed is not None, "it was made just now"
        log.info("%s: the slave begins at %s; its tables are assumed to be as of there", self.pair, beginning)
        return claimed

    def _mode_at_start(self, checkpoint: Checkpoint, *, first: bool = False) -> SafeMode:
        """`first`: nothing was ever applied, so nothing can be applied twice."""
        if checkpoint.position is None or checkpoint.state not in APPLYING:
            return safemode.OFF  # decided when there is something to apply
        self.sessions.expect_continued(checkpoint)
        self.sessions.check_purged(checkpoint.position)
        if self.checkpoints.overlap:
            require_repeatable(self.sessions, checkpoint)
        with self.sessions.slave_transaction() as slave:
            slave_foreign_keys.require_known_actions(self.sessions, slave)
        configured = self.pair.slave.safe_mode or self.pair.slave.on_conflict == "overwrite"
        if first and not configured:
            return safemode.OFF
        return safemode.at_start(
            configured=configured,
            exit_point=checkpoint.safemode_exit,
            master_now=self.sessions.queue.take(checkpoint.position),
            clock=time.monotonic(),
            checkpoint_interval=self.pair.replication.apply.checkpoint_interval,
            overlap=self.checkpoints.overlap,
        )

    def _pause(self) -> None:
        """Waits a moment for a block that is being read. Raises `Stopping`."""
        self.lease.keep()
        self._write_status("waiting for a block that is being read")
        if self.stop.wait(BLOCK_SECONDS):
            raise Stopping("told to stop while waiting for a block")

    def _heartbeat(self) -> None:
        """Called while Spark works on a window. Raises `Stopping`, and what a lost lease or executor raises."""
        self.lease.keep()
        self.executor.check()
        how = self.executor.waits or ((progress := self.executor.progress) and f"{progress} done")
        self._write_status(f"applying: Spark stages a large window{how and f', {how}'}")
        if self.stop.is_set():
            raise Stopping("told to stop while Spark staged a window")

    def _forget(self) -> None:
        """Closes the sessions and forgets the checkpoint; the next turn takes over again."""
        if self.checkpoint is not None:
            self.checkpoints.save(self.checkpoint)
        self.request_handler.close()
        self.sessions.close()
        self._last_known, self.checkpoint = self.checkpoint or self._last_known, None

    def _wait(self, reason: str, seconds: float) -> None:
        self._note_waiting(reason)
        self.stop.wait(seconds)

    def _note_waiting(self, reason: str) -> None:
        if reason != self._waiting_for:
            log.info("%s: waiting, %s", self.pair, reason)
            self._waiting_for = reason
            self._write_status(f"waiting: {reason}", force=True)
        self._write_status(f"waiting: {reason}")

    def _close_gate(self, error: Terminal) -> None:
        """Closes the gate for `error`, which the job logs, and writes it to the slave."""
        try:
            self.gate.close(ERROR, "apply", labeled(error))
        except SluiceError as unreachable:
            log.warning("%s: the gate could not be closed: %s", self.pair, unreachable)
        if self.checkpoint is not None and isinstance(error, DataLost):
            self.checkpoints.give_up(self.checkpoint, str(error))
        elif self.checkpoint is not None:
            attempt = self.applier.attempt
            self.checkpoints.note(self.checkpoint, str(error), attempt.window.target if attempt is not None else None)

    def _write_status(self, activity: str, *, force: bool = False) -> None:
        if force or self.report.due():
            self.report.write(self._status(activity), self.seen)

    def _status(self, activity: str) -> ApplyStatus:
        checkpoint = self.checkpoint or self._last_known
        return {
            "activity": activity,
            "state": checkpoint.state if checkpoint else None,
            "catching_up": bool(checkpoint and checkpoint.catching_up),
            "current_as_of": self.seen.time if self.seen else None,
            "changes": checkpoint.changes if checkpoint else None,
            "epoch": checkpoint.epoch if checkpoint else None,
            "safe_mode": self.mode.explain(time.monotonic()),
            "checkpoint": self.checkpoints.explain(),
            "configuration": self._mistake,
            "differing": self.applier.pair_rejects.tables_differing,
            "set_aside": [str(table) for table in self.applier.pair_rejects.tables()],
            "not_ready": {str(table): checkpoint.tables.explain(table) for table in checkpoint.tables}
            if checkpoint
            else {},
            "loading": [str(table) for table in checkpoint.tables.loading] if checkpoint else [],
            "message": checkpoint.message if checkpoint else "",
            "definitions": self.follower.activity,
            "spark": self.executor.pages,
        }


# Restarts the apply, in the same process, when its configuration file changes.
#
# The apply notices a change between two windows. It then ends as when it is told to stop, and starts again with a new
# epoch and in safe mode, so the change has the same effect as a restart of the process. A file with mistakes changes
# nothing; log and status show the mistakes.


def keep_applying(
    pair: Pair,
    connections: Mapping[str, ConnectionInfo],
    store: redis.Redis,
    executor: Executor,
    stop: threading.Event,
) -> None:
    """Applies until `stop` is set, and restarts whenever the configuration changes. Raises as `ApplyLoop.run`.

    `connections`: conn_id → how to reach it. Also returns when the file names another connection or another place
    to run, which only a new job can get.
    """
    loop = ApplyLoop(pair, store, executor, stop)
    while (changed := loop.run()) is not None:
        if changed.apply.runs_on != pair.replication.apply.runs_on:
            log.info("%s: it runs on %s from now on: the job ends, and starts there", pair, changed.apply.runs_on)
            return
        try:
            pair = Pair.of(changed, pair.slave.name, connections)
        except ConnectionNotGiven:
            log.info("%s: %s names another connection: the job ends, and starts again with it", pair, changed.source)
            return
        loop = ApplyLoop(pair, store, executor, stop, logged_in=loop.outages.logged_in)
