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
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply import alike_tables, net_changes, table_state_tracker, window_runs
from sluice.apply.apply_plan import Checks, Rows, Step
from sluice.apply.checkpoint_writer import SlaveCheckpointWriter
from sluice.apply.escalation import SAME_PLAN, Attempt, CannotReplay, Reasons, Rung, rungs, table_at_fault
from sluice.apply.load_filter import Kept, LoadFilter, PartFilter
from sluice.apply.log_limiter import LogLimiter
from sluice.apply.net_changes import KeyEvents
from sluice.apply.pair_sessions import PairSessions, TableGone
from sluice.apply.rejects import Overlaps, PairRejects, UntransformedRows
from sluice.apply.slave_changes import SlaveChanges, key_of_master, one_by_one
from sluice.apply.stage_driver import StageDriver
from sluice.apply.table_state_tracker import TableStateTracker
from sluice.apply.transaction import AlteringFailed, Outcome, Plan, WindowTransaction
from sluice.apply.window_runs import CutItem, Run
from sluice.apply.window_slicer import Slice, WindowSlicer
from sluice.database.apply import Staged
from sluice.database.changes import ChangeTooLarge, Oversized, Survey
from sluice.database.conflicts import Collision, CommitRefused, Conflict
from sluice.database.errors import StatementFailed
from sluice.database.items import oversized
from sluice.database.net_changes import NetChanges
from sluice.database.placed import vendor_at
from sluice.database.row_images import MixedShapes
from sluice.errors import SluiceError, Terminal
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

Keep = Callable[[KeyEvents, TableName], Kept | None]
"""For each event of a table whether it is applied; None: all of them."""


@dataclass(frozen=True)
class Applied:
    """A window, or a slice of one, that is committed."""

    checkpoint: Checkpoint
    written: frozenset[TableName]
    """Tables that it changed."""
    definitions: Sequence[CutItem]
    """Changes of definitions in it."""
    untied: bool
    """Whether foreign keys were dropped that the master may have, so that they must follow once more."""


@dataclass(frozen=True)
class FailedAttempt:
    """An attempt that failed."""

    checkpoint: Checkpoint
    begin: Attempt
    """The first attempt at the window."""
    attempt: Attempt
    plan: Plan | None
    """None if its transaction cannot be repeated: there was none yet, or it is over."""
    altering: TableName | None
    """The table whose definition was being changed."""


