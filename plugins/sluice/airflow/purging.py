"""Deletes changes from ITEMS that every slave has, and keeps ITEMS below `items_limit`."""

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sluice.airflow.task_context import TaskContext
from sluice.configuration.model import SlaveConfig
from sluice.configuration.options import ItemsLimit
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.records import FailoverClaim, ItemsFindings, ItemsState
from sluice.counted import counted
from sluice.database import registry
from sluice.database.changes import ChangeQueue
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session
from sluice.errors import DataLost, SluiceError
from sluice.failover.attempt import Failover
from sluice.model import items_limit
from sluice.model.failover import Action
from sluice.model.items_limit import Waiting
from sluice.model.position import Position
from sluice.model.purging import SlaveNote, lost
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair

log = logging.getLogger("sluice.airflow")

NEEDS_ITEMS = frozenset({SlaveState.TRANSITION, SlaveState.NORMAL, SlaveState.SWITCHING})
"""States in which a slave needs ITEMS beyond its checkpoint; SWITCHING in case its failover is aborted."""


@dataclass
class Needs:
    """Which changes slaves and feeds still need. Keys are names of slaves, or of feeds."""

    positions: dict[str, Position] = field(default_factory=dict)
    """Position that each slave has applied."""
    feeds: dict[str, Position] = field(default_factory=dict)
    """Position up to which each feed has read."""
    holds: dict[str, str] = field(default_factory=dict)
    """Slaves whose needs are unknown, with the reason."""
    dropped: dict[str, str] = field(default_factory=dict)
    """Slaves that were dropped and could not be notified, with the reason of the drop."""
    not_dropped: dict[str, str] = field(default_factory=dict)
    """Slaves that should be dropped and cannot be, with the reason."""


