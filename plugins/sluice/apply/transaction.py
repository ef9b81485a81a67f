"""The transaction of the slave in which a window arrives together with the new checkpoint."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from sluice.apply import displaced_rows, slave_foreign_keys
from sluice.apply.apply_plan import CaughtUp, Checks, DefinitionOnly, LeftOut, Rows, Single, Step, Truncation, grouped
from sluice.apply.checkpoint_writer import SlaveCheckpointWriter
from sluice.apply.escalation import Attempt, ConstraintsOutdated, Escalation, SliceTooSmall
from sluice.apply.load_filter import LoadFilter
from sluice.apply.log_limiter import LogLimiter
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.rejects import Overlaps, PairRejects
from sluice.apply.window_runs import CutItem
from sluice.apply.window_slicer import WindowSlicer
from sluice.control.definitions import DefinitionStore
from sluice.database.apply import DefinitionNotFollowed, DisplacedRow, ReplayOptions
from sluice.database.conflicts import Conflict
from sluice.database.digests import Texts
from sluice.database.placed import vendor_at
from sluice.errors import Terminal
from sluice.model.blocks import Decision
from sluice.model.change import Action
from sluice.model.checkpoint import Checkpoint, CheckpointMoved
from sluice.model.defined import Defined
from sluice.model.joining import LOAD
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.reject import Rejected
from sluice.model.table_state import how_to_load

log = logging.getLogger("sluice.apply")


@dataclass(frozen=True)
class Plan:
    """The steps of a window, or of a slice, and the checkpoints before and after them."""

    before: Checkpoint
    after: Checkpoint
    steps: Sequence[Step]
    checks: Checks
    overlaps: Overlaps
    """Changes of rows that have a reject."""
    load_filter: LoadFilter | None
    """The blocks, while a load is under way."""

    @property
    def start(self) -> Position:
        assert self.before.position is not None
        return self.before.position

    @property
    def end(self) -> Position:
        """The position of the last change in it; of a slice, the end of its window."""
        end = self.after.target or self.after.position
        assert end is not None
        return end

    @property
    def definition_changes(self) -> list[CutItem]:
        return [step for step in self.steps if isinstance(step, CutItem) and step.action is not Action.DIFFER]

    @property
    def locked(self) -> frozenset[TableName]:
        """The slave's tables that are locked against everybody, since they are emptied or get another definition."""
        cuts = [step.cut if isinstance(step, Truncation) else step for step in self.steps]
        changes = [cut.change if isinstance(cut, DefinitionOnly) else cut for cut in cuts]
        items = [change for change in changes if isinstance(change, CutItem)]
        definitions = [one for item in items for one in (item.former, item.defined) if one is not None]
        return frozenset(item.table for item in items).union(one.table for one in definitions)

    @property
    def has_cuts(self) -> bool:
        """Whether there is more than rows: this must not be repeated, so the checkpoint is written to the slave with
        it."""
        return any(not isinstance(step, Rows) for step in self.steps)

    @property
    def changed(self) -> frozenset[TableName]:
        """Tables with net changes."""
        return frozenset(change.table for step in self._rows for change in step.changes)

    @property
    def written(self) -> frozenset[TableName]:
        """Tables with changes in any form."""
        return self.changed.union(*(step.ordered for step in self._rows))

    @property
    def emptied(self) -> dict[TableName, int]:
        """REPL_KEY of each table's last TRUNCATE."""
        return {step.cut.table: step.cut.repl_key for step in self.steps if isinstance(step, Truncation)}

    @property
    def _rows(self) -> list[Rows]:
        return [step for step in self.steps if isinstance(step, Rows)]


@dataclass
class Outcome:
    """What an attempt left to do: changes that were rejected, rows that were displaced."""

    rejects: list[Rejected] = field(default_factory=list)
    displaced: dict[tuple[TableName, Texts], DisplacedRow] = field(default_factory=dict)
    untied: bool = False
    """Whether foreign keys were dropped that the master may have, so that they must follow once more."""


class AlteringFailed(Exception):
    """`failure` happened while the definition of `table` was being changed. Rolls back, for the ladder alone."""

    def __init__(self, table: TableName, failure: Terminal):
        super().__init__(table, failure)
        self.table = table
        self.failure = failure


