"""How an apply reads and writes the checkpoint of its slave.

SlaveCheckpointWriter    the position stands in the slave's row, written in the transaction that carries the data
RedisCheckpointWriter    it goes to Redis at an interval and at shutdown; the row keeps an older one, the anchor
           (`sluice.model.checkpoint_recovery`), and counts changes in the transactions that carry them
"""

import logging
import time
from dataclasses import replace

from sluice.apply.pair_sessions import PairSessions
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.gate import Gate
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.coordination.redis_store import StoreUnreachable
from sluice.database.errors import DatabaseError
from sluice.database.registry import vendor_of
from sluice.errors import SluiceError, Terminal
from sluice.model.checkpoint import Checkpoint, CheckpointMoved, Fenced, IsMaster
from sluice.model.checkpoint_recovery import ANCHOR_INTERVALS, Stored, resume
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")


class NotTakenOver(Terminal):
    """The slave's changes are to come from another source, and its position alone does not say what it has."""

    def __init__(self, pair: Pair, why: str):
        super().__init__(
            f"{pair}: the configuration names another capture, and the slave cannot go over to it: {why}. Put the "
            "former capture back, start the apply, and go over when the slave is NORMAL, all of its tables are ready "
            "and its checkpoint is kept on it."
        )


class SlaveCheckpointWriter:
    """The checkpoint of one pair, over its sessions."""

    overlap = False
    """Whether the slave may hold more than the checkpoint says."""

    def __init__(self, sessions: PairSessions, gate: Gate):
        self.sessions = sessions
        self.gate = gate
        self.pair = sessions.pair

    def claim(self) -> Checkpoint | None:
        """A new epoch, committed; None where the slave was never configured.

        An admin's closure that Redis has lost is back in it afterwards.
        """
        sessions = self.sessions
        driver = vendor_of(self.pair.slave_info.vendor).sessions
        # No crash of the slave may give this epoch out a second time.
        with sessions.slave_transaction(durable=True):
            # A former apply may still be in its last transaction; who waits says so and tries again.
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
            # Under the row's lock: who opens the gate clears the row first, then Redis.
            if row.closed and self.gate.restore(row.closed):
                log.warning("%s: an admin has closed the gate and Redis did not know it: it is closed again", self.pair)
            return self._claim(store, row)

    def begin(self, position: Position) -> None:
        """The slave, whose tables are as `position` has them, begins there: its first row of CHECKPOINT, NORMAL."""
        with self.sessions.slave_transaction(durable=True):
            store = self._store()
            store.ensure()
            store.move(SlaveState.INITIAL)
            store.start_at(position)
            store.move(SlaveState.NORMAL)

    def read(self, mine: Checkpoint) -> Checkpoint:
        """The checkpoint as it stands now. Raises `Fenced`, `CheckpointMoved`."""
        with self.sessions.slave_transaction():
            return self._still_mine(self._store().read(), mine)

    def lock(self, mine: Checkpoint) -> None:
        """In an apply transaction: nobody else moves the checkpoint from here to the commit.

        Raises `Fenced` and `CheckpointMoved`.
        """
        now = self._still_mine(self._store().read(lock=True), mine)
        if not now.same_place(self._row(mine)):
            raise _moved(mine, now)

    def advance(self, before: Checkpoint, after: Checkpoint, *, cut: bool) -> None:
        """The last statement of an apply transaction. `cut`: it did what must not be done twice.

        A restart begins after it. That is:

        Definitions that changed, tables that were emptied, changes set aside or applied because somebody asked.
        """
        del cut
        self._store().advance(before, after)

    def committed(self, after: Checkpoint) -> None:
        """What `advance` wrote is committed."""

    def idle(self, before: Checkpoint, after: Checkpoint) -> Checkpoint:
        """Nothing changed on the master between the two. Losing this in a crash costs nothing."""
        return self._alone(before, after, durable=False)

    def taken_over(self, claimed: Checkpoint) -> Checkpoint:
        """The checkpoint as the source has it, durably, where the slave's changes came from another source before.

        Raises `NotTakenOver` where the position alone does not say what is applied, and what `Takeover` raises.
        """
        place = self.sessions.taken_over(claimed.position) if claimed.position is not None else None
        if place is None:
            return claimed
        reasons = {
            "its checkpoint is in Redis (checkpoint: redis)": self.overlap,
            f"it is {claimed.state}": claimed.state is not SlaveState.NORMAL,
            "a large window is applied in part": claimed.catching_up,
            "tables are loading": claimed.loading,
        }
        if why := next((reason for reason, there in reasons.items() if there), None):
            raise NotTakenOver(self.pair, why)
        log.info("%s: changes come from another source from now on, %s is %s there", self.pair, claimed.position, place)
        return self._alone(claimed, replace(claimed.advanced(place, 0), safemode_exit=None), durable=True)

    def clear_exit(self, before: Checkpoint) -> Checkpoint:
        """The exit point of safe mode is gone, durably."""
        return self._alone(before, replace(before, safemode_exit=None), durable=True)

    def save(self, mine: Checkpoint) -> None:
        """At shutdown, and before what is known of the slave is forgotten; best effort."""

    def note(self, mine: Checkpoint, message: str, safemode_exit: Position | None) -> None:
        """Leaves word on the slave why applying stopped; best effort."""
        if not self.sessions.opened:
            return
        try:
            with self.sessions.slave_transaction():
                self._store().note(mine, message, safemode_exit)
        except DatabaseError as error:
            log.warning("%s: the slave's checkpoint could not be annotated: %s", self.pair, error)

    def give_up(self, mine: Checkpoint, message: str) -> None:
        """The slave is INCONSISTENT from here on; best effort."""
        if not self.sessions.opened:
            return
        try:
            with self.sessions.slave_transaction():
                self.lock(mine)
                self._store().move(SlaveState.INCONSISTENT, message)
        except SluiceError as error:
            log.warning("%s: the slave could not be marked INCONSISTENT: %s", self.pair, error)

    def explain(self) -> str:
        """For pages: where the checkpoint is."""
        return "on the slave, in each transaction"

    def _claim(self, store: CheckpointStore, row: Checkpoint) -> Checkpoint:
        del row
        return store.claim()

    def _row(self, mine: Checkpoint) -> Checkpoint:
        """What the slave's row says while this apply holds `mine`."""
        return mine

    def _alone(self, before: Checkpoint, after: Checkpoint, *, durable: bool) -> Checkpoint:
        """Writes a checkpoint without data."""
        with self.sessions.slave_transaction(durable=durable):
            self.lock(before)
            self._store().advance(before, after)
        return after

    def _still_mine(self, now: Checkpoint | None, mine: Checkpoint) -> Checkpoint:
        if now is None:
            raise CheckpointMoved("the checkpoint is gone; it is read again")
        if now.state is SlaveState.MASTER:
            raise IsMaster(self.pair.slave.name, mine.epoch, now.message)
        if now.epoch != mine.epoch:
            raise Fenced(self.pair.slave.name, mine.epoch)
        if now.closed:
            raise CheckpointMoved("an admin has closed the gate; all is read again")
        return now

    def _store(self) -> CheckpointStore:
        slave = self.pair.slave
        return CheckpointStore(self.sessions.slave, self.pair.prefix, slave.schema, slave.name)