Move = Callable[[SluiceError, FailedAttempt], Attempt | None]
"""Carries out a rung of the ladder and returns the next attempt; None if no further attempt would help."""


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
        self.attempt: Attempt | None = None
        """The latest attempt at a window. It may have committed its end: after a failure, safe mode lasts up to it."""
        self._moves: Mapping[Rung, Move] = {
            Rung.REPLAY: self._replay,
            Rung.COMMIT: self._check_at_once,
            Rung.SLICE: self._take_larger_slice,
            Rung.CONSTRAINTS: self._drop_constraints,
            Rung.COLUMNS: self._read_tables_again,
            Rung.DEFINITIONS: self._compare_definitions,
            Rung.ROWS: self._set_rows_aside,
            Rung.TABLE: self._isolate_table,
        }
        self._limiter = LogLimiter(log)
        self._untransformed = UntransformedRows(rejecting=self._rejecting)
        self._replaced_up_to: Position | None = None
        """The end of a window that is applied in safe mode, because it holds a DELETE WHERE found by comparison."""
        self._emptied: dict[TableName, int] = {}
        """Tables that got a key with unknown values → within how many windows all of their rows follow as UPDATEs, once
        the master has queued them."""

    def apply(self, checkpoint: Checkpoint, window: Window, *, safe: bool) -> Applied | None:
        """Applies `window`, or its next slice, in as many attempts as the ladder has (`sluice.apply.escalation`).
        Returns None if the window is empty.

        The window begins at the checkpoint, or later if no change lies between. Raises `Drift` and other
        `Terminal`s after rolling back, `Transient` for outages.
        """
        self._untransformed.clear()
        safe = safe or window.target == self._replaced_up_to
        begin = self.attempt = Attempt(window, safe=safe, final=safe)
        plan: Plan | None = None
        try:
            while True:
                try:
                    if plan is None:
                        planned = self._plan(checkpoint, self.attempt)
                        if planned is None:
                            return None
                        self.transaction.prepare(planned)
                        plan, self.attempt = planned, self.attempt.planned(self.transaction.ruled(planned.changed))
                    outcome = self.transaction.commit(plan, self.attempt)
                    planned, plan = plan, None
                    self.transaction.committed(planned, outcome)
                    return self._applied(planned, outcome)
                except (SluiceError, AlteringFailed) as error:
                    failure, altering = (
                        (error.failure, error.table) if isinstance(error, AlteringFailed) else (error, None)
                    )
                    repeatable = None if plan is None or self.transaction.alters_apart(plan) else plan
                    failed = FailedAttempt(checkpoint, begin, self.attempt, repeatable, altering)
                    rung, self.attempt = self._climb(failure, failed)
                    if rung not in SAME_PLAN:
                        plan = planned = None
                        self.stage_driver.clear()
        finally:
            self.stage_driver.clear()

    def _applied(self, plan: Plan, outcome: Outcome) -> Applied:
        self.sessions.schema_history.committed()
        if self._emptied:
            self._expect_fewer_rows(plan.after)
        return Applied(plan.after, plan.written.union(plan.emptied), plan.definition_changes, outcome.untied)

    def _expect_fewer_rows(self, after: Checkpoint) -> None:
        """A window may have begun before the master had queued the rows, so one more may bring them."""
        assert after.position is not None, "a window was applied"
        follow = partial(self.sessions.queue.values_follow, seen=after.position)
        left = {table: count if follow(table) else count - 1 for table, count in self._emptied.items()}
        self._emptied = {table: count for table, count in left.items() if count}

    # The ladder

    def _climb(self, error: SluiceError, failed: FailedAttempt) -> tuple[Rung, Attempt]:
        """The next attempt, and the rung that leads to it. Raises what stops the window."""
        failure = self._meaning(error, failed.plan)
        for rung in rungs(failure):
            following = self._moves[rung](failure, failed)
            if following is not None:
                return rung, following
        if isinstance(failure, Collision):
            return self._climb(CannotReplay(failure), failed)
        if failure is error:
            raise error
        raise failure from error

    def _meaning(self, error: SluiceError, plan: Plan | None) -> SluiceError:
        """The conflict behind an error at COMMIT; any other error unchanged."""
        if plan is None or not isinstance(error, StatementFailed):
            return error
        return vendor_at(self.pair).applying.at_commit(error, self.sessions.merger.targets.hides) or error

    def _replay(self, failure: SluiceError, failed: FailedAttempt) -> Attempt | None:
        if failed.plan is None:
            return None
        escalation = self.transaction.escalation(failed.plan)
        if isinstance(failure, Collision):
            following = escalation.after_collision(failed.attempt, failure.table)
            kind, text = f"collision {failure.table}", str(failure)
        elif isinstance(failure, Conflict) and not isinstance(failure, CommitRefused):
            following = escalation.after_conflict(failed.attempt, failure.table)
            kind, text = f"conflict {failure.table}", f"{failure.finding} The changes are now taken one by one."
        else:
            return None
        if following is not None:
            self._limiter.log(logging.INFO, kind, f"{self.pair}: {text}")
        return following

    def _check_at_once(self, failure: SluiceError, failed: FailedAttempt) -> Attempt | None:
        assert isinstance(failure, CommitRefused)
        if failed.plan is None:
            return None
        return self.transaction.escalation(failed.plan).after_commit(failed.attempt, failure)

    def _take_larger_slice(self, failure: SluiceError, failed: FailedAttempt) -> Attempt | None:
        """Raises `SliceTooSmall`: all is read again, and the next slice is larger."""
        if failed.plan is not None and failed.plan.after.catching_up:
            raise self.transaction.too_small(failure) from failure
        return None

    def _drop_constraints(self, failure: SluiceError, failed: FailedAttempt) -> Attempt | None:
        """`DefinitionFollower` would drop these constraints some seconds later; the window does not wait."""
        plan, altering = failed.plan, failed.altering is not None
        if plan is None or not self.transaction.escalation(plan).may_drop_constraints(
            failed.attempt, failure, altering=altering
        ):
            return None
        if not self.transaction.drop_constraints(plan, altering=altering):
            return None
        return failed.attempt.without_constraints(self.transaction.ruled(plan.changed))

    def _read_tables_again(self, failure: SluiceError, failed: FailedAttempt) -> Attempt | None:
        """The column may have been added since the slave's table was read; the rollback forgot what was read."""
        if failed.attempt.tables_read_again:
            return None
        log.info("%s: the slave's tables are read again, because: %s", self.pair, failure)
        return failed.attempt.with_tables_read()

    def _compare_definitions(self, failure: SluiceError, failed: FailedAttempt) -> Attempt | None:
        """A change of definition may have rewritten the rows, or dropped the table; only the comparison queues it."""
        assert isinstance(failure, Conflict | TableGone)
        tried = failed.attempt
        over = failure.table in tried.compared if isinstance(failure, TableGone) else tried.final
        if over:
            return None
        log.info("%s: definitions are compared again, because: %s", self.pair, failure.finding or failure)
        self.sessions.schema_history.clear()
        changed = self.sessions.queue.compare_definitions()
        now = self.sessions.window_end(tried.window.previous)
        # The end of a window in slices is in the checkpoint and stays, also when items were queued after it.
        window = tried.window if failed.checkpoint.catching_up else replace(tried.window, target=now)
        unordered = self.sessions.reader.unordered(Window(window.previous, now))
        if unordered:
            self._replaced_up_to = window.target
        # The table's writers hold off the comparison. Until it has queued the rows, a change must not expect the
        # values that the master gave them.
        safe = tried.safe or unordered or failure.table in self._emptied
        safe = safe or self.sessions.queue.values_follow(failure.table, window.previous)
        return tried.with_definitions(failure.table, window, changed=bool(changed), safe=safe)

    def _set_rows_aside(self, failure: SluiceError, failed: FailedAttempt) -> Attempt | None:
        """Sends changes of the rows that cannot be transformed to REJECTS."""
        assert isinstance(failure, RowNotTransformed)
        rule = self.pair.transformation(failure.table)
        # A reject names a row of the slave, and nobody knows which ones would be made of this one.
        if (rule is not None and rule.extra_key) or not self._untransformed.note(failure):
            return None
        self.sessions.schema_history.clear()
        return failed.attempt.with_rows_set_aside(failed.begin)

    def _isolate_table(self, failure: SluiceError, failed: FailedAttempt) -> Attempt | None:
        assert isinstance(failure, Terminal)
        table = table_at_fault(failure, failed.altering)
        if table is None:
            return None
        self.sessions.schema_history.clear()
        isolated = table_state_tracker.isolated(
            failure,
            table,
            self.sessions,
            failed.checkpoint,
            failed.attempt.isolated,
            alone=failed.altering is not None or self.pair_rejects.differs(table),
        )
        return failed.attempt.with_isolated(isolated, failed.begin)

    # Planning

    def _checks(self, *, safe: bool, final: bool) -> Checks:
        compare = not safe and self.pair.slave.compare_values
        rules = bool(self.pair.slave.conflict_rules)
        images = compare or rules or self._rejecting or self.sessions.merger.cascades or self.pair.transforms
        return Checks(safe, compare, final=final, images=images, updates=self._updates)

    def _updates(self, table: TableName) -> bool:
        rule = self.pair.replication.rule(table)
        return rule is None or "U" in rule.actions

    def _plan(self, checkpoint: Checkpoint, attempt: Attempt) -> Plan | None:
        """The plan of the window, or of its next slice; None if there is nothing to do."""
        window, loading = attempt.window, checkpoint.loading
        if window.previous == window.target and not window.above and not loading:
            return None
        checks = self._checks(safe=attempt.safe, final=attempt.final)
        piece = self._slice(window, loading or self._untransformed.any, checks.images)
        if piece.unordered or self._deletes_where(piece):
            # Changes of a trigger may come before those that fired it; a DELETE WHERE, queued by comparison, later than
            # rows that may have replaced those that it deletes.
            checks = self._checks(safe=True, final=True)
        window = window.between(window.above, piece.end)
        if piece.survey is not None:
            return self._plan_staged(checkpoint, window, piece.survey, checks, attempt.isolated)
        return self._plan_in_driver(checkpoint, window, piece.items, checks, attempt.isolated)

    def _slice(self, window: Window, in_driver: bool, images: bool) -> Slice:
        """The part of the window for the next transaction; `in_driver`: not for executors."""
        piece = self.slicer.next(window, in_driver, images)
        if self.pair.slave_vendor.transactional_ddl:
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

    def _plan_in_driver(
        self, checkpoint: Checkpoint, window: Window, items: pa.Table, checks: Checks, isolated: Reasons
    ) -> Plan | None:
        """Reduces `items`, the changes of `window`."""
        target = window.target
        load_filter = self._load_filter(checkpoint, window.previous)
        whole = window.up_to is None
        complete = whole and load_filter is not None and load_filter.complete(target)
        catches_up = whole and isinstance(load_filter, PartFilter) and any(load_filter.catching_up(target))
        if whole and not items.num_rows and not complete and not catches_up and not checkpoint.catching_up:
            return None
        tracker = TableStateTracker(checkpoint.tables, self.sessions, load_filter)
        overlaps: Overlaps = {}
        steps = tracker.isolate(isolated)
        self._expect_contents(oversized(items), tracker)
        steps += self._steps(items, window, tracker, checks, overlaps)
        if whole and isinstance(load_filter, PartFilter):
            steps += self._catch_up(load_filter, window, tracker, checks, overlaps)
        complete = whole and load_filter is not None and load_filter.complete(target)
        after = checkpoint.after(window, items.num_rows)
        if complete:
            after = replace(after, state=SlaveState.NORMAL)
        after = replace(after, tables=tracker.states)
        return Plan(checkpoint, after, steps, checks, overlaps, load_filter)

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
        # A renamed table has a place under its former name, and gives it up.
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

    # By the executors

    def _plan_staged(
        self, checkpoint: Checkpoint, window: Window, survey: Survey, checks: Checks, isolated: Reasons
    ) -> Plan:
        """Has the executors reduce and stage the changes of `window`."""
        after = checkpoint.after(window, survey.changes)
        tracker = TableStateTracker(checkpoint.tables, self.sessions, None)
        overlaps: Overlaps = {}
        steps = tracker.isolate(isolated)
        self._expect_contents(survey.oversized, tracker)
        staged, rest = self.stage_driver.steps(window, survey, checkpoint.epoch, overlaps, checks, tracker.states)
        steps += staged
        if rest is not None:
            items = self.sessions.reader.items(rest, images=checks.images)
            steps += self._steps(items, window, tracker, checks, overlaps)
        after = replace(after, tables=tracker.states)
        return Plan(checkpoint, after, steps, checks, overlaps, load_filter=None)
