"""One window, applied in one slave transaction that carries the new checkpoint.

A window that one process holds well (see `sluice.apply.slices`) is reduced
here, in the driver: no shuffle, no executor, no stage table. A larger one is read, reduced and staged
by the executors, and merged here. One larger than `max_batch_changes` is applied in slices by
REPL_KEY, each with its own checkpoint; the slave shows that it is catching up until the last of them.

While blocks are loading (state TRANSITION) every window is reduced here, because each change is
decided by the block its key lies in.
"""

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa

from sluice import vendors
from sluice.apply import cascades, causes, net, window
from sluice.apply.aside import Aside, Passed
from sluice.apply.checkpoints import OnSlave
from sluice.apply.content import MixedShapes
from sluice.apply.links import Links
from sluice.apply.markers import Markers
from sluice.apply.seldom import Seldom
from sluice.apply.slices import Slices
from sluice.apply.spread import Spread, T, attended
from sluice.apply.staging import Failure, ShareInterrupted, Span, StageShare
from sluice.apply.window import CutItem, Run
from sluice.domain.blocks import Decision
from sluice.domain.change import Action
from sluice.domain.checkpoint import Checkpoint
from sluice.domain.names import TableName
from sluice.domain.position import Position
from sluice.domain.state import SlaveState
from sluice.errors import Terminal, Transient
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")

STAGING_SECONDS = 900.0
"""Spark's time for its share of a window at the first try."""
FOREIGN_KEY = "23503"
"""SQLSTATE."""


class CannotReplay(Terminal):
    """Changes do not go to the slave in any form."""


class SliceTorn(Transient):
    """A slice ended between rows that the slave's foreign keys want together; a larger one is taken next."""

    def __init__(self, pair: Pair, reason: Exception):
        super().__init__(f"{pair}: a slice of the window is taken again, twice as large: {reason}")


@dataclass(frozen=True)
class Rows:
    """Net changes of one run, ready to be merged; `items` are what they were reduced from."""

    changes: list[Any]
    """`NetChanges` or staged ones, several of a table allowed."""
    items: Callable[[TableName], Any]
    """All changes of a table in this run, to replay them one by one."""
    keys: Mapping[TableName, tuple[str, ...]]
    """The key under which each table's changes were captured."""
    ordered: frozenset[TableName] = frozenset()
    """Tables that must be replayed from the start."""


@dataclass(frozen=True)
class Truncation:
    """A TRUNCATE of the master, and what the blocks under way make of it."""

    cut: CutItem
    decision: Decision = Decision.APPLY
    """WAIT: some blocks were read before it, others after; only rows of the former go."""


Step = Rows | Truncation | CutItem


