"""Applies a window in one transaction of the slave, which also writes the new checkpoint.

The driver reads and reduces a window that one process can hold (`sluice.apply.window_slicer`), without executors or
stage tables. Executors read, reduce and stage a larger one; the driver merges it. A window with more than
`max_batch_changes` changes is applied in slices by REPL_KEY, each with its own checkpoint; the slave is catching up
until the last slice is committed.

While tables are loading, the driver reduces every window: the block of a key decides whether a change is applied.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply import alike_tables, net_changes, table_state_tracker, window_runs
from sluice.apply.apply_plan import Checks, Rows, Step
from sluice.apply.checkpoint_writer import SlaveCheckpointWriter
from sluice.apply.load_filter import Kept, LoadFilter
from sluice.apply.net_changes import KeyEvents
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.part_filter import PartFilter
from sluice.apply.rejects import Overlaps, PairRejects, UntransformedRows
from sluice.apply.slave_changes import SlaveChanges, key_of_master, one_by_one
from sluice.apply.stage_driver import StageDriver
from sluice.apply.table_state_tracker import TableStateTracker
from sluice.apply.transaction import Plan, WindowTransaction
from sluice.apply.window_runs import CutItem, Run
from sluice.apply.window_slicer import Slice, WindowSlicer
from sluice.database.apply import Staged
from sluice.database.changes import ChangeTooLarge, Oversized, Survey
from sluice.database.conflicts import ColumnMissing, Conflict
from sluice.database.items import oversized
from sluice.database.net_changes import NetChanges
from sluice.database.placed import vendor_at
from sluice.database.row_images import MixedShapes
from sluice.errors import Terminal
from sluice.executor import Executor
from sluice.model.blocks import by_oldest_marker
from sluice.model.change import EMPTYING, Action
from sluice.model.checkpoint import Checkpoint
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.reject import Rejected
from sluice.model.slave_state import SlaveState
from sluice.model.table_definition import key_unknown
from sluice.model.table_state import TableState
from sluice.transform.table_transform import RowNotTransformed, TableTransform

log = logging.getLogger("sluice.apply")

MOST_COMPARED = 10
"""Conflicts of a window after each of which the definitions are compared; the next one counts."""

Keep = Callable[[KeyEvents, TableName], Kept | None]
"""For each event of a table whether it is applied; None: all of them."""


class WindowApplier:
    """Applies windows of one pair over its sessions.

    `keep_lease` raises when the lease is lost. `pause` waits a moment, and raises when waiting must end. `heartbeat` is
    called repeatedly while Spark works, and raises when the work is no longer needed. `alone_with`: as of
    `WindowTransaction`.
    """

    def __init__(
        self,
        sessions: PairSessions,
        checkpoints: SlaveCheckpointWriter,
        executor: Executor,
        keep_lease: Callable[[], None],
        pause: Callable[[], None],
        heartbeat: Callable[[], None],
        alone_with: Callable[[Collection[TableName]], AbstractContextManager[None]],
    ):
        self.pair = pair = sessions.pair
        self.sessions = sessions
        self._rejecting = pair.slave.on_conflict == "reject"
        self._pause = pause
        self.pair_rejects = PairRejects(sessions)
        self.stage_driver = StageDriver(sessions, executor, self.pair_rejects, heartbeat)
        self.slicer = WindowSlicer(sessions, lambda: self.stage_driver.executor.ready)
        self.transaction = WindowTransaction(
            sessions, checkpoints, self.pair_rejects, self.slicer, keep_lease, alone_with
        )
        self.reached: Position | None = None
        """The latest position that the last attempt may have committed: after a failure, safe mode lasts up to it."""
        self.written: frozenset[TableName] = frozenset()
        """Tables that the last window, or slice, changed."""
        self.definitions: Sequence[CutItem] = ()
        """Changes of definitions in the last window, or slice."""
        self._isolated: table_state_tracker.Reasons = {}
        """Tables that this window leaves inconsistent."""
        self._untransformed = UntransformedRows(rejecting=self._rejecting)
        self._replaced_up_to: Position | None = None
        """The end of a window that is applied in safe mode, because it holds a DELETE WHERE found by comparison."""
        self._emptied: dict[TableName, int] = {}
        """Tables that got a key whose values nobody knew: all of their rows follow as UPDATEs, within as many windows
        after the master has queued them."""

    def apply(self, checkpoint: Checkpoint, window: Window, *, safe: bool) -> Checkpoint | None:
        """Applies `window`, or its next slice. Returns the new checkpoint, None where the window is empty.

        The window begins at the checkpoint, or later where no change lies between. Raises `Drift` and other
        `Terminal`s after rolling back, `Transient` for outages.
        """
        self._isolated = {}
        self._untransformed.clear()
        while True:
            self.transaction.defining = None
            try:
                done = self._with_definitions_compared(checkpoint, window, safe=safe)
                if self._emptied and done is not None:
                    self._expect_fewer_rows()
                return done
            except RowNotTransformed as failure:
                self._note_untransformed(failure, checkpoint)
            except Terminal as failure:
                table = (
                    failure.table
                    if isinstance(failure, table_state_tracker.OF_ONE_TABLE)
                    else self.transaction.defining
                )
                if table is None:
                    raise
                self._isolate_table(failure, table, checkpoint)

    def _expect_fewer_rows(self) -> None:
        """A window may have begun before the master had queued the rows, so one more may bring them."""
        follow = self.sessions.queue.values_follow
        left = {table: count if follow(table) else count - 1 for table, count in self._emptied.items()}
        self._emptied = {table: count for table, count in left.items() if count}

    def _isolate_table(self, failure: Terminal, table: TableName, checkpoint: Checkpoint) -> None:
        self.sessions.schema_history.clear()
        of_definition = self.transaction.defining is not None
        self._isolated = table_state_tracker.isolated(
            failure, table, self.sessions, checkpoint, self._isolated, of_definition=of_definition
        )

    def _note_untransformed(self, failure: RowNotTransformed, checkpoint: Checkpoint) -> None:
        """Sends changes of the rows that cannot be transformed to REJECTS, or isolates their table, or raises
        `failure`."""
        try:
            self._untransformed.note(failure)
        except RowNotTransformed:
            self._isolate_table(failure, failure.table, checkpoint)
        self.sessions.schema_history.clear()

    def _with_definitions_compared(self, checkpoint: Checkpoint, window: Window, *, safe: bool) -> Checkpoint | None:
        """Applies the window; after a conflict compares the master's definitions, then tries again.

        Each table may conflict once, and again whenever a comparison found a change: while one is compared, the
        application may alter another.
        """
        checks = self._checks(safe or window.target == self._replaced_up_to)
        compared: list[TableName] = []
        while True:
            try:
                return self._apply(checkpoint, window, checks)
            except Conflict as conflict:
                if checks.final:
                    raise
                # A change of definition may have rewritten the rows; only the comparison of definitions queues it.
                log.info("%s: definitions are compared again, because: %s", self.pair, conflict.finding)
                self.sessions.schema_history.clear()
                changed = self.sessions.queue.compare_definitions()
                now = self.sessions.window_end(window.previous)
                # The end of a window in slices is in the checkpoint and stays, also when items were queued after it.
                window = window if checkpoint.catching_up else replace(window, target=now)
                compared.append(conflict.table)
                again = changed or compared.count(conflict.table) == 1
                checks = replace(checks, final=not again or len(compared) >= MOST_COMPARED)
                if self.sessions.reader.unordered(Window(window.previous, now)):
                    checks, self._replaced_up_to = self._checks(safe=True), window.target
                elif conflict.table in self._emptied or self.sessions.queue.values_follow(conflict.table):
                    # Its writers hold off the comparison. Until it has queued the rows, a change must not expect the
                    # values that the master gave them.
                    checks = self._checks(safe=True)

    def _checks(self, safe: bool) -> Checks:
        compare = not safe and self.pair.slave.compare_values
        rules = bool(self.pair.slave.conflict_rules)
        images = compare or rules or self._rejecting or self.sessions.merger.cascades or self.pair.transforms
        return Checks(safe, compare, final=safe, images=images, updates=self._updates)

    def _updates(self, table: TableName) -> bool:
        rule = self.pair.replication.rule(table)
        return rule is None or "U" in rule.actions

    def _apply(self, checkpoint: Checkpoint, window: Window, checks: Checks) -> Checkpoint | None:
        self.reached = window.target
        try:
            return self._next_slice(checkpoint, window, checks)
        except ColumnMissing as missing:
            # The column may have been added since the slave's table was read; the rollback forgot what was read.
            log.info("%s: the slave's tables are read again, because: %s", self.pair, missing)
            return self._next_slice(checkpoint, window, checks)

    def _next_slice(self, checkpoint: Checkpoint, window: Window, checks: Checks) -> Checkpoint | None:
        loading = checkpoint.loading
        if window.previous == window.target and not window.above and not loading:
            return None
        piece = self._slice(window, loading or self._untransformed.any, checks.images)
        if piece.unordered or self._deletes_where(piece):
            # Changes of a trigger may come before those that fired it; a DELETE WHERE, queued by comparison, later than
            # rows that may have replaced those that it deletes.
            checks = self._checks(safe=True)
        if piece.survey is not None:
            return self._apply_staged(checkpoint, window.between(window.above, piece.end), piece.survey, checks)
        if not piece.items.num_rows and piece.end is None and not window.above and not loading:
            return None
        return self._apply_in_driver(checkpoint, window.between(window.above, piece.end), piece.items, checks)

    def _slice(self, window: Window, in_driver: bool, images: bool) -> Slice:
        """The part of the window for the next transaction; `in_driver`: not for executors."""
        piece = self.slicer.next(window, in_driver, images)
        if vendor_at(self.pair).applying.transactional_ddl:
            return piece
        key = piece.first_definition
        if key is None:
            return piece
        part = window_runs.next_part(window, key)
        piece = self.slicer.next(part, in_driver, images)
        return replace(piece, end=piece.end or part.up_to)

    @staticmethod
    def _deletes_where(piece: Slice) -> bool:
        if piece.survey is not None:
            return any(cut.action == Action.DELETE_WHERE for cut in piece.survey.cuts)
        return bool(pc.any(pc.equal(piece.items.column("action"), str(Action.DELETE_WHERE))).as_py())

    # In the driver

    def _apply_in_driver(
        self, checkpoint: Checkpoint, window: Window, items: pa.Table, checks: Checks
    ) -> Checkpoint | None:
        """Reduces and commits `items`, the changes of `window`. None where there is nothing to do."""
        target = window.target
        load_filter = self._load_filter(checkpoint, window.previous)
        whole = window.up_to is None
        complete = whole and load_filter is not None and load_filter.complete(target)
        catches_up = whole and isinstance(load_filter, PartFilter) and any(load_filter.catching_up(target))
        if whole and not items.num_rows and not complete and not catches_up and not checkpoint.catching_up:
            return None
        tracker = TableStateTracker(checkpoint.tables, self.sessions, load_filter)
        overlaps: Overlaps = {}
        steps = self._isolate(tracker)
        self._expect_contents(oversized(items), tracker)
        steps += self._steps(items, window, tracker, checks, overlaps)
        if whole and isinstance(load_filter, PartFilter):
            steps += self._catch_up(load_filter, window, tracker, checks, overlaps)
        complete = whole and load_filter is not None and load_filter.complete(target)
        after = checkpoint.after(window, items.num_rows)
        if complete:
            after = replace(after, state=SlaveState.NORMAL)
        after = replace(after, tables=tracker.states)
        return self._commit(Plan(checkpoint, after, steps, checks, overlaps, load_filter))

    def _isolate(self, tracker: TableStateTracker) -> list[Step]:
        return [step for table, reason in self._isolated.items() for step in tracker.isolate(table, reason)]

    def _expect_contents(self, changes: Sequence[Oversized], tracker: TableStateTracker) -> None:
        """Raises `ChangeTooLarge` for the first of `changes` whose table is applied."""
        for change in changes:
            if change.table not in tracker.states:
                raise ChangeTooLarge(change, self.pair.replication.apply.max_change_bytes)

    def _load_filter(self, checkpoint: Checkpoint, seen: Position) -> LoadFilter | None:
        if not checkpoint.loading:
            return None
        if checkpoint.state is SlaveState.TRANSITION:
            return LoadFilter(self.pair, self.sessions, seen, self._pause)
        return PartFilter(self.pair, self.sessions, seen, checkpoint.tables.loading)

    def _catch_up(
        self, part: PartFilter, window: Window, tracker: TableStateTracker, checks: Checks, overlaps: Overlaps
    ) -> list[Step]:
        """The changes after the markers of blocks that are stored now, up to the window's end.

        None of them is a TRUNCATE or changes a definition: after those, blocks are read again (`TableStateTracker`).
        """
        steps: list[Step] = []
        for caught_up in list(part.catching_up(window.target)):
            table = caught_up.table
            for oldest, blocks in by_oldest_marker(caught_up.blocks):
                self.sessions.check_purged(oldest)
                behind = Window(oldest, window.target)
                items = self.sessions.reader.items(behind, images=checks.images, rows_of=table)
                if items.num_rows:
                    for change in oversized(items):
                        raise ChangeTooLarge(change, self.pair.replication.apply.max_change_bytes)
                    self.sessions.schema_history.load([table], window.previous, 0)
                    keep_of = partial(part.keep_of, blocks=blocks)
                    steps.append(self._reduce({table: items}, keep_of, checks, overlaps))
            steps.append(caught_up)
            if caught_up.ready:
                tracker.states = tracker.states.put(table, TableState.READY)
        return steps

    def _steps(
        self, items: pa.Table, window: Window, tracker: TableStateTracker, checks: Checks, overlaps: Overlaps
    ) -> list[Step]:
        steps: list[Step] = []
        for run in window_runs.runs(items, self.sessions.images):
            if isinstance(run, CutItem):
                steps += self._cut(run, window, tracker)
                continue
            applied = {table: items for table, items in run.items() if table not in tracker.states}
            self.sessions.schema_history.load(applied, window.previous, window.above)
            keep = tracker.load_filter.keep if tracker.load_filter is not None else None
            steps.append(self._reduce(applied, keep, checks, overlaps))
        return steps

    def _cut(self, cut: CutItem, window: Window, tracker: TableStateTracker) -> list[Step]:
        left_out = cut.table in tracker.states
        if cut.action in EMPTYING and left_out:
            return []
        self.sessions.schema_history.load([cut.table], window.previous, window.above)
        cut = self.sessions.schema_history.from_present(cut)
        if cut.defined is not None:
            cut = replace(cut, followed=cut.defined.shape)
        taken = self._place_taken(cut)
        if cut.action is Action.CREATE and taken:
            return tracker.leave_out(cut.table, taken)
        transformed = cut if left_out and cut.action is not Action.CREATE else self.sessions.transformed.cut(cut)
        if transformed.action in EMPTYING:
            return tracker.truncate(cut)
        if cut.action is Action.ALTER and cut.former and cut.defined and key_unknown(cut.former, cut.defined):
            self._emptied[cut.defined.table] = 2
        self.sessions.schema_history.follow(cut)
        # A table that is renamed has a place under its former name, from where it goes.
        renamed = tracker.leave_out(cut.table, taken) if taken and not left_out else []
        return [*renamed, *tracker.follow(transformed)]

    def _place_taken(self, cut: CutItem) -> str:
        """Why a table that is created or renamed cannot be on the slave; empty if it can."""
        if cut.defined is None or (cut.action is Action.ALTER and cut.defined.table == cut.table):
            return ""
        name = cut.defined.table
        holder = self.pair.placement.taken([name]).get(name)
        return f"{holder} has its place on the slave (target)" if holder else ""

    def _reduce(self, run: Run, keep_of: Keep | None, checks: Checks, overlaps: Overlaps) -> Rows:
        keys = {table: self.sessions.schema_history.key(table) for table in run}
        changes: list[NetChanges | Staged] = []
        replayed: dict[TableName, Callable[[], pa.Table]] = {}
        ordered: set[TableName] = set()
        rejected: list[Rejected] = []
        transforms = {table: self.sessions.transformed.of(self.sessions.schema_history[table]) for table in run}
        alike = self._reduce_alike(run, keys, transforms, checks) if keep_of is None else {}
        for table, all_items in run.items():
            if table in alike:
                changes.append(alike[table])
                replayed[table] = partial(one_by_one, all_items, None, self.sessions.images)
                continue
            transform = transforms[table]
            items = all_items
            if transform is not None:
                items, untransformed = self._untransformed.without(all_items, transform, self.sessions.images)
                rejected += untransformed
            events = net_changes.events(items, key_of_master(keys[table], transform), self.sessions.images)
            slave_changes = SlaveChanges(events, transform, keep_of(events, table) if keep_of is not None else None)
            replayed[table] = slave_changes.items
            if self.pair_rejects.keys(table):
                self.pair_rejects.note_overlaps(slave_changes.events, table, overlaps)
            try:
                net = slave_changes.net(compare=checks.compares(table), safe=checks.safe)
            except MixedShapes as mixed:
                log.debug("%s: %s: %s Its changes are applied one by one.", self.pair, table, mixed)
                ordered.add(table)
            else:
                if net.rows or transform is None:
                    changes.append(net)
        return Rows(changes, lambda table: replayed[table](), keys, frozenset(ordered), rejected)

    def _reduce_alike(
        self,
        run: Run,
        keys: Mapping[TableName, tuple[str, ...]],
        transforms: Mapping[TableName, TableTransform | None],
        checks: Checks,
    ) -> dict[TableName, NetChanges]:
        """The net changes of tables that share columns and key with others, except transformed ones and those with
        changes in REJECTS."""
        plain = {
            table: items
            for table, items in run.items()
            if transforms[table] is None and not self.pair_rejects.keys(table)
        }
        return alike_tables.reduced(plain, keys, self.sessions.images, compares=checks.compares, safe=checks.safe)

    def _commit(self, plan: Plan) -> Checkpoint:
        done = self.transaction.commit(plan)
        self.sessions.schema_history.committed()
        self.written, self.definitions = plan.written.union(plan.emptied), plan.definition_changes
        return done

    # By the executors

    def _apply_staged(self, checkpoint: Checkpoint, window: Window, survey: Survey, checks: Checks) -> Checkpoint:
        after = checkpoint.after(window, survey.changes)
        tracker = TableStateTracker(checkpoint.tables, self.sessions, None)
        overlaps: Overlaps = {}
        isolated = self._isolate(tracker)
        self._expect_contents(survey.oversized, tracker)
        try:
            steps, rest = self.stage_driver.steps(window, survey, checkpoint.epoch, overlaps, checks, tracker.states)
            if rest is not None:
                items = self.sessions.reader.items(rest, images=checks.images)
                steps += self._steps(items, window, tracker, checks, overlaps)
            after = replace(after, tables=tracker.states)
            plan = Plan(checkpoint, after, [*isolated, *steps], checks, overlaps, load_filter=None)
            return self._commit(plan)
        finally:
            self.stage_driver.drop(checkpoint.epoch)
