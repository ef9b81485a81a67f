"""Reads and writes the checkpoint of a slave for its apply.

SlaveCheckpointWriter    writes the position to the slave, in the transaction of the data
RedisCheckpointWriter    writes it to Redis, at an interval and at shutdown; the slave's row keeps an older position,
           the fallback position (`sluice.model.checkpoint`), and counts changes in the transaction of the data
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from sluice.apply.pair_sessions import PairSessions, key_needed
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.gate import Gate
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.coordination.redis_store import StoreUnreachable
from sluice.database.errors import DatabaseError
from sluice.database.placed import vendor_at
from sluice.database.registry import vendor_of
from sluice.errors import RESTART_APPLY, SluiceError, Terminal
from sluice.model.checkpoint import FALLBACK_INTERVALS, Checkpoint, CheckpointMoved, Fenced, IsMaster, Stored, resume
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState

log = logging.getLogger("sluice.apply")

# Checks, when applying starts, what `checkpoint: redis` demands: changes may be applied twice there.


def require_repeatable(sessions: PairSessions, checkpoint: Checkpoint) -> None:
    """Raises `key-needed` and `triggers-active` with all tables concerned. Tables that are left out do not count."""
    pair = sessions.pair
    assert checkpoint.position is not None
    tables = [table for table in sessions.queue.registered() if table not in checkpoint.tables]
    sessions.schema_history.load(tables, checkpoint.position, checkpoint.slice_key or 0)
    if keyless := sessions.schema_history.keyless():
        raise key_needed(pair, keyless)
    if sessions.replica_role:
        return
    with sessions.slave_transaction() as slave:
        on_slave = vendor_at(pair).rows.shapes(slave, tables)
        acting = [table for table in on_slave if sessions.merger.targets[table].watched]
        allow = vendor_at(pair).sessions.allow_silence(slave)
    if acting:
        raise Terminal(
            f"{pair}: with checkpoint: redis changes may come twice, and on {', '.join(map(str, acting))} foreign keys "
            "or triggers of the slave act on each: rows that live on could go with a parent that is replaced. On "
            f"the slave, as an administrator: {allow}; or set checkpoint: slave; then {RESTART_APPLY}.",
            code="triggers-active",
        )


class SlaveCheckpointWriter:
    """The checkpoint of one pair, over its sessions."""

    overlap = False
    """Whether the slave may have changes after the checkpoint."""

    def __init__(self, sessions: PairSessions, gate: Gate):
        self.sessions = sessions
        self.gate = gate
        self.pair = sessions.pair

    def claim(self) -> Checkpoint | None:
        """Takes a new epoch and commits it; None if the slave was never configured.

        Restores an admin's closure that Redis has lost.
        """
        sessions = self.sessions
        driver = vendor_of(self.pair.slave_info.vendor).sessions
        # Durable: no crash of the slave may issue this epoch a second time.
        with sessions.slave_transaction(durable=True):
            # A former apply may still be in its last transaction.
            driver.limit_lock_waits(sessions.slave, seconds=5)
            store = self._store()
            if not store.exists():
                return None
            store.upgrade()
            row = store.read(lock=True)
            if row is None:
                return None
            if row.state is SlaveState.MASTER:
                raise IsMaster(self.pair.slave.name, row.epoch, row.message)
            # Under the row's lock: opening the gate clears the row first, then Redis.
            if row.closed and self.gate.restore(row.closed):
                log.warning("%s: an admin has closed the gate and Redis did not know it: it is closed again", self.pair)
            return self._claim(store, row)

    def begin(self, position: Position) -> None:
        """Writes the first row of CHECKPOINT, in the state NORMAL, for a slave whose tables are as of `position`."""
        with self.sessions.slave_transaction(durable=True):
            store = self._store()
            store.ensure()
            store.move(SlaveState.INITIAL)
            store.start_at(position)
            store.move(SlaveState.NORMAL)

    def read(self, expected: Checkpoint) -> Checkpoint:
        """The checkpoint as it is now. Raises `Fenced`, `CheckpointMoved` if this apply lost it."""
        with self.sessions.slave_transaction():
            return self._require_own(self._store().read(), expected)

    def lock(self, expected: Checkpoint) -> None:
        """In an apply transaction: locks the checkpoint until the commit.

        Raises `Fenced`, and `CheckpointMoved` if it is not the `expected` one.
        """
        self._expect(self._store().read(lock=True), expected)

    def exchange(self, before: Checkpoint, after: Checkpoint) -> Callable[[], None]:
        """As `lock`, and `advance` without a cut, in one round trip (see `CheckpointStore.exchange`).

        Call the result as soon as results can be read. It raises as `lock` does.
        """
        former = self._store().exchange(before, after)
        return lambda: self._expect(former(), before)

    def _expect(self, found: Checkpoint | None, expected: Checkpoint) -> None:
        now = self._require_own(found, expected)
        if not now.same_place(self._row(expected)):
            raise _moved(expected, now)

    def advance(self, before: Checkpoint, after: Checkpoint, *, cut: bool) -> None:
        """Writes `after`, in the transaction that applies what is between.

        `cut`: the transaction did what must not be repeated: it changed definitions, emptied tables, rejected changes,
        or applied rejected ones. A restart must begin after it.
        """
        del cut
        self._store().advance(before, after)

    def committed(self, after: Checkpoint) -> None:
        """To be called when what `advance` wrote is committed."""

    def idle(self, before: Checkpoint, after: Checkpoint) -> Checkpoint:
        """Advances the checkpoint over an empty window. A crash may lose that; nothing depends on it."""
        assert after.position is not None
        self.sessions.secure(after.position)
        return self._alone(before, after, durable=False)

    def taken_over(self, claimed: Checkpoint) -> Checkpoint:
        """Translates the checkpoint to this source and writes it if the slave's changes came from another one.

        Raises `capture-not-switchable` if the position alone does not say what is applied, and as
        `RecordedSource.takeover`.
        """
        taken_over = self.sessions.taken_over(claimed.position) if claimed.position is not None else None
        if taken_over is None:
            return claimed
        reasons = {
            "its checkpoint is in Redis (checkpoint: redis)": self.overlap,
            f"it is {claimed.state}": claimed.state is not SlaveState.NORMAL,
            "a large window is applied in part": claimed.catching_up,
            "tables are loading": claimed.loading,
        }
        if why := next((reason for reason, applies in reasons.items() if applies), None):
            raise Terminal(
                f"{self.pair}: the configuration names another capture, and the slave cannot go over to it: {why}. "
                "Put the former capture back, start the apply, and go over when the slave is NORMAL, all of its "
                "tables are ready and its checkpoint is kept on it.",
                code="capture-not-switchable",
            )
        log.info(
            "%s: changes come from another source from now on, %s is %s there", self.pair, claimed.position, taken_over
        )
        return self._alone(claimed, replace(claimed.advanced(taken_over, 0), safemode_exit=None), durable=True)

    def clear_exit(self, before: Checkpoint) -> Checkpoint:
        """Removes the exit point of safe mode, durably."""
        return self._alone(before, replace(before, safemode_exit=None), durable=True)

    def save(self, checkpoint: Checkpoint) -> None:
        """Saves the checkpoint at shutdown and after outages, where `advance` does not; best effort."""

    def note(self, checkpoint: Checkpoint, message: str, safemode_exit: Position | None) -> None:
        """Writes to the slave why applying stopped; best effort."""
        if not self.sessions.opened:
            return
        try:
            with self.sessions.slave_transaction():
                self._store().note(checkpoint, message, safemode_exit)
        except DatabaseError as error:
            log.warning("%s: the slave's checkpoint could not be annotated: %s", self.pair, error)

    def give_up(self, checkpoint: Checkpoint, message: str) -> None:
        """Makes the slave INCONSISTENT; best effort."""
        if not self.sessions.opened:
            return
        try:
            with self.sessions.slave_transaction():
                self.lock(checkpoint)
                self._store().move(SlaveState.INCONSISTENT, message)
        except SluiceError as error:
            log.warning("%s: the slave could not be marked INCONSISTENT: %s", self.pair, error)

    def explain(self) -> str:
        """The place of the checkpoint, for pages."""
        return "on the slave, in each transaction"

    def _claim(self, store: CheckpointStore, row: Checkpoint) -> Checkpoint:
        del row
        return self._restarted(store, store.claim())

    @staticmethod
    def _restarted(store: CheckpointStore, claimed: Checkpoint) -> Checkpoint:
        """Writes where the apply starts again, which is not the last place while nothing was captured."""
        if claimed.position is None or claimed.position.restart is claimed.position:
            return claimed
        restarted = replace(claimed, position=claimed.position.restart)
        store.advance(claimed, restarted)
        return restarted

    def _row(self, checkpoint: Checkpoint) -> Checkpoint:
        """The slave's row while this apply is at `checkpoint`."""
        return checkpoint

    def _alone(self, before: Checkpoint, after: Checkpoint, *, durable: bool) -> Checkpoint:
        """Writes a checkpoint in its own transaction."""
        with self.sessions.slave_transaction(durable=durable):
            self.lock(before)
            self._store().advance(before, after)
        return after

    def _require_own(self, now: Checkpoint | None, expected: Checkpoint) -> Checkpoint:
        """Returns `now` if this apply may still write. Raises `IsMaster`, `Fenced`, `CheckpointMoved`."""
        if now is None:
            raise CheckpointMoved("the checkpoint is gone; it is read again")
        if now.state is SlaveState.MASTER:
            raise IsMaster(self.pair.slave.name, expected.epoch, now.message)
        if now.epoch != expected.epoch:
            raise Fenced(self.pair.slave.name, expected.epoch)
        if now.closed:
            raise CheckpointMoved("an admin has closed the gate; all is read again")
        return now

    def _store(self) -> CheckpointStore:
        return CheckpointStore.of(self.pair, self.sessions.slave)