class Batch:
    """Applies windows of one pair over its links.

    `keep_lease` raises when the lease is lost; `pause` waits a moment, and raises when waiting must end; `attend` is
    called again and again while Spark works, and raises when nobody needs that work any more.
    """

    def __init__(
        self,
        links: Links,
        checkpoints: OnSlave,
        spread: Spread,
        keep_lease: Callable[[], None],
        pause: Callable[[], None],
        attend: Callable[[], None],
    ):
        self.pair = pair = links.pair
        self.links = links
        self.checkpoints = checkpoints
        self.spread = spread
        self._keep_lease = keep_lease
        self._rejecting = pair.slave.on_conflict == "reject"
        self._comparing = False
        self.told_of_ddl = True
        """Whether every change of a definition is queued with what it changed, in one transaction."""
        self._believing = True
        self._pause = pause
        self._attend = attend
        self._patience = 1
        self.aside = Aside(links)
        self._passed: Passed = {}
        self._seldom = Seldom(log)
        self.reached: Position | None = None
        """How far the last attempt may have come: where safe mode must last after a failure."""
        self._labels = itertools.count(1)
        self.slices = Slices(links)

    def apply(self, checkpoint: Checkpoint, seen: Position, target: Position, *, safe: bool) -> Checkpoint | None:
        """Applies `(seen, target]`, or its next slice; the new checkpoint, None when nothing was there.

        `seen` is the checkpoint's position, or one after it that no change lies between. Raises
        `Drift` and other `Terminal`s after rolling back, `Transient` for outages.
        """
        self._comparing = not safe and self.pair.slave.compare_values
        self._believing = self.told_of_ddl or safe or checkpoint.catching_up
        try:
            return self._apply(checkpoint, seen, target, safe)
        except vendors.module(self.pair.slave_info.vendor, "drift").Misfit as misfit:
            if self._believing:
                raise
            # Rows that a change of definition made anew differ until the comparison of definitions queues them.
            log.info("%s: a second look at the definitions, because: %s", self.pair, misfit)
            self._believing = True
            self.links.definitions.clear()
            self.links.compare_structure()
            return self._apply(checkpoint, seen, self.links.take_position(seen), safe)

    def _apply(self, checkpoint: Checkpoint, seen: Position, target: Position, safe: bool) -> Checkpoint | None:
        try:
            return self._attempt(checkpoint, seen, target, safe)
        except vendors.module(self.pair.slave_info.vendor, "target").ColumnMissing as missing:
            # The slave's table may have got it since it was looked at; after a rollback it is looked at anew.
            log.info("%s: a second look at the slave's tables, because: %s", self.pair, missing)
            return self._attempt(checkpoint, seen, target, safe)

    def _attempt(self, checkpoint: Checkpoint, seen: Position, target: Position, safe: bool) -> Checkpoint | None:
        self.reached = target
        self._passed = {}
        loading = checkpoint.state is SlaveState.TRANSITION
        above = checkpoint.slice_key or 0
        if seen == target and not above and not loading:
            return None
        items, slice_end = self.slices.here(seen, target, above, loading, self._images)
        if items is None:
            return self._apply_staged(checkpoint, seen, target, above, safe)
        if not items.num_rows and not above and not loading:
            return None
        return self._apply_here(checkpoint, seen, target, items, slice_end, safe)

    @property
    def _images(self) -> bool:
        """Whether this window is read with the old images of all its changes."""
        return self._comparing or self._rejecting or self.links.merger.cascades

    def _compares(self, table: TableName) -> bool:
        """Whether rows of the table must look as the master's did: not where the master's updates do not travel."""
        rule = self.pair.replication.rule(table)
        return self._comparing and (rule is None or "U" in rule.actions)

    # In the driver

    def _apply_here(
        self,
        checkpoint: Checkpoint,
        seen: Position,
        target: Position,
        items: Any,
        slice_end: int | None,
        safe: bool,
    ) -> Checkpoint | None:
        """`slice_end`: the last REPL_KEY of `items` when more of the window follows."""
        markers = None
        if checkpoint.state is SlaveState.TRANSITION:
            markers = Markers(self.pair, self.links, seen, self._pause)
        whole = slice_end is None
        complete = whole and markers is not None and markers.complete(target)
        if not items.num_rows and not complete and not checkpoint.catching_up:
            return None
        steps = self._steps(items, seen, checkpoint.slice_key or 0, markers, safe)
        complete = whole and markers is not None and markers.complete(target)
        if whole:
            after = checkpoint.advanced(target, items.num_rows)
        else:
            assert slice_end is not None
            after = checkpoint.sliced(target, slice_end, items.num_rows)
        if complete:
            after = replace(after, state=SlaveState.NORMAL)
        return self._commit(checkpoint, after, steps, markers, safe)

    def _steps(self, items: Any, seen: Position, above: int, markers: Markers | None, safe: bool) -> list[Step]:
        steps: list[Step] = []
        for run in window.runs(items):
            self.links.definitions.load([run.table] if isinstance(run, CutItem) else run, seen, above)
            steps.append(self._cut(run, markers) if isinstance(run, CutItem) else self._reduce(run, markers, safe))
        return steps

    def _cut(self, cut: CutItem, markers: Markers | None) -> Step:
        if cut.action is not Action.TRUNCATE:
            self.links.definitions.follow(cut)
            return cut
        # Decided before the slave's transaction begins: it may have to wait for a block.
        return Truncation(cut, markers.truncated(cut.table, cut.transaction) if markers else Decision.APPLY)

    def _reduce(self, run: Run, markers: Markers | None, safe: bool) -> Rows:
        kept: dict[TableName, Any] = {}
        changes: list[Any] = []
        ordered: set[TableName] = set()
        keys = {table: self.links.definitions.key(table) for table in run}
        for table, items in run.items():
            try:
                found = net.events(items, keys[table])
                self.aside.meet(found, table, self._passed)
                keep = markers.keep(found, table) if markers is not None else None
                kept[table] = items if keep is None else net.kept_items(found, keep)
                changes.append(net.reduce(found, keep, before=self._compares(table), safe=safe))
            except MixedShapes as mixed:
                log.info("%s: %s", self.pair, mixed)
                kept.setdefault(table, items)
                ordered.add(table)
        return Rows(changes, kept.__getitem__, keys, frozenset(ordered))

    # By the executors

    def _apply_staged(
        self,
        checkpoint: Checkpoint,
        seen: Position,
        target: Position,
        above: int,
        safe: bool,
    ) -> Checkpoint:
        survey = self.slices.staged(seen, target, above)
        changes, end = survey.changes, survey.last if survey.more else None
        self._load_definitions(seen, above)
        after = checkpoint.advanced(target, changes) if end is None else checkpoint.sliced(target, end, changes)
        try:
            steps = self._staged_steps(Span(seen, target, above, end), survey.cuts, checkpoint.epoch, safe)
            return self._commit(checkpoint, after, steps, None, safe)
        finally:
            self.drop_stages(checkpoint.epoch)

    def _staged_steps(self, span: Span, cuts: Sequence[Any], epoch: int, safe: bool) -> list[Step]:
        steps: list[Step] = []
        seen, target, begin = span.previous, span.target, span.above
        for cut in cuts:
            steps += self._stage(Span(seen, target, begin, cut.repl_key - 1), epoch, safe)
            if cut.action != Action.TRUNCATE:
                # What follows needs the new definition, and the slave has it only within the transaction.
                rest = self._items(replace(span, above=cut.repl_key - 1))
                return steps + self._steps(rest, seen, span.above, None, safe)
            item = self.links.reader.items(seen, target, above=cut.repl_key - 1, up_to=cut.repl_key)
            steps += self._steps(item, seen, span.above, None, safe)
            begin = cut.repl_key
        return steps + self._stage(Span(seen, target, begin, span.up_to), epoch, safe)

    def _items(self, span: Span) -> Any:
        bounds = {"above": span.above, "up_to": span.up_to}
        return self.links.reader.items(span.previous, span.target, **bounds, images=self._images)

    def _stage(self, span: Span, epoch: int, safe: bool) -> list[Step]:
        previous, target, bounds = span.previous, span.target, {"above": span.above, "up_to": span.up_to}
        reader = self.links.reader
        moved = reader.key_changes(previous, target, **bounds)
        definitions = self.links.definitions
        apart: dict[TableName, frozenset[str]] = {}
        changes: list[Any] = []
        if moved.num_rows:
            tables = window.by_table(moved)
            apart = {table: frozenset(net.entangled(items, definitions.key(table))) for table, items in tables.items()}
            here = reader.key_changes(previous, target, **bounds, guids=apart, images=self._comparing)
            for table, items in window.by_table(here).items():
                found = net.events(items, definitions.key(table))
                changes.append(net.reduce(found, before=self._compares(table), safe=safe))
        keys = definitions.known()
        if aside := {table: self.aside.keys(table) for table in self.aside.tables() if table in keys}:
            again = reader.key_changes(previous, target, **bounds, guids=aside)
            for table, items in window.by_table(again).items():
                self.aside.meet(net.events(items, keys[table]), table, self._passed)
        parts = self._attended(lambda: self.spread.parallelism)
        compared = frozenset(table for table in keys if self._compares(table))
        share = StageShare(self.pair, span, parts, epoch, str(next(self._labels)), keys, apart, compared, safe)
        for staged in self._attended(lambda: self.spread.map(share, parts)):
            if isinstance(staged, Failure) and staged.passing:
                raise ShareInterrupted(staged.message)
            if isinstance(staged, Failure):
                # Here the same changes say by themselves what is the matter, and policies apply to them.
                log.info("%s: %s The window is reduced by the driver.", self.pair, staged.message)
                return self._steps(self._items(span), previous, span.above, None, safe)
            changes.extend(staged)

        @cache
        def everything() -> Run:
            return window.by_table(self._items(span))

        return [Rows(changes, lambda table: everything()[table], keys)] if changes else []

    def _attended(self, work: Callable[[], T]) -> T:
        """Spark's work, while the lease is kept and a wish to stop is heeded."""
        try:
            done = attended(work, self._attend, STAGING_SECONDS * self._patience)
        except Transient:
            # The next try has longer, so that slow work is not begun for ever.
            self._patience *= 2
            self.spread.cancel()
            raise
        self._patience = 1
        return done

    def _load_definitions(self, seen: Position, above: int) -> None:
        """Of all captured tables, because the executors will meet any of them."""
        info = self.pair.master_info
        with self.links.on(info):
            registry = vendors.module(info.vendor, "tables_registry").Registry(
                self.links.master, self.pair.prefix, self.pair.replication.master.schema
            )
            tables = registry.tables()
        self.links.definitions.load(tables, seen, above)

    def drop_stages(self, epoch: int) -> None:
        """Drops the stage tables of `epoch` and of all before it."""
        info = self.pair.slave_info
        with self.links.on(info), self.links.slave_transaction() as slave:
            slave.execute("SET LOCAL synchronous_commit = off")
            # Not those of a successor, should we have been overtaken.
            module = vendors.module(info.vendor, "stage")
            module.drop(slave, self.pair.prefix, self.pair.slave.schema, below=epoch + 1)

    # In one transaction

    def _commit(
        self,
        before: Checkpoint,
        after: Checkpoint,
        steps: Sequence[Step],
        markers: Markers | None,
        safe: bool,
    ) -> Checkpoint:
        info = self.pair.slave_info
        drift, connections = vendors.module(info.vendor, "drift"), vendors.module(info.vendor, "connection")
        cut = any(not isinstance(step, Rows) for step in steps)
        every = {change.table for step in steps if isinstance(step, Rows) for change in step.changes}
        emptied = {step.cut.table: step.cut.repl_key for step in steps if isinstance(step, Truncation)}
        ordered: set[TableName] = set()
        at_once: set[str] = set()
        reached = after.target or after.position
        assert reached is not None
        while True:
            self._keep_lease()
            try:
                with self.links.on(info), self.links.slave_transaction() as slave:
                    slave.execute("SET CONSTRAINTS ALL DEFERRED")
                    for constraint in sorted(at_once):
                        slave.execute(f"SET CONSTRAINTS {constraint} IMMEDIATE")
                    self.checkpoints.lock(before)
                    rejects: list[Any] = []
                    for step in _grouped(steps):
                        if isinstance(step, Rows):
                            rejects = self._merge(step, ordered, safe, rejects)
                        elif isinstance(step, list):
                            self._truncate(step, markers)
                        else:
                            self.links.alterer.apply(step)
                            if markers is not None and step.action is Action.DROP:
                                markers.dropped(step.table)
                    if rejects or self._passed or (emptied and self.aside.any):
                        self.aside.put(rejects, self._passed, emptied)
                    cascades.check(self.links, slave)
                    self._keep_lease()
                    # Late: by now the master's own commits have usually taken it to the disk.
                    self.links.secure(reached)
                    self.checkpoints.advance(before, after, cut=cut)
                self.slices.committed()
                self.aside.committed(rejects)
                return after
            except drift.Collision as collision:
                # Then that table change by change; if even this meets another table's rows, all of them together.
                if every <= ordered:
                    raise CannotReplay(str(collision)) from collision
                self._seldom.say(logging.INFO, f"collision {collision.table}", f"{self.pair}: {collision}")
                ordered |= every if collision.table in ordered else self._apart(collision.table, every)
            except drift.Misfit as misfit:
                # Changes that fit only in their order across tables look like a misfit when tables are taken singly.
                # So do rows that the slave's foreign keys have led to where the master's did.
                singly = ordered or self._rejecting or self.links.merger.cascades
                if every <= ordered or not self._believing or not singly:
                    raise
                told = f"{self.pair}: {misfit} The changes are now taken one by one."
                self._seldom.say(logging.INFO, f"misfit {misfit.table}", told)
                ordered |= every if ordered else self._apart(misfit.table, every)
            except connections.StatementFailed as failure:
                if failure.sqlstate == FOREIGN_KEY and after.catching_up:
                    # Checked at commit: the slice ends between rows that refer to one another.
                    self.slices.torn()
                    raise SliceTorn(self.pair, failure) from failure
                unsettled = drift.at_commit(failure.__cause__)
                if unsettled is None:
                    raise
                if not self._rejecting or unsettled.constraint in at_once:
                    raise unsettled from failure
                # Checked at once, it tells which change is at fault.
                at_once.add(unsettled.constraint)
                ordered |= self._apart(unsettled.table, every)

    def _apart(self, table: TableName, every: Collection[TableName]) -> set[TableName]:
        """What must be replayed with `table`: where foreign keys act, all that they connect with it."""
        merger = self.links.merger
        kin: set[TableName] = merger.targets.kin(table, every) if merger.cascades else {table}
        return kin

    def _merge(self, rows: Rows, ordered: set[TableName], safe: bool, rejects: list[Any]) -> list[Any]:
        """What is set aside so far: `rejects`, and what is added to them."""
        replayed = ordered | rows.ordered
        self.links.merger.merge([change for change in rows.changes if change.table not in replayed], safe=safe)
        present = {change.table for change in rows.changes} | rows.ordered
        together = [rows.items(table) for table in sorted(replayed & present)]
        if together:
            items = pa.concat_tables(together).sort_by("repl_key")
            merger = self.links.merger
            if merger.cascades:
                items = causes.ordered(items, rows.keys, merger.targets.foreign_keys(sorted(replayed & present)))
            compared = [table for table in rows.keys if self._compares(table)]
            done = self.links.replayer.replay(
                items, rows.keys, safe=safe, images=compared, reject=self._rejecting, aside=rejects
            )
            rejects = done.rejects
        return rejects

    def _truncate(self, truncations: Sequence[Truncation], markers: Markers | None) -> None:
        """All that follow one another: tables that refer to each other can only be emptied together."""
        whole = [each.cut.table for each in truncations if each.decision is Decision.APPLY]
        if whole:
            self.links.alterer.truncate(whole)
        for each in truncations:
            if each.decision is Decision.WAIT and markers is not None:
                table, keys = each.cut.table, self.links.alterer.keys(each.cut.table)
                self.links.alterer.delete(table, markers.keys_to_truncate(table, each.cut.transaction, keys))


def _grouped(steps: Iterable[Step]) -> Iterator[Rows | CutItem | list[Truncation]]:
    """The steps, with truncations that follow one another as one."""
    waiting: list[Truncation] = []
    for step in steps:
        if isinstance(step, Truncation):
            waiting.append(step)
            continue
        if waiting:
            yield waiting
            waiting = []
        yield step
    if waiting:
        yield waiting