@contextmanager
def _altering(table: TableName) -> Iterator[None]:
    try:
        yield
    except Terminal as failure:
        raise AlteringFailed(table, failure) from failure


class WindowTransaction:
    """Commits plans to the slave of one pair. `keep_lease` raises when the lease is lost. `alone_with`: within
    its context, no other part of the pair's apply holds locks on these tables of the slave for long."""

    def __init__(
        self,
        sessions: PairSessions,
        checkpoints: SlaveCheckpointWriter,
        pair_rejects: PairRejects,
        slicer: WindowSlicer,
        keep_lease: Callable[[], None],
        alone_with: Callable[[Collection[TableName]], AbstractContextManager[None]],
    ):
        self.pair = sessions.pair
        self.sessions = sessions
        self.checkpoints = checkpoints
        self.pair_rejects = pair_rejects
        self.slicer = slicer
        self._keep_lease = keep_lease
        self._alone_with = alone_with
        self._rejecting = sessions.pair.slave.on_conflict == "reject"
        self._transactional_ddl = sessions.pair.slave_vendor.transactional_ddl
        self._limiter = LogLimiter(log)

    def prepare(self, plan: Plan) -> None:
        """Does what must be committed before the plan. Raises as `commit`."""
        if self.alters_apart(plan):
            return
        with self._alone_with(plan.locked):
            if plan.definition_changes:
                with self.sessions.slave_transaction():
                    # A table may have become inconsistent meanwhile: what it lacks must not stop the slave.
                    self.checkpoints.lock(plan.before)
                    # Labels of enums: one can be used only after the transaction that added it.
                    try:
                        self.sessions.alterer.prepare(plan.definition_changes)
                    except DefinitionNotFollowed as refused:
                        raise AlteringFailed(refused.table, refused) from refused
            self._prepare_left_out([step.change for step in plan.steps if isinstance(step, DefinitionOnly)])

    def alters_apart(self, plan: Plan) -> bool:
        """Whether the plan is one change of definitions, outside a transaction."""
        return not self._transactional_ddl and bool(plan.definition_changes)

    def commit(self, plan: Plan, attempt: Attempt) -> Outcome:
        """Commits the plan, or rolls all of it back.

        Raises `Collision`, `Conflict` if a change does not fit the slave's row, `SliceTooSmall`, `ConstraintsOutdated`,
        what the slave refuses, outages, and `AlteringFailed`.
        """
        with self._alone_with(plan.locked):
            return self._change_definition(plan) if self.alters_apart(plan) else self._try(plan, attempt)

    def committed(self, plan: Plan, outcome: Outcome) -> None:
        """Does what must follow the commit."""
        apart = self.alters_apart(plan)
        if not apart:
            self.slicer.committed()
            self.pair_rejects.committed(outcome.rejects)
        if plan.definition_changes and self.pair_rejects.any:
            self.pair_rejects.begin()  # by the names that tables have now
        if not apart and not self._transactional_ddl:
            with self._alone_with(plan.locked), self._own_ddl(plan.after):
                self.sessions.alterer.complete_columns(plan.written)

    def escalation(self, plan: Plan) -> Escalation:
        """Decides on further attempts at the plan."""
        merger, tables = self.sessions.merger, plan.changed
        return Escalation(
            tables=tables,
            related=lambda table: merger.targets.connected(table, tables) if merger.cascades else {table},
            safe=plan.checks.safe,
            final=plan.checks.final,
            rejecting=self._rejecting,
            cascades=merger.cascades,
            in_slices=plan.after.catching_up,
        )

    def drop_constraints(self, plan: Plan, *, altering: bool) -> bool:
        """Drops the slave's constraints that the master dropped and that may refuse the plan, with `altering` also
        indexes; False if there are none."""
        concerned = plan.written | plan.locked if altering else plan.written
        with self._alone_with(plan.locked):
            return bool(slave_foreign_keys.drop(self.sessions, concerned, altering=altering))

    def too_small(self, reason: Exception) -> SliceTooSmall:
        """The slice ends between rows that refer to each other or exchange a unique value."""
        self.slicer.grow()
        return SliceTooSmall(self.pair, reason)

    def _change_definition(self, plan: Plan) -> Outcome:
        """Steps 2 and 3 of `sluice.apply.window_runs`."""
        outcome = Outcome()
        dropped: list[Defined] = []
        with self._own_ddl(plan.before):
            for change in plan.definition_changes:
                with _altering(change.table):
                    self.sessions.alterer.prepare([change])
                    dropped += self.sessions.alterer.will_drop(change)
            self._forget_dropped(dropped)
        with self._own_ddl(plan.before):
            for change in plan.definition_changes:
                self._define(change, outcome)
        with self.sessions.slave_transaction() as slave:
            self.checkpoints.lock(plan.before)
            slave_foreign_keys.require_known_actions(self.sessions, slave)
            for change in plan.definition_changes:
                self.sessions.alterer.rename_labels(change)
                self._follow_name(change, plan, outcome)
            for step in plan.steps:
                if isinstance(step, LeftOut):  # of a table that is renamed while it is loaded
                    self._leave_out(step, plan.load_filter)
            self._forget_dropped(dropped)
            self._check_before_commit(plan)
            self.checkpoints.advance(plan.before, plan.after, cut=True)
        return outcome

    def _forget_dropped(self, dropped: Iterable[Defined]) -> None:
        """Lets `DefinitionFollower` create again what the slave could not keep.

        Called before the drop, since a repetition no longer finds it, and after, since a round may have found it
        meanwhile.
        """
        store = DefinitionStore.of(self.pair, self.sessions.slave)
        for each in dropped if store.read() is not None else ():
            store.forget(each)

    @contextmanager
    def _own_ddl(self, expected: Checkpoint) -> Iterator[None]:
        """A transaction for DDL that commits implicitly, which also releases the lock of the checkpoint's row.

        The checkpoint must be `expected`. A named lock makes the next apply wait until the DDL is done. Raises
        `Fenced`, `CheckpointMoved`.
        """
        self._keep_lease()
        sessions = vendor_at(self.pair).sessions
        with sessions.named_lock(self.sessions.slave, f"sluice ddl {self.pair.prefix} {self.pair.slave.name}"):
            with self.sessions.slave_transaction():
                self.checkpoints.lock(expected)
            with self.sessions.slave_transaction():
                yield

    def _try(self, plan: Plan, attempt: Attempt) -> Outcome:
        """One transaction with all of the plan; a failure rolls all of it back."""
        outcome = Outcome()
        self._keep_lease()
        expect_before: Callable[[], None] = partial(self.checkpoints.lock, plan.before)
        # A later failure also undoes the new checkpoint. It must come last only if DDL may commit it, or if the outcome
        # decides where it is written.
        at_once = self._transactional_ddl and not self.checkpoints.overlap

        def first() -> None:
            nonlocal expect_before
            self.sessions.merger.begin(attempt.immediate)
            if at_once:
                expect_before = self.checkpoints.exchange(plan.before, plan.after)

        with self.sessions.slave_transaction(first=first) as slave:
            expect_before()
            for step in grouped(plan.steps):
                self._do_step(step, plan, attempt, outcome)
            self._restore_displaced(plan, attempt, outcome)
            if outcome.rejects and slave_foreign_keys.refusing(self.sessions, plan.written):
                raise ConstraintsOutdated
            self._put_rejects(plan, outcome)
            if self._transactional_ddl:
                self.sessions.alterer.complete_columns(plan.written)
            slave_foreign_keys.require_known_actions(self.sessions, slave)
            self._check_before_commit(plan)
            if not at_once:
                self.checkpoints.advance(plan.before, plan.after, cut=plan.has_cuts or bool(outcome.rejects))
        return outcome

    def _check_before_commit(self, plan: Plan) -> None:
        """Checks, as late as possible, what must hold when the slave commits."""
        self._keep_lease()
        # Late, because the master's own commits have usually flushed its log by now. And a slave that is dropped at
        # items_limit while its apply runs must not skip what was purged unread.
        self.sessions.secure(plan.end, plan.start)

    # The steps

    def _do_step(
        self,
        step: Single | list[Truncation],
        plan: Plan,
        attempt: Attempt,
        outcome: Outcome,
    ) -> None:
        if isinstance(step, Rows):
            self._merge(step, plan.checks, attempt, outcome)
        elif isinstance(step, list):
            self._truncate(step, plan.load_filter)
        elif isinstance(step, LeftOut):
            self._leave_out(step, plan.load_filter)
        elif isinstance(step, DefinitionOnly):
            reason = self.sessions.alterer.attempt(step.change)
            self._note_not_followed(step.change, reason)
            if not reason:
                self._note_table(step.change)
        elif isinstance(step, CaughtUp):
            self._catch_up(step, plan.load_filter)
        elif step.action is Action.DIFFER:
            outcome.rejects.append(self.pair_rejects.differing(step))
        else:
            self._define(step, outcome)
            self._follow_name(step, plan, outcome)

    def _follow_name(self, change: CutItem, plan: Plan, outcome: Outcome) -> None:
        """What is kept under a table's name goes with it, or gets the new one."""
        if plan.load_filter is not None and change.action is Action.DROP:
            plan.load_filter.forget(change.table)
        outcome.rejects = self.pair_rejects.follow(change, outcome.rejects)

    def _prepare_left_out(self, changes: Sequence[CutItem]) -> None:
        """Types come first, as for all tables. What the slave refuses must not stop the other tables.

        All changes of a table are prepared together: labels are told apart by all of their names in the window.
        """
        by_table: dict[TableName, list[CutItem]] = {}
        for change in changes:
            by_table.setdefault(change.table, []).append(change)
        for of_table in by_table.values():
            try:
                with self.sessions.slave_transaction():
                    self.sessions.alterer.prepare(of_table)
            except Terminal as refused:
                self._note_not_followed(of_table[0], str(refused))

    def _note_not_followed(self, change: CutItem, reason: str) -> None:
        if reason:
            log.info("%s: %s is left out, and %s does not follow: %s", self.pair, change.table, change, reason)

    def _define(self, change: CutItem, outcome: Outcome) -> None:
        with _altering(change.table):
            if self._transactional_ddl and slave_foreign_keys.untie(self.sessions, change):
                outcome.untied = True
            alterer = self.sessions.alterer
            if change.replaces and change.defined is not None and self._name_is_taken(change):
                alterer.apply(replace(change, action=Action.DROP, table=change.defined.table))
            if change.action is Action.DROP and self.pair.slave.on_drop == "keep":
                alterer.release(change.table)
            else:
                alterer.apply(change, partial(self._note_table, change))
            self._note_table(change)

    def _note_table(self, change: CutItem) -> None:
        """Notes name and columns that the slave's table has now: the item may come once more."""
        store = DefinitionStore.of(self.pair, self.sessions.slave)
        if change.action is Action.DROP:
            store.forget_table(change.table)
            return
        if change.defined is not None and change.defined.table != change.table:
            store.rename_table(change.table, change.defined.table)
        if change.followed is not None:
            store.put_columns(change.followed, followed=True)

    def _name_is_taken(self, change: CutItem) -> bool:
        """Whether the slave still has the kept table of that name.

        Where DDL commits implicitly, an earlier try may already have given the name to the renamed table.
        """
        if change.action is Action.CREATE:
            return True
        rows = vendor_at(self.pair).rows
        return rows.shape(self.sessions.slave, change.table) is not None

    def _merge(self, rows: Rows, checks: Checks, attempt: Attempt, outcome: Outcome) -> None:
        """Merges net changes; replays the changes of the tables that the attempt replays."""
        outcome.rejects += rows.rejected
        replayed = attempt.replayed | rows.ordered
        merger = self.sessions.merger
        merger.merge([change for change in rows.changes if change.table not in replayed], safe=checks.safe)
        present = replayed & ({change.table for change in rows.changes} | rows.ordered)
        ruled = self.ruled(present)
        for tables in (present - ruled, ruled):
            self._replay(sorted(tables), rows, checks, attempt, outcome)

    def ruled(self, tables: Iterable[TableName]) -> frozenset[TableName]:
        """The tables of `tables` with a conflict rule. It decides also in safe mode, where the master would win."""
        rule = self.pair.slave.conflict_rule
        return frozenset(table for table in tables if rule(table) is not None)

    def _replay(
        self, present: Sequence[TableName], rows: Rows, checks: Checks, attempt: Attempt, outcome: Outcome
    ) -> None:
        """Replays the changes of the tables `present`: all of them have a conflict rule, or none has."""
        if not present:
            return
        merger = self.sessions.merger
        rules = {table: rule for table in present if (rule := self.pair.slave.conflict_rule(table)) is not None}
        items = pa.concat_tables([rows.items(table) for table in present]).sort_by("repl_key")
        images = self.sessions.images
        if merger.cascades:
            items = slave_foreign_keys.in_cascade_order(items, rows.keys, merger.targets.foreign_keys(present), images)
        options = ReplayOptions(
            safe=checks.safe and not rules,
            images=frozenset(rules or (table for table in rows.keys if checks.compares(table))),
            reject=self._rejecting,
            deferrable=attempt.deferrable,
            rules=rules,
        )
        done = self.sessions.replayer.replay(images.changes(items, rows.keys), options, outcome.rejects)
        outcome.rejects = done.rejects
        outcome.displaced.update(done.displaced)

    def _truncate(self, truncations: Sequence[Truncation], load_filter: LoadFilter | None) -> None:
        """Does consecutive truncations together: tables that refer to each other can only be emptied together."""
        alterer = self.sessions.alterer
        applied = [each.cut for each in truncations if each.decision is Decision.APPLY]
        whole = [cut.table for cut in applied if cut.action is Action.TRUNCATE]
        if whole:
            alterer.truncate(whole)
        for cut in applied:
            if cut.action is Action.DELETE_WHERE:
                with _altering(cut.table):
                    alterer.delete_where(cut)
        for each in truncations:
            if each.decision is Decision.WAIT and load_filter is not None:
                table, keys = each.cut.table, alterer.keys(each.cut)
                alterer.delete(table, load_filter.keys_to_truncate(each.cut, keys))

    def _leave_out(self, left: LeftOut, load_filter: LoadFilter | None) -> None:
        table = left.table
        if load_filter is not None:
            load_filter.forget(table)
        self.pair_rejects.drop(table)
        why = f"is inconsistent: {left.reason}" if left.reason else "joins with rows that this slave lacks"
        # The run of reconcile_tables by which a table joins starts its load, too.
        starts = not left.reason and self.pair.slave.new_tables == LOAD
        remedy = how_to_load(self.pair.prefix, self.pair.slave.name, [table])
        self._limiter.log(
            logging.INFO if starts else logging.WARNING,
            f"left out {table}",
            f"{self.pair}: {table} {why}. Its changes are left out until a load; everything else continues. "
            f"{'reconcile_tables starts that load.' if starts else remedy}",
        )

    def _catch_up(self, step: CaughtUp, load_filter: LoadFilter | None) -> None:
        """Marks blocks as caught up. Raises `CheckpointMoved` if one of them was planned again meanwhile."""
        assert load_filter is not None, "blocks are loaded"
        store = load_filter.store()
        for block in step.blocks:
            if not store.caught_up(block):
                raise CheckpointMoved(f"block {block.number} of {step.table} is loaded again; all is read again")
        if step.ready:
            log.info("%s: %s is ready: it is loaded and has caught up", self.pair, step.table)

    def _restore_displaced(self, plan: Plan, attempt: Attempt, outcome: Outcome) -> None:
        """Restores displaced rows that the master has."""
        if not outcome.displaced:
            return
        try:
            displaced_rows.restore_displaced(
                self.sessions,
                outcome.displaced.values(),
                plan.end,
                self._keep_lease,
                # While blocks load, the slave's row may be newer than the window.
                may_write=plan.load_filter is None,
                deferrable=attempt.deferrable,
            )
        except Conflict as conflict:
            if not plan.after.catching_up:
                raise
            raise self.too_small(conflict) from conflict

    def _put_rejects(self, plan: Plan, outcome: Outcome) -> None:
        """Writes the rejects to REJECTS, and marks older ones that this window outdates."""
        if outcome.rejects or plan.overlaps or (plan.emptied and self.pair_rejects.any):
            self.pair_rejects.put(outcome.rejects, plan.overlaps, plan.emptied)
