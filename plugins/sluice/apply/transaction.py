"""The transaction of the slave in which a window arrives together with the new checkpoint."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from sluice.apply import cascades, causes, displaced
from sluice.apply.aside import Aside, Passed
from sluice.apply.checkpoints import OnSlave
from sluice.apply.escalation import Attempt, Escalation
from sluice.apply.links import Links
from sluice.apply.markers import Markers
from sluice.apply.seldom import Seldom
from sluice.apply.slices import Slices
from sluice.apply.steps import Checks, LeftOut, Rows, Step, Truncation, grouped
from sluice.apply.window import CutItem
from sluice.database.apply import Displaced, Texts
from sluice.database.conflicts import Collision, Conflict
from sluice.database.errors import StatementFailed
from sluice.database.registry import vendor_of
from sluice.domain.blocks import Decision
from sluice.domain.change import Action
from sluice.domain.checkpoint import Checkpoint
from sluice.domain.names import TableName
from sluice.domain.position import Position
from sluice.domain.reject import Rejected
from sluice.domain.table_state import how_to_load
from sluice.errors import Terminal, Transient
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")


class CannotReplay(Terminal):
    """Changes do not go to the slave in any form."""


class SliceTooSmall(Transient):
    """A slice ended between rows that the slave's constraints want together; a larger one is taken next."""

    def __init__(self, pair: Pair, reason: Exception):
        super().__init__(f"{pair}: a slice of the window is taken again, twice as large: {reason}")


@dataclass(frozen=True)
class Plan:
    """What a window, or a slice of one, does to the slave."""

    before: Checkpoint
    after: Checkpoint
    steps: Sequence[Step]
    checks: Checks
    passed: Passed
    """Changes of rows of which something is set aside."""
    markers: Markers | None
    """While blocks load: what has been read of which table, and where."""

    @property
    def start(self) -> Position:
        assert self.before.position is not None
        return self.before.position

    @property
    def end(self) -> Position:
        """What the slave has seen something of once this is committed."""
        end = self.after.target or self.after.position
        assert end is not None
        return end

    @property
    def definitions(self) -> list[CutItem]:
        return [step for step in self.steps if isinstance(step, CutItem)]

    @property
    def cuts(self) -> bool:
        """Whether there is more than rows: it must not come again where the checkpoint is kept in Redis."""
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
    """What an attempt found besides changes that fit."""

    rejects: list[Rejected] = field(default_factory=list)
    displaced: dict[tuple[TableName, Texts], Displaced] = field(default_factory=dict)


