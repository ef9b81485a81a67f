"""Writes rejects, marks those that newer changes outdate, and applies one when a person asks for it.

A person asks by the DAG `rejects` or in SQL (`RejectStatus.ASKED`). The running apply answers between two windows,
under its lease and epoch, in one transaction with the change. So nothing races with it, and after a crash the change is
either applied or still asked for.

    not forced    as in normal mode: the row must be what the master had before the change, and no newer
                  change of the row may have been applied since; otherwise the answer says why not
    forced        as in safe mode: the row gets the change's values
"""

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply import displaced_rows
from sluice.apply.checkpoint_writer import SlaveCheckpointWriter
from sluice.apply.key_events import KeyEvents, changed_key_texts
from sluice.apply.log_limiter import LogLimiter
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.window_runs import CutItem
from sluice.control.rejects import RejectStore, key_texts
from sluice.database.apply import ReplayOptions
from sluice.database.conflicts import Conflict
from sluice.database.errors import StatementFailed
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.change import Action, RowChange
from sluice.model.checkpoint import Checkpoint
from sluice.model.guid import key_text
from sluice.model.names import TableName
from sluice.model.reject import Reject, Rejected, RejectStatus
from sluice.transform.table_transform import MOST_NAMED, RowNotTransformed, TableTransform

log = logging.getLogger("sluice.apply")

# The rows of a window that cannot be transformed: with `on_conflict: reject` their changes go to REJECTS.
#
# All other changes of the window are applied. The reject names the row, but has none of its values, because nobody
# knows which of them the slave may have. `resync` with `repair` brings the row once the exit, the expression or the
# row is fixed.


class UntransformedRows:
    """The rows of one window that failed so far."""

    def __init__(self, *, rejecting: bool):
        self._rejecting = rejecting
        self._reasons: dict[TableName, dict[str, str]] = {}
        """Table → the master's key → the reason."""

    @property
    def any(self) -> bool:
        return bool(self._reasons)

    def clear(self) -> None:
        """Forgets the rows of the last window."""
        self._reasons.clear()

    def note(self, failure: RowNotTransformed) -> bool:
        """Adds the rows of `failure`. Returns False if they cannot be set aside.

        That is if so many rows fail that the rows are hardly the cause, or if no key names them.
        """
        reasons = self._reasons.get(failure.table, {})
        more = {key_text(key, list(key)): failure.finding for key in failure.keys if key}
        if not self._rejecting or not more.keys() - reasons.keys() or len(reasons | more) >= MOST_NAMED:
            return False
        self._reasons[failure.table] = more | reasons
        return True

    def without(
        self, items: pa.Table, transform: TableTransform, images: RowImageCodec
    ) -> tuple[pa.Table, list[Rejected]]:
        """The changes of one table without those of the failed rows, and the rejects of the latter."""
        reasons = self._reasons.get(transform.master.table)
        if not reasons or not items.num_rows:
            return items, []
        key = tuple(column.name for column in transform.master.key)
        names = transform.key()
        kept, rejects = [], []
        moving = pc.is_null(items.column("guid")).to_pylist()
        for index, guid in enumerate(items.column("guid").to_pylist()):
            item = items.slice(index, 1)
            touched = changed_key_texts(item, key, images) if moving[index] else {guid}
            reason = next((reasons[text] for text in sorted(touched) if text in reasons), None)
            kept.append(reason is None)
            if reason is not None:
                (change,) = images.changes(item, {transform.master.table: key})
                old, new = (
                    {name: image[column] for column, name in zip(key, names, strict=True)} if image else {}
                    for image in (change.old, change.new)
                )
                change = RowChange(change.repl_key, transform.shape.table, change.action, names, new, old, None, None)
                rejects.append(Rejected(change, reason + HOW_TO_FIX, None))
        return items.filter(pa.array(kept)), rejects


HOW_TO_FIX = ". Fix that, then start the DAG resync with the action repair."


LOOK_SECONDS = 1.0
"""How often REJECTS is read while it has open rejects."""

Overlaps = dict[TableName, dict[str, set[int]]]
"""Table → key of a row with a reject → REPL_KEYs of this window's changes of that row."""


