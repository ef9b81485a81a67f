"""One window, applied in one slave transaction that carries the new checkpoint.

A window that one process holds well (see `sluice.apply.slices`) is reduced
here, in the driver: no shuffle, no executor, no stage table. A larger one is read, reduced and staged
by the executors, and merged here. One larger than `max_batch_changes` is applied in slices by
REPL_KEY, each with its own checkpoint; the slave shows that it is catching up until the last of them.

While blocks are loading (state TRANSITION) every window is reduced here, because each change is
decided by the block its key lies in.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply import cascades, causes, displaced, net, window
from sluice.apply.aside import Aside, Passed
from sluice.apply.checkpoints import OnSlave
from sluice.apply.content import MixedShapes
from sluice.apply.joining import Joining
from sluice.apply.links import Links
from sluice.apply.markers import Markers
from sluice.apply.seldom import Seldom
from sluice.apply.slices import Slice, Slices
from sluice.apply.spread import Spread
from sluice.apply.stages import Stages
from sluice.apply.steps import LeftOut, Rows, Step, Truncation, grouped
from sluice.apply.window import CutItem, Run
from sluice.database.apply import Displaced, Staged, Texts
from sluice.database.changes import Survey
from sluice.database.conflicts import Collision, ColumnMissing, Conflict
from sluice.database.errors import StatementFailed
from sluice.database.registry import vendor_of
from sluice.domain.blocks import Decision
from sluice.domain.change import EMPTYING, Action, NetChanges
from sluice.domain.checkpoint import Checkpoint
from sluice.domain.names import TableName
from sluice.domain.position import Position
from sluice.domain.reject import Rejected
from sluice.domain.state import SlaveState
from sluice.domain.table_state import how_to_load
from sluice.domain.window import Window
from sluice.errors import Terminal, Transient
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")


class CannotReplay(Terminal):
    """Changes do not go to the slave in any form."""


class SliceTorn(Transient):
    """A slice ended between rows that the slave's constraints want together; a larger one is taken next."""

    def __init__(self, pair: Pair, reason: Exception):
        super().__init__(f"{pair}: a slice of the window is taken again, twice as large: {reason}")


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
        self._keep_lease = keep_lease
        self._rejecting = pair.slave.on_conflict == "reject"
        self._comparing = False
        self._believing = True
        self._pause = pause
        self.aside = Aside(links)
        self.stages = Stages(links, spread, self.aside, attend)
        self._passed: Passed = {}
        self._displaced: dict[tuple[TableName, Texts], Displaced] = {}
        self._seldom = Seldom(log)
        self.reached: Position | None = None
        """How far the last attempt may have come: where safe mode must last after a failure."""
        self._replaced_up_to: Position | None = None
        """The end of a window whose changes may take the place of rows that a DELETE WHERE removes after them."""
        self.slices = Slices(links)

    def apply(self, checkpoint: Checkpoint, seen: Position, target: Position, *, safe: bool) -> Checkpoint | None:
        """Applies `(seen, target]`, or its next slice; the new checkpoint, None when nothing was there.

        `seen` is the checkpoint's position, or one after it that no change lies between. Raises
        `Drift` and other `Terminal`s after rolling back, `Transient` for outages.
        """
        safe = safe or target == self._replaced_up_to
        self._comparing = not safe and self.pair.slave.compare_values
        self._believing = safe
        try:
            return self._apply(checkpoint, seen, target, safe)
        except Conflict as conflict:
            if self._believing:
                raise
            # Rows that a change of definition made anew differ until the comparison of definitions queues them.
            log.info("%s: a second look at the definitions, because: %s", self.pair, conflict.finding)
            self._believing = True
            self.links.definitions.clear()
            self.links.compare_structure()
            now = self.links.take_position(seen)
            # The end of a window in slices stays. What was queued by now may lie behind it.
            target = target if checkpoint.catching_up else now
            if self.links.reader.has(Window(seen, now), Action.DELETE_WHERE):
                safe, self._comparing, self._replaced_up_to = True, False, target
            return self._apply(checkpoint, seen, target, safe)

    def _apply(self, checkpoint: Checkpoint, seen: Position, target: Position, safe: bool) -> Checkpoint | None:
        try:
            return self._attempt(checkpoint, seen, target, safe)
        except ColumnMissing as missing:
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
        found = self.slices.next(Window(seen, target, above), loading, self._images)
        if self._deletes_where(found):
            # Found by comparison, it comes later than what took the place of the rows that it deletes.
            safe, self._comparing, self._believing = True, False, True
        if found.survey is not None:
            return self._apply_staged(checkpoint, seen, target, found.survey, safe)
        if not found.items.num_rows and not above and not loading:
            return None
        return self._apply_here(checkpoint, seen, target, found.items, found.end, safe)

    @staticmethod
    def _deletes_where(found: Slice) -> bool:
        if found.survey is not None:
            return any(cut.action == Action.DELETE_WHERE for cut in found.survey.cuts)
        return bool(pc.any(pc.equal(found.items.column("action"), str(Action.DELETE_WHERE))).as_py())

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
        items: pa.Table,
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
        joining = Joining(checkpoint.tables, self.links, markers)
        steps = self._steps(items, seen, checkpoint.slice_key or 0, joining, safe)
        complete = whole and markers is not None and markers.complete(target)
        if whole:
            after = checkpoint.advanced(target, items.num_rows)
        else:
            assert slice_end is not None
            after = checkpoint.sliced(target, slice_end, items.num_rows)
        if complete:
            after = replace(after, state=SlaveState.NORMAL)
        return self._commit(checkpoint, replace(after, tables=joining.states), steps, markers, safe)

    def _steps(self, items: pa.Table, seen: Position, above: int, joining: Joining, safe: bool) -> list[Step]:
        steps: list[Step] = []
        for run in window.runs(items):
            if isinstance(run, CutItem):
                steps += self._cut(run, seen, above, joining)
                continue
            applied = {table: items for table, items in run.items() if table not in joining.states}
            self.links.definitions.load(applied, seen, above)
            steps.append(self._reduce(applied, joining.markers, safe))
        return steps

    def _cut(self, cut: CutItem, seen: Position, above: int, joining: Joining) -> list[Step]:
        if cut.action not in EMPTYING:
            self.links.definitions.load([cut.table], seen, above)
            self.links.definitions.follow(cut)
            return joining.follow(cut)
        if cut.table in joining.states:
            return []
        self.links.definitions.load([cut.table], seen, above)
        markers = joining.markers
        # Decided before the slave's transaction begins: it may have to wait for a block.
        return [Truncation(cut, markers.truncated(cut.table, cut.transaction) if markers else Decision.APPLY)]

    def _reduce(self, run: Run, markers: Markers | None, safe: bool) -> Rows:
        kept: dict[TableName, pa.Table] = {}
        changes: list[NetChanges | Staged] = []
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
        survey: Survey,
        safe: bool,
    ) -> Checkpoint:
        above, changes = checkpoint.slice_key or 0, survey.changes
        end = survey.last if survey.more else None
        after = checkpoint.advanced(target, changes) if end is None else checkpoint.sliced(target, end, changes)
        joining = Joining(checkpoint.tables, self.links, None)
        how: dict[str, Any] = {
            "compares": self._compares,
            "images": self._images,
            "safe": safe,
            "left_out": joining.states,
        }
        try:
            steps, rest = self.stages.steps(
                Window(seen, target, above, end), survey, checkpoint.epoch, self._passed, **how
            )
            if rest is not None:
                items = self.links.reader.items(rest, images=self._images)
                steps += self._steps(items, seen, above, joining, safe)
            return self._commit(checkpoint, replace(after, tables=joining.states), steps, None, safe)
        finally:
            self.stages.drop(checkpoint.epoch)

    # In one transaction

    def _commit(
        self,
        before: Checkpoint,
        after: Checkpoint,
        steps: Sequence[Step],
        markers: Markers | None,
        safe: bool,
    ) -> Checkpoint:
        target = vendor_of(self.pair.slave_info.vendor).applying
        cut = any(not isinstance(step, Rows) for step in steps)
        every = {change.table for step in steps if isinstance(step, Rows) for change in step.changes}
        written = every.union(*(step.ordered for step in steps if isinstance(step, Rows)))
        emptied = {step.cut.table: step.cut.repl_key for step in steps if isinstance(step, Truncation)}
        ordered: set[TableName] = set()
        at_once: set[str] = set()
        settle = False
        reached = after.target or after.position
        begun = before.position
        assert reached is not None and begun is not None
        definitions = [step for step in steps if isinstance(step, CutItem)]
        if definitions:
            with self.links.slave_transaction():
                self.links.alterer.prepare(definitions)
        while True:
            self._keep_lease()
            try:
                with self.links.slave_transaction() as slave:
                    self.links.merger.begin(at_once)
                    self.checkpoints.lock(before)
                    rejects: list[Rejected] = []
                    self._displaced = {}
                    for step in grouped(steps):
                        if isinstance(step, Rows):
                            rejects = self._merge(step, ordered, safe, rejects, deferrable=settle)
                        elif isinstance(step, list):
                            self._truncate(step, markers)
                        elif isinstance(step, LeftOut):
                            self._leave_out(step.table, markers)
                        elif step.action is Action.DIFFER:
                            rejects = [*rejects, self.aside.differing(step)]
                        else:
                            self.links.alterer.apply(step)
                            if markers is not None and step.action is Action.DROP:
                                markers.forget(step.table)
                    if self._displaced:
                        self._bring_back(reached, after, loading=markers is not None, deferrable=settle)
                    if rejects or self._passed or (emptied and self.aside.any):
                        self.aside.put(rejects, self._passed, emptied)
                    self.links.alterer.settle(written)
                    cascades.check(self.links, slave)
                    self._keep_lease()
                    # Late: by now the master's own commits have usually taken it to the disk.
                    self.links.secure(reached)
                    # Who is dropped while its apply runs must not pass over what was purged before it was read.
                    self.links.check_purged(begun)
                    self.checkpoints.advance(before, after, cut=cut or bool(rejects))
                self.slices.committed()
                self.aside.committed(rejects)
                return after
            except Collision as collision:
                # Then that table change by change; if even this meets another table's rows, all of them together.
                if every <= ordered:
                    raise CannotReplay(str(collision)) from collision
                self._seldom.say(logging.INFO, f"collision {collision.table}", f"{self.pair}: {collision}")
                ordered |= every if collision.table in ordered else self._apart(collision.table, every)
            except Conflict as conflict:
                # Changes that fit only in their order across tables look like a conflict when tables are taken singly.
                # So do rows that the slave's foreign keys have led to where the master's did.
                singly = ordered or self._rejecting or self.links.merger.cascades
                if every <= ordered or not self._believing or not singly:
                    raise
                told = f"{self.pair}: {conflict.finding} The changes are now taken one by one."
                self._seldom.say(logging.INFO, f"conflict {conflict.table}", told)
                ordered |= every if ordered else self._apart(conflict.table, every)
            except StatementFailed as failure:
                unsettled = target.at_commit(failure, self.links.merger.targets.hides)
                if unsettled is None:
                    raise
                if safe and unsettled.unique and not settle:
                    # Another hand's row holds the value: in safe mode it goes and comes back as the master's.
                    settle = True
                elif after.catching_up:
                    # The slice ends between rows that refer to one another, or that exchange a value.
                    self.slices.torn()
                    raise SliceTorn(self.pair, failure) from failure
                elif self._rejecting and unsettled.constraint not in at_once:
                    # Checked at once, it tells which change is at fault.
                    at_once.add(unsettled.constraint)
                else:
                    raise unsettled from failure
                # A partition goes by another name than what is replicated.
                ordered |= self._apart(unsettled.table, every) if unsettled.table in every else every

    def _apart(self, table: TableName, every: Collection[TableName]) -> set[TableName]:
        """What must be replayed with `table`: where foreign keys act, all that they connect with it."""
        merger = self.links.merger
        return merger.targets.kin(table, every) if merger.cascades else {table}

    def _leave_out(self, table: TableName, markers: Markers | None) -> None:
        if markers is not None:
            markers.forget(table)
        self.aside.drop(table)
        told = f"{self.pair}: {table} joins with rows that this slave lacks. Its changes are left out until a load."
        self._seldom.say(
            logging.WARNING, f"absent {table}", f"{told} {how_to_load(self.pair.prefix, self.pair.slave.name, [table])}"
        )

    def _merge(
        self, rows: Rows, ordered: set[TableName], safe: bool, rejects: list[Rejected], *, deferrable: bool
    ) -> list[Rejected]:
        """What is set aside so far: `rejects`, and what is added to them. `deferrable`: as of `Replayer.replay`."""
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
                items,
                rows.keys,
                safe=safe,
                images=compared,
                reject=self._rejecting,
                aside=rejects,
                deferrable=deferrable,
            )
            rejects = done.rejects
            self._displaced.update(done.displaced)
        return rejects

    def _bring_back(self, reached: Position, after: Checkpoint, *, loading: bool, deferrable: bool) -> None:
        """Rows that went for others' unique values are there again, if the master has them."""
        try:
            displaced.bring_back(
                self.links,
                self._displaced.values(),
                reached,
                self._keep_lease,
                # While blocks load, a row may be later than the window; its changes up to there are dropped.
                may_write=not loading,
                deferrable=deferrable,
            )
        except Conflict as conflict:
            if not after.catching_up:
                raise
            self.slices.torn()
            raise SliceTorn(self.pair, conflict) from conflict

    def _truncate(self, truncations: Sequence[Truncation], markers: Markers | None) -> None:
        """All that follow one another: tables that refer to each other can only be emptied together."""
        alterer = self.links.alterer
        applied = [each.cut for each in truncations if each.decision is Decision.APPLY]
        whole = [cut.table for cut in applied if cut.action is Action.TRUNCATE]
        if whole:
            alterer.truncate(whole)
        for cut in applied:
            if cut.action is Action.DELETE_WHERE:
                alterer.delete_where(cut)
        for each in truncations:
            if each.decision is Decision.WAIT and markers is not None:
                table, keys = each.cut.table, alterer.keys(each.cut)
                alterer.delete(table, markers.keys_to_truncate(table, each.cut.transaction, keys))