@dataclass
class Purge:
    """One purge of one replication. `noted`: notes of earlier runs on the master, by slave."""

    task: TaskContext
    queue: ChangeQueue
    noted: dict[str, SlaveNote]

    @classmethod
    def of(cls, task: TaskContext, master: Session) -> "Purge":
        endpoint = task.replication.master
        queue = master_of(endpoint.vendor).queue(master, task.prefix, endpoint.schema)
        return cls(task, queue, queue.noted())

    def run(self) -> str:
        """Purges; returns what was done, in words."""
        # Take the position before asking slaves: an update that begins meanwhile starts at a later one.
        now = self._now()
        needs = self._read_needs()
        self.queue.note_holders(needs.holds)
        done = self._purge(now, needs)
        needed = (*needs.positions, *needs.holds)
        positions = {name: needs.positions.get(name) or self._note(name).position for name in needed}
        warning = ""
        limit, why = self._limit()
        if limit.any:
            warning, freed = self._enforce_limit(now, needs, positions, limit, why)
            done += freed
        names = {*positions, *needs.dropped}
        self.queue.note({name: SlaveNote(positions.get(name), needs.dropped.get(name, "")) for name in names})
        self._publish(ItemsFindings(warning, dropped=needs.dropped, not_dropped=needs.not_dropped))
        return done

    def _publish(self, state: ItemsFindings) -> None:
        """Stores the findings in Redis for pages and notices; the purge counts without Redis, too."""
        try:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            ItemsState(self.task.redis, self.task.prefix).write(state, now)
        except SluiceError as failure:
            log.warning("%s: pages and notices do not say how full ITEMS is: %s", self.task, failure)

    def _read_needs(self) -> Needs:
        needs, loading = Needs(), set[str]()
        purged = self.queue.purged()
        for slave in self.task.replication.slaves.values():
            dropped = self._note(slave.name).dropped
            try:
                # A slave that crashes must not need again what is deleted now: secure its checkpoint.
                checkpoint = self.task.checkpoint(slave, secure=True)
                needs_items = checkpoint is not None and checkpoint.state in NEEDS_ITEMS
                if checkpoint is not None and needs_items and checkpoint.position is not None:
                    self.queue.expect_continued([checkpoint.position])
                if dropped and checkpoint is not None and needs_items and lost(checkpoint.position, purged):
                    self._drop_slave(slave, dropped)
                    continue
            except DataLost as replaced:
                # Its position means nothing here: by it, changes that nobody has would be deleted.
                try:
                    self._drop_slave(slave, str(replaced))
                except SluiceError as error:
                    needs.holds[slave.name] = f"slave {slave.name} must be loaded, and cannot be told: {error}"
                continue
            except SluiceError as error:
                if dropped:
                    needs.dropped[slave.name] = dropped
                    log.warning("%s → %s: %s It cannot be told so: %s", self.task, slave.name, dropped, error)
                else:
                    needs.holds[slave.name] = f"slave {slave.name} cannot be asked what it has: {error}"
                continue
            if checkpoint is None:
                continue
            if checkpoint.state is SlaveState.INITIAL:
                # Its start position may be taken and not stored yet.
                needs.holds[slave.name] = f"an initial update of slave {slave.name} is being prepared"
            elif checkpoint.state in NEEDS_ITEMS and checkpoint.position is None:
                needs.holds[slave.name] = f"slave {slave.name} is {checkpoint.state} without a position"
            elif checkpoint.state in NEEDS_ITEMS and checkpoint.position is not None:
                # Blocks of loading tables still need the changes since their markers.
                since = checkpoint.tables.loading_since
                loading |= {slave.name} if since else set()
                needs.positions[slave.name] = registry.parse_position(since) if since else checkpoint.position
        self._read_failover(needs, loading)
        self._read_feeds(needs)
        return needs

    def _read_failover(self, needs: Needs, loading: Collection[str]) -> None:
        """Within a failover its slave needs the changes since the position up to which it was compared: they name the
        rows that are compared once the master refuses writes. `loading`: slaves that need earlier ones."""
        with suppress(SluiceError):  # of Redis or the slave: the failover then says what it did not compare
            claim = FailoverClaim(self.task.redis, self.task.prefix).read()
            if claim is None or claim["slave"] not in needs.positions.keys() - loading:
                return
            endpoint = self.task.of_slave(claim["slave"])
            pair = Pair.of(endpoint.replication, claim["slave"], endpoint.connections)
            failover = Failover.named(pair, claim["id"], Action.CHECK)
            with failover.on_slave() as session:
                record = failover.kept(session).read()
            if record is not None and record.id == claim["id"] and record.compared:
                needs.positions[claim["slave"]] = registry.parse_position(record.compared)

    def _read_feeds(self, needs: Needs) -> None:
        """Adds the positions of feeds; drops feeds that are no longer configured."""
        feeds = self.task.replication.feeds
        for read in self.queue.feeds():
            if read.feed in feeds:
                needs.feeds[f"{read.feed} ({read.table})"] = read.position
            elif self.queue.drop_feed(read.feed):
                log.warning("%s: the feed %s is not configured any more: it is dropped", self.task, read.feed)

    def _purge(self, now: Position, needs: Needs) -> str:
        task = self.task
        if needs.holds:
            reasons = "; ".join(needs.holds.values())
            log.warning("%s: nothing is purged: %s", task, reasons)
            log.warning("%s: %s", task, self._backlog())
            return f"held: {reasons}"
        purged = self._delete(now, needs.positions.values(), needs)
        log.info(
            "%s: purged from ITEMS: %s, which every slave of %d and feed of %d has. %s",
            task, counted(purged, "change"), len(needs.positions), len(needs.feeds), self._backlog(),
        )  # fmt: skip
        if last := items_limit.furthest(needs.positions):
            time = needs.positions[last].time or "unknown"
            log.info("%s: the last one is slave %s, current as of %.19s", task, last, time)
        return f"{counted(purged, 'change')} purged"

    def _limit(self) -> tuple[ItemsLimit, str]:
        """The limit in force, and where it comes from if the configuration has none."""
        limit = self.task.replication.items_limit
        if limit.any or limit.unlimited:
            return limit, ""
        room = self.queue.room()
        return items_limit.default(room) if room is not None else (limit, "")

    def _enforce_limit(
        self, now: Position, needs: Needs, positions: dict[str, Position | None], limit: ItemsLimit, why: str
    ) -> tuple[str, str]:
        """Warns, or drops one slave; returns the warning, and what was done."""
        rows, size = self.queue.waiting()
        waiting = Waiting(rows, size, items_limit.age(now, positions))
        share, last = waiting.share(limit), items_limit.furthest(positions)
        explained = waiting.explain(limit, why)
        log.info("%s: items_limit: %s", self.task, explained)
        warning = items_limit.warning(share, explained, last)
        if share < 1 or last is None:
            if warning:
                log.warning("%s: %s", self.task, warning)
            return warning, ""
        reason = items_limit.reason(explained)
        try:
            self._drop_slave(self.task.replication.slave(last), reason)
        except SluiceError as error:
            if last in needs.positions:
                # It answered a moment ago, so a long transaction or a failover prevents it. The next run tries again.
                needs.not_dropped[last] = f"items_limit is reached, and it cannot be dropped now: {error}"
                log.error("%s → %s: %s", self.task, last, needs.not_dropped[last])
                return warning, ""
            needs.dropped[last] = reason
            log.error("%s → %s: %s It learns of it when it answers.", self.task, last, reason)
        needs.positions.pop(last, None)
        needs.holds.pop(last, None)
        positions.pop(last)
        rest = [position for position in positions.values() if position is not None]
        if len(rest) < len(positions):
            return "", f"; slave {last} dropped, and what others need is not known"
        return "", f"; slave {last} dropped, {counted(self._delete(now, rest, needs), 'change')} purged"

    def _drop_slave(self, slave: SlaveConfig, reason: str) -> None:
        """Makes the slave INCONSISTENT. Raises `ForbiddenMove`, `Transient` if it does not answer."""
        with self.task.at(slave) as session, session.transaction():
            vendor_of(slave.vendor).sessions.limit_lock_waits(session, seconds=10)
            store = CheckpointStore(session, self.task.prefix, slave.schema, slave.name)
            store.move(SlaveState.INCONSISTENT, reason)
        log.error("%s → %s: the slave is INCONSISTENT. %s", self.task, slave.name, reason)

    def _delete(self, now: Position, applied: Iterable[Position], needs: Needs) -> int:
        """Deletes what all slaves at the positions `applied` and all feeds have; returns the number of changes."""
        every = [now, *applied, *needs.feeds.values()]
        return self.queue.purge(every)

    def _now(self) -> Position:
        return self.queue.take()

    def _backlog(self) -> str:
        return str(self.queue.backlog())

    def _note(self, slave: str) -> SlaveNote:
        return self.noted.get(slave, SlaveNote())