class WindowTransaction:
    """Commits plans to the slave of one pair. `keep_lease` raises when the lease is lost."""

    def __init__(
        self, links: Links, checkpoints: OnSlave, aside: Aside, slices: Slices, keep_lease: Callable[[], None]
    ):
        self.pair = links.pair
        self.links = links
        self.checkpoints = checkpoints
        self.aside = aside
        self.slices = slices
        self._keep_lease = keep_lease
        self._rejecting = links.pair.slave.on_conflict == "reject"
        self._transactional_ddl = vendor_of(links.pair.slave_info.vendor).applying.transactional_ddl
        self._seldom = Seldom(log)

    def commit(self, plan: Plan) -> Checkpoint:
        """The checkpoint that is committed with the plan's changes, after as many attempts as that takes.

        Raises `Conflict` where a change does not fit the slave's row, `CannotReplay`, `SliceTooSmall`, outages.
        """
        if not self._transactional_ddl and plan.definitions:
            return self._change_definition(plan)
        if plan.definitions:
            # A label can be used only after the transaction that added it.
            with self.links.slave_transaction():
                self.links.alterer.prepare(plan.definitions)
        escalation, attempt = self._escalation(plan), Attempt()
        while True:
            try:
                outcome = self._try(plan, attempt)
                break
            except Collision as collision:
                following = escalation.after_collision(attempt, collision.table)
                if following is None:
                    raise CannotReplay(str(collision)) from collision
                self._seldom.say(logging.INFO, f"collision {collision.table}", f"{self.pair}: {collision}")
            except Conflict as conflict:
                following = escalation.after_conflict(attempt, conflict.table)
                if following is None:
                    raise
                told = f"{self.pair}: {conflict.finding} The changes are now taken one by one."
                self._seldom.say(logging.INFO, f"conflict {conflict.table}", told)
            except StatementFailed as failure:
                following = self._after_commit(plan, escalation, attempt, failure)
            attempt = following
        self.slices.committed()
        self.aside.committed(outcome.rejects)
        if not self._transactional_ddl:
            with self._own_ddl(plan.after):
                self.links.alterer.settle(plan.written)
        return plan.after

    def _change_definition(self, plan: Plan) -> Checkpoint:
        """The steps 2 and 3 of `sluice.apply.pending_ddl`."""
        with self._own_ddl(plan.before):
            self.links.alterer.prepare(plan.definitions)
        with self._own_ddl(plan.before):
            for change in plan.definitions:
                self.links.alterer.apply(change)
        with self.links.slave_transaction() as slave:
            self.checkpoints.lock(plan.before)
            cascades.check(self.links, slave)
            for change in plan.definitions:
                if plan.markers is not None and change.action is Action.DROP:
                    plan.markers.forget(change.table)
            self._still_valid(plan)
            self.checkpoints.advance(plan.before, plan.after, cut=True)
        return plan.after

    @contextmanager
    def _own_ddl(self, mine: Checkpoint) -> Iterator[None]:
        """A transaction for DDL that commits by itself, and with it ends the lock of the checkpoint's row.

        An apply that has been replaced is found out before, and its successor waits until the DDL is done. Raises
        `Fenced`, `CheckpointMoved`.
        """
        self._keep_lease()
        sessions = vendor_of(self.pair.slave_info.vendor).sessions
        with sessions.named_lock(self.links.slave, f"sluice ddl {self.pair.prefix} {self.pair.slave.name}"):
            with self.links.slave_transaction():
                self.checkpoints.lock(mine)
            with self.links.slave_transaction():
                yield

    def _try(self, plan: Plan, attempt: Attempt) -> Outcome:
        """One transaction. Its rollback leaves nothing of the plan on the slave."""
        outcome = Outcome()
        self._keep_lease()
        with self.links.slave_transaction() as slave:
            self.links.merger.begin(attempt.immediate)
            self.checkpoints.lock(plan.before)
            for step in grouped(plan.steps):
                self._carry_out(step, plan, attempt, outcome)
            self._bring_back(plan, attempt, outcome)
            self._set_aside(plan, outcome)
            if self._transactional_ddl:
                self.links.alterer.settle(plan.written)
            cascades.check(self.links, slave)
            self._still_valid(plan)
            self.checkpoints.advance(plan.before, plan.after, cut=plan.cuts or bool(outcome.rejects))
        return outcome

    def _still_valid(self, plan: Plan) -> None:
        """What must hold when the slave commits, looked at as late as can be."""
        self._keep_lease()
        # By now the master's own commits have usually taken it to the disk.
        self.links.secure(plan.end)
        # A slave that is dropped at items_limit while its apply runs must not pass over what was purged unread.
        self.links.check_purged(plan.start)

    def _escalation(self, plan: Plan) -> Escalation:
        merger, tables = self.links.merger, plan.changed
        return Escalation(
            tables=tables,
            related=lambda table: merger.targets.kin(table, tables) if merger.cascades else {table},
            safe=plan.checks.safe,
            final=plan.checks.final,
            rejecting=self._rejecting,
            cascades=merger.cascades,
            in_slices=plan.after.catching_up,
        )

    def _after_commit(self, plan: Plan, escalation: Escalation, attempt: Attempt, failure: StatementFailed) -> Attempt:
        """The next attempt after a statement failed, mostly COMMIT. Raises what stops the window."""
        applying = vendor_of(self.pair.slave_info.vendor).applying
        refused = applying.at_commit(failure, self.links.merger.targets.hides)
        if refused is None:
            raise failure
        following = escalation.after_commit(attempt, refused)
        if following is not None:
            return following
        if plan.after.catching_up:
            # The slice ends between rows that refer to one another, or that exchange a value.
            raise self._too_small(failure) from failure
        raise refused from failure

    def _too_small(self, reason: Exception) -> SliceTooSmall:
        self.slices.grow()
        return SliceTooSmall(self.pair, reason)

    # The steps

    def _carry_out(
        self, step: Rows | CutItem | LeftOut | list[Truncation], plan: Plan, attempt: Attempt, outcome: Outcome
    ) -> None:
        if isinstance(step, Rows):
            self._merge(step, plan.checks, attempt, outcome)
        elif isinstance(step, list):
            self._truncate(step, plan.markers)
        elif isinstance(step, LeftOut):
            self._leave_out(step.table, plan.markers)
        elif step.action is Action.DIFFER:
            outcome.rejects.append(self.aside.differing(step))
        else:
            self.links.alterer.apply(step)
            if plan.markers is not None and step.action is Action.DROP:
                plan.markers.forget(step.table)

    def _merge(self, rows: Rows, checks: Checks, attempt: Attempt, outcome: Outcome) -> None:
        """Net changes as sets of rows, those of the attempt's replayed tables one by one."""
        replayed = attempt.replayed | rows.ordered
        merger = self.links.merger
        merger.merge([change for change in rows.changes if change.table not in replayed], safe=checks.safe)
        present = sorted(replayed & ({change.table for change in rows.changes} | rows.ordered))
        if not present:
            return
        items = pa.concat_tables([rows.items(table) for table in present]).sort_by("repl_key")
        if merger.cascades:
            items = causes.ordered(items, rows.keys, merger.targets.foreign_keys(present))
        done = self.links.replayer.replay(
            items,
            rows.keys,
            safe=checks.safe,
            images=[table for table in rows.keys if checks.compares(table)],
            reject=self._rejecting,
            aside=outcome.rejects,
            deferrable=attempt.deferrable,
        )
        outcome.rejects = done.rejects
        outcome.displaced.update(done.displaced)

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

    def _leave_out(self, table: TableName, markers: Markers | None) -> None:
        if markers is not None:
            markers.forget(table)
        self.aside.drop(table)
        told = f"{self.pair}: {table} joins with rows that this slave lacks. Its changes are left out until a load."
        self._seldom.say(
            logging.WARNING, f"absent {table}", f"{told} {how_to_load(self.pair.prefix, self.pair.slave.name, [table])}"
        )

    def _bring_back(self, plan: Plan, attempt: Attempt, outcome: Outcome) -> None:
        """Rows that went for others' unique values are there again, if the master has them."""
        if not outcome.displaced:
            return
        try:
            displaced.bring_back(
                self.links,
                outcome.displaced.values(),
                plan.end,
                self._keep_lease,
                # While blocks load, a row may be later than the window; its changes up to there are dropped.
                may_write=plan.markers is None,
                deferrable=attempt.deferrable,
            )
        except Conflict as conflict:
            if not plan.after.catching_up:
                raise
            raise self._too_small(conflict) from conflict

    def _set_aside(self, plan: Plan, outcome: Outcome) -> None:
        """Rejects go to REJECTS; those that this window outdates are marked."""
        if outcome.rejects or plan.passed or (plan.emptied and self.aside.any):
            self.aside.put(outcome.rejects, plan.passed, plan.emptied)