class RedisCheckpointWriter(SlaveCheckpointWriter):
    """Keeps the position in Redis, everything else on the slave. `interval`: seconds between two writes to Redis."""

    overlap = True

    def __init__(self, sessions: PairSessions, gate: Gate, stored: StoredCheckpoint, interval: float):
        super().__init__(sessions, gate)
        self.stored = stored
        self.interval = interval
        self._fallback: Checkpoint | None = None
        """The checkpoint in the slave's row."""
        self._next_fallback: Checkpoint | None = None
        """The checkpoint that the open transaction writes to the slave's row."""
        self._saved_at = self._fallback_at = time.monotonic()
        self._failing = False

    def claim(self) -> Checkpoint | None:
        claimed = super().claim()
        if claimed is not None:
            self._set_fallback(claimed)
            self.save(claimed)
        return claimed

    def read(self, expected: Checkpoint) -> Checkpoint:
        """The checkpoint as it is now: at `expected`'s position, unless the slave's row was moved by others."""
        now = super().read(expected)
        return (
            replace(expected, message=now.message) if now.same_place(self._row(expected)) else self._set_fallback(now)
        )

    def advance(self, before: Checkpoint, after: Checkpoint, *, cut: bool) -> None:
        # Changes that must not come again, or not in part, advance the fallback position with their data.
        moved = after.state is not before.state or after.tables != before.tables
        rare = cut or moved or before.catching_up or after.catching_up
        self._next_fallback = after if rare or self._fallback_due() else None
        self._store().advance(before, self._next_fallback or self._row(after))

    def committed(self, after: Checkpoint) -> None:
        fallback = self._next_fallback
        if fallback is not None:
            self._set_fallback(fallback)
        if fallback is not None or self._save_due():
            self.save(after)

    def idle(self, before: Checkpoint, after: Checkpoint) -> Checkpoint:
        assert after.position is not None
        self.sessions.secure(after.position)
        if self._fallback_due():
            self._set_fallback(self._alone(before, after, durable=True))
            self.save(after)
            return after
        now = super().read(before)
        if not now.same_place(self._row(before)):
            raise _moved(before, now)
        if self._save_due():
            self.save(after)
        return after

    def clear_exit(self, before: Checkpoint) -> Checkpoint:
        cleared = replace(before, safemode_exit=None)
        self._alone(before, self._row(cleared), durable=True)
        return cleared

    def save(self, checkpoint: Checkpoint) -> None:
        fallback = self._fallback.position if self._fallback is not None else None
        if fallback is None or checkpoint.position is None or checkpoint.catching_up:
            return
        self._saved_at = time.monotonic()
        try:
            written = self.stored.write(Stored(checkpoint.epoch, fallback, checkpoint.position, checkpoint.changes))
        except StoreUnreachable as error:
            log.log(logging.DEBUG if self._failing else logging.WARNING, "%s: the checkpoint is not saved: %s Until it "
                    "is, a restart applies again what follows the last one saved.", self.pair, error)  # fmt: skip
            self._failing = True
            return
        self._failing = False
        if not written:
            log.warning("%s: an apply with a later epoch has saved its checkpoint in Redis", self.pair)

    def explain(self) -> str:
        age = "not written now" if self._failing else f"{time.monotonic() - self._saved_at:.0f} s old"
        return f"in Redis, every {self.interval:g} s: {age}"

    def _claim(self, store: CheckpointStore, row: Checkpoint) -> Checkpoint:
        stored = self.stored.read()
        resumed, doubt = resume(row, stored)
        if doubt:
            log.warning("%s: %s. What follows the slave's own position of %s is applied again, in safe mode.",
                        self.pair, doubt, row.position.time if row.position else "never")  # fmt: skip
        # Above both epochs: what was written with either is outdated from here on.
        claimed = store.claim(above=stored.epoch if stored else 0)
        if resumed.position is not None:
            store.advance(claimed, replace(claimed, position=resumed.position))
            claimed = replace(claimed, position=resumed.position)
        return self._restarted(store, claimed)

    def _row(self, checkpoint: Checkpoint) -> Checkpoint:
        fallback = self._fallback or checkpoint
        return replace(checkpoint, position=fallback.position, target=fallback.target, slice_key=fallback.slice_key)

    def _set_fallback(self, checkpoint: Checkpoint) -> Checkpoint:
        self._fallback, self._next_fallback = checkpoint, None
        self._fallback_at = time.monotonic()
        return checkpoint

    def _save_due(self) -> bool:
        return time.monotonic() >= self._saved_at + self.interval

    def _fallback_due(self) -> bool:
        return time.monotonic() >= self._fallback_at + FALLBACK_INTERVALS * self.interval


def _moved(before: Checkpoint, now: Checkpoint) -> CheckpointMoved:
    what = f"moved from state {before.state} to {now.state}" if now.state is not before.state else "was changed"
    return CheckpointMoved(f"the checkpoint {what}; it is read again")