class RedisCheckpointWriter(SlaveCheckpointWriter):
    """The position in Redis, everything else on the slave. `interval`: seconds between two writes to Redis."""

    overlap = True

    def __init__(self, sessions: PairSessions, gate: Gate, stored: StoredCheckpoint, interval: float):
        super().__init__(sessions, gate)
        self.stored = stored
        self.interval = interval
        self._anchor: Checkpoint | None = None
        """Its place is what the slave's row says."""
        self._next_anchor: Checkpoint | None = None
        """The same once the transaction that is under way is committed."""
        self._saved_at = self._anchored_at = time.monotonic()
        self._failing = False

    def claim(self) -> Checkpoint | None:
        claimed = super().claim()
        if claimed is not None:
            self._anchored(claimed)
            self.save(claimed)
        return claimed

    def read(self, mine: Checkpoint) -> Checkpoint:
        """The row as it stands now, its place being the position in Redis unless somebody else moved it."""
        now = super().read(mine)
        return replace(mine, message=now.message) if now.same_place(self._row(mine)) else self._anchored(now)

    def advance(self, before: Checkpoint, after: Checkpoint, *, cut: bool) -> None:
        # What must not come again, or would be seen half done, is anchored with its data.
        moved = after.state is not before.state or after.tables != before.tables
        rare = cut or moved or before.catching_up or after.catching_up
        self._next_anchor = after if rare or self._anchor_due() else None
        self._store().advance(before, self._next_anchor or self._row(after))

    def committed(self, after: Checkpoint) -> None:
        anchored = self._next_anchor
        if anchored is not None:
            self._anchored(anchored)
        if anchored is not None or self._save_due():
            self.save(after)

    def idle(self, before: Checkpoint, after: Checkpoint) -> Checkpoint:
        if self._anchor_due():
            self._anchored(self._alone(before, after, durable=True))
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

    def save(self, mine: Checkpoint) -> None:
        if self._anchor is None or self._anchor.position is None or mine.position is None or mine.catching_up:
            return
        self._saved_at = time.monotonic()
        try:
            written = self.stored.write(Stored(mine.epoch, self._anchor.position, mine.position, mine.changes))
        except StoreUnreachable as error:
            log.log(logging.DEBUG if self._failing else logging.WARNING, "%s: the checkpoint is not saved: %s Until it "
                    "is, what is applied comes again after a restart.", self.pair, error)  # fmt: skip
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
        place, doubt = resume(row, stored)
        if doubt:
            log.warning("%s: %s. What followed the slave's own position of %s comes again, in safe mode.",
                        self.pair, doubt, row.position.time if row.position else "never")  # fmt: skip
        # Above both epochs: what either wrote before is an old one from here on.
        claimed = store.claim(above=stored.epoch if stored else 0)
        if place.position is not None:
            store.advance(claimed, replace(claimed, position=place.position))
            claimed = replace(claimed, position=place.position)
        return claimed

    def _row(self, mine: Checkpoint) -> Checkpoint:
        anchor = self._anchor or mine
        return replace(mine, position=anchor.position, target=anchor.target, slice_key=anchor.slice_key)

    def _anchored(self, checkpoint: Checkpoint) -> Checkpoint:
        self._anchor, self._next_anchor = checkpoint, None
        self._anchored_at = time.monotonic()
        return checkpoint

    def _save_due(self) -> bool:
        return time.monotonic() >= self._saved_at + self.interval

    def _anchor_due(self) -> bool:
        return time.monotonic() >= self._anchored_at + ANCHOR_INTERVALS * self.interval


def _moved(before: Checkpoint, now: Checkpoint) -> CheckpointMoved:
    what = f"moved from state {before.state} to {now.state}" if now.state is not before.state else "was changed"
    return CheckpointMoved(f"the checkpoint {what}; it is read again")