class PairRejects:
    """The rejects of one pair, as its apply knows and writes them."""

    def __init__(self, sessions: PairSessions):
        self.sessions = sessions
        self.pair = sessions.pair
        self._keys: dict[TableName, frozenset[str]] = {}
        """Keys of the rows that have open rejects."""
        self._tables: frozenset[TableName] = frozenset()
        self._differing: list[tuple[TableName, str]] = []
        """Tables that are known to differ, and why."""
        self._next_check = 0.0
        self._limiter = LogLimiter(log)

    def begin(self) -> None:
        """Reads the open rejects, at the start and after every outage."""
        with self._transaction():
            store = self._store()
            self._learn(store.open() if store.ready() else ())

    @property
    def any(self) -> bool:
        """Whether there is an open reject."""
        return bool(self._keys)

    def keys(self, table: TableName) -> Collection[str]:
        """Key texts of the rows of `table` that have open rejects."""
        return self._keys.get(table, ())

    def tables(self) -> Collection[TableName]:
        """The tables that have open rejects of changes."""
        return self._tables

    def note_overlaps(self, events: KeyEvents, table: TableName, overlaps: Overlaps) -> None:
        """Adds the `events` of rows that have open rejects to `overlaps`."""
        keys = self._keys.get(table)
        if not keys or not events.key:
            return
        hits = pc.filter(pa.array(range(len(events))), pc.is_in(events.guid, pa.array(sorted(keys), pa.large_string())))
        repl_keys = events.items.column("repl_key")
        for event in hits.to_pylist():
            noted = overlaps.setdefault(table, {}).setdefault(events.guid[event].as_py(), set())
            noted.add(repl_keys[int(events.item[event])].as_py())

    def put(self, rejects: list[Rejected], overlaps: Overlaps, emptied: Mapping[TableName, int]) -> None:
        """In the window's transaction: writes `rejects`, and marks older ones that the window outdates.

        `emptied`: REPL_KEY of each table's last TRUNCATE.
        """
        store = self._store()
        if rejects:
            store.put(rejects)
        again: Overlaps = {}
        for reject in (reject for reject in rejects if reject.status is not RejectStatus.APPLIED):
            for key in key_texts(reject.change):
                again.setdefault(reject.change.table, {}).setdefault(key, set()).add(reject.change.repl_key)
        for table, keys in overlaps.items():
            aside = again.get(table, {})
            newest = {key: max(done) for key, repl_keys in keys.items() if (done := repl_keys - aside.get(key, set()))}
            if newest:
                store.mark_outdated(table, newest)
        for table, repl_key in emptied.items():
            store.mark_outdated(table, repl_key)

    def drop(self, table: TableName, answer: str = "the table joined again: a load brings its rows") -> None:
        """In the window's transaction: settles the rejects of `table`, because a load brings all its rows."""
        store = self._store()
        if store.ready():
            ids = [reject.id for reject in store.open() if reject.table == table]
            store.move(ids, RejectStatus.DROPPED, "apply", answer=answer)

    def follow(self, cut: CutItem, new: Sequence[Rejected]) -> list[Rejected]:
        """In the transaction of a change of a definition: the rejects go with their table, or get its new name.

        `new`: those that are not written yet; returns what becomes of them.
        """
        if cut.action is Action.DROP:
            if self.any:
                self.drop(cut.table, "the table was dropped on the master")
            return [reject for reject in new if reject.change.table != cut.table]
        now = cut.defined.table if cut.defined is not None else cut.table
        if now == cut.table:
            return list(new)
        store = self._store()
        for reject in store.open() if self.any else ():
            if reject.table == cut.table:
                store.rename(reject.id, now, _reason(now, reject.action, reject.content, reject.reason))
        return [_renamed(reject, now) if reject.change.table == cut.table else reject for reject in new]

    def differing(self, cut: CutItem) -> Rejected:
        """The reject that tells a person that a table differs from the master's from here on."""
        change = RowChange(cut.repl_key, cut.table, cut.action, (), {}, {}, cut.differs, None)
        return Rejected(change, _differs(cut.table, cut.differs), None)

    @property
    def tables_differing(self) -> list[str]:
        """For each table that is known to differ: why, and what to do."""
        return [reason for _, reason in self._differing]

    def differs(self, table: TableName) -> bool:
        """Whether the table is known to differ: its rows may be other ones than its changes expect."""
        return any(table == one for one, _ in self._differing)

    def committed(self, rejects: Iterable[Rejected]) -> None:
        """To be called when what `put` wrote is committed."""
        for reject in rejects:
            table = reject.change.table
            if reject.decision is not None:
                text = f"{self.pair}: a conflict was decided, see REJECTS: {reject.reason} {reject.decision.reason}"
                self._limiter.log(logging.INFO, f"decided {table}", text)
                continue
            if reject.change.action is Action.DIFFER:
                self._differing = [*self._differing, (table, reject.reason)]
            else:
                self._tables |= {table}
            self._keys[table] = self._keys.get(table, frozenset()).union(key_texts(reject.change))
            self._limiter.log(logging.WARNING, "rejected", f"{self.pair}: set aside in REJECTS: {reject.reason}")

    def apply_requested(
        self, checkpoint: Checkpoint, checkpoints: SlaveCheckpointWriter, keep_lease: Callable[[], None]
    ) -> None:
        """Applies the rejects that a person asked for, at `checkpoint`, between two windows."""
        if not self._keys or time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + LOOK_SECONDS
        with self._transaction():
            open_rejects = self._store().open()
        self._learn(open_rejects)
        for reject in open_rejects:
            if reject.status is RejectStatus.ASKED:
                self._apply_requested(reject.id, checkpoint, checkpoints, keep_lease)

    def _apply_requested(
        self, number: int, checkpoint: Checkpoint, checkpoints: SlaveCheckpointWriter, keep_lease: Callable[[], None]
    ) -> None:
        try:
            with self._transaction():
                checkpoints.lock(checkpoint)
                store = self._store()
                requested = store.read([RejectStatus.ASKED], [number], lock=True)
                if not requested:
                    return  # the request was withdrawn
                (reject,) = requested
                answer = reject.outdated or self._apply(reject, checkpoint, keep_lease)
                if answer is None:
                    store.mark_outdated(reject.table, dict.fromkeys(reject.keys, reject.repl_key))
                    store.move([number], RejectStatus.APPLIED, reject.asked_by)
                    # Earlier changes must not be applied again on top of it.
                    checkpoints.advance(checkpoint, checkpoint, cut=True)
                keep_lease()
        except Conflict as refused:
            answer = refused.finding
        except StatementFailed as refused:
            answer = str(refused)  # at the commit
        if answer is None:
            checkpoints.committed(checkpoint)
            log.info("%s: the rejected change %d is applied: %s", self.pair, number, reject)
            return
        log.warning("%s: change %d stays rejected: %s", self.pair, number, answer)
        with self._transaction():
            self._store().move([number], RejectStatus.SET_ASIDE, answer=answer)

    def _apply(self, reject: Reject, checkpoint: Checkpoint, keep_lease: Callable[[], None]) -> str | None:
        """Applies one change and returns None, or does nothing and returns the reason.

        Raises `Conflict` when part of it is done.
        """
        if reject.action == Action.DIFFER:
            return "there is nothing to apply. Load or repair the table"
        if reject.content is None and reject.action != Action.DELETE:
            return "its row could not be transformed. Fix what the reason says, then repair the table"
        try:
            self.sessions.merger.begin()
            options = ReplayOptions(safe=reject.force, images=[reject.table], reject=True)
            done = self.sessions.replayer.replay([reject.change], options)
        except Terminal as refused:
            return str(refused)
        if done.displaced:
            assert checkpoint.position is not None
            displaced_rows.restore_displaced(self.sessions, done.displaced.values(), checkpoint.position, keep_lease)
        return done.rejects[0].reason if done.rejects else None

    def _learn(self, rejects: Collection[Reject]) -> None:
        keys: dict[TableName, set[str]] = {}
        for reject in rejects:
            keys.setdefault(reject.table, set()).update(reject.keys)
        self._keys = {table: frozenset(texts) for table, texts in keys.items()}
        self._differing = [(reject.table, reject.reason) for reject in rejects if reject.action == Action.DIFFER]
        self._tables = frozenset(reject.table for reject in rejects if reject.action != Action.DIFFER)

    def _transaction(self) -> AbstractContextManager[Session]:
        return self.sessions.slave_transaction()

    def _store(self) -> RejectStore:
        return RejectStore.of(self.pair, self.sessions.slave)


def _differs(table: TableName, why: str) -> str:
    tables = json.dumps([str(table)], ensure_ascii=False)
    return (
        f"{table} differs from the master's: {why}. Start the DAG initial_update for this slave with tables: {tables}, "
        "or the DAG resync with the action repair. This is settled once resync finds the table equal."
    )


def _reason(table: TableName, action: str, content: str | None, before: str) -> str:
    """The reason of a reject whose table got this name: that of a DIFFER names the table to be loaded."""
    return _differs(table, content or "") if action == Action.DIFFER else before


def _renamed(reject: Rejected, table: TableName) -> Rejected:
    change = reject.change
    reason = _reason(table, change.action, change.content, reject.reason)
    return replace(reject, change=replace(change, table=table), reason=reason)
