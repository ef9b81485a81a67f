"""Tracks, through a window, which tables' changes are left out, and turns cuts into steps accordingly.

A table that joins may have rows on the master that are not in the stream; its CREATE item says so. Until a load brings
them, none of its changes is applied: the slave has no such table, or an old one that stays as it is.
"""

from collections.abc import Sequence
from dataclasses import replace

from sluice.apply.apply_plan import DefinitionOnly, LeftOut, Step, Truncation
from sluice.apply.escalation import Reasons
from sluice.apply.load_filter import LoadFilter, PartFilter
from sluice.apply.net_changes import NoColumns
from sluice.apply.pair_sessions import PairSessions, TableGone
from sluice.apply.window_runs import CutItem
from sluice.database.changes import ChangeTooLarge
from sluice.database.placed import vendor_at
from sluice.database.rows import TableRefused
from sluice.errors import Terminal
from sluice.model.blocks import Block, Decision
from sluice.model.change import EMPTYING, UNSEEN, Action
from sluice.model.checkpoint import Checkpoint
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.table_state import TableState, TableStates
from sluice.transform.table_transform import TransformationInvalid

# Isolates a table whose changes cannot be applied, or stops the apply, as `on_error` says.
#
# An isolated table is inconsistent from the last window on: its changes are left out until it is loaded again.
# Where the slave's foreign keys act on the apply, that is allowed only if none connects it with a table that is
# still applied, whose rows might refer to missing ones.

ISOLATE, STOP = "isolate", "stop"
"""The values of `on_error`."""


def table_not_isolated(failure: Terminal, ties: Sequence[ForeignKey]) -> Terminal:
    """A table fails that `on_error` isolates, but foreign keys forbid it."""
    tied = ", ".join(f"{key.child} → {key.parent}" for key in ties)
    return Terminal(
        f"{failure} (The table is to be left out alone, but foreign keys, which act here, tie it to others that go "
        f"on: {tied}. So the whole slave stops.)",
        code="table-not-isolated",
    )


def ties(table: TableName, keys: Sequence[ForeignKey], states: TableStates) -> list[ForeignKey]:
    """The foreign keys between `table` and other tables that are applied."""
    others = [
        (key, key.parent if key.child == table else key.child) for key in keys if table in (key.child, key.parent)
    ]
    return [key for key, other in others if other != table and other not in states]


def _unfit(sessions: PairSessions, position: Position, table: TableName) -> list[str]:
    """Why the slave's table cannot hold the result of its transformation; empty if unknown."""
    try:
        return sessions.transformed.unfit(position, table)
    except TransformationInvalid:
        return []


def isolated(
    failure: Terminal,
    table: TableName,
    sessions: PairSessions,
    checkpoint: Checkpoint,
    before: Reasons,
    *,
    alone: bool,
) -> Reasons:
    """Adds the failing table to `before`. Raises `failure` if the slave must stop, and `table-not-isolated`.

    `alone`: whether it is isolated by default: its definition was being changed, or it is known to differ, so that its
    changes cannot be expected to fit.
    A table whose transformation was changed since it was loaded is always isolated: a load must follow anyway. If the
    slave's foreign keys are switched off, they refuse nothing meanwhile.
    """
    pair = sessions.pair
    if table in before:
        raise failure
    assert checkpoint.position is not None, "a window follows it"
    if sessions.replica_role and (unfit := _unfit(sessions, checkpoint.position, table)):
        return {**before, table: f"the configuration gives it other columns than the slave has: {'; '.join(unfit)}"}
    rule = pair.replication.rule(table)
    alone = alone or isinstance(failure, ChangeTooLarge | TableRefused | TableGone | NoColumns)
    by_default = ISOLATE if alone else STOP
    policy = (rule.on_error if rule is not None else None) or pair.slave.on_error or by_default
    if policy != ISOLATE:
        raise failure
    if sessions.replica_role:
        # The slave's foreign keys refuse nothing meanwhile; a load of the table gives the rows what they refer to.
        return {**before, table: failure.reason_left_out}
    registered = sessions.queue.registered()
    foreign_keys = [key for key in sessions.queue.foreign_keys(registered) if key.parent in registered]
    if tied := ties(table, foreign_keys, checkpoint.tables):
        raise table_not_isolated(failure, tied) from failure
    return {**before, table: failure.reason_left_out}


KEY_CHANGED = "its key was changed on the master while it was loaded"
"""Its blocks are ranges of the former one, which now hold other rows."""
RENAMED = "it was renamed on the master while it was loaded"
"""Its blocks are of the former name."""


class TableStateTracker:
    """`states`: the states of the slave's tables at the current place in the stream."""

    def __init__(self, states: TableStates, sessions: PairSessions, load_filter: LoadFilter | None):
        self.states = states
        self.sessions = sessions
        self.load_filter = load_filter
        self._vacated: set[TableName] = set()
        """Tables that the steps so far drop or rename on the slave."""
        self._isolated: Reasons = {}
        """Tables whose changes in this window cannot be applied."""

    @property
    def part(self) -> PartFilter | None:
        """The filter, if some tables are loading and the others are ready."""
        return self.load_filter if isinstance(self.load_filter, PartFilter) else None

    def truncate(self, cut: CutItem) -> list[Step]:
        """The steps of a TRUNCATE or DELETE WHERE."""
        if cut.table in self.states:
            return []
        if reason := self._cut_while_loading(cut):
            return self.leave_out(cut.table, reason)
        # Decide before the slave's transaction begins: this may wait for a block.
        return [Truncation(cut, self.load_filter.truncated(cut) if self.load_filter else Decision.APPLY)]

    def isolate(self, isolated: Reasons) -> list[Step]:
        """The steps that make the tables inconsistent at the beginning of the window."""
        self._isolated = isolated
        return [step for table, reason in isolated.items() for step in self.leave_out(table, reason)]

    def leave_out(self, table: TableName, reason: str) -> list[Step]:
        """The steps that make `table` inconsistent and end its load: none of its changes is applied any more."""
        self._stop_loaders(table)
        self.states = self.states.put(table, TableState.INCONSISTENT, reason)
        if self.load_filter is not None:
            self.load_filter.gone(table)
        return [LeftOut(table, reason)]

    def follow(self, cut: CutItem) -> list[Step]:
        """The steps of a change of a definition."""
        if self.states.state(cut.table) is TableState.LOADING and cut.action is not Action.DROP:
            return self._follow_while_loading(cut)
        if cut.action is Action.CREATE:
            return self._create(cut)
        state = self.states.state(cut.table)
        left_out = cut.table in self.states
        if cut.action is Action.DIFFER:
            return [] if left_out else self._differ(cut)
        if cut.action is Action.DROP:
            self._stop_loaders(cut.table)
            self.states = self.states.left(cut.table, kept=self._keeps)
        else:
            assert cut.defined is not None, f"an item {cut.action} has a definition"
            now = cut.defined.table
            if not left_out and self._decided_by_blocks(cut.table) and (key_changed(cut) or now != cut.table):
                return self._leave_loading(cut, now)
            if now == cut.table:
                return self._definition_only(cut) if left_out else [cut]
            cut = replace(cut, replaces=now in self.states.former)
            self.states = self.states.renamed(cut.table, now, kept=self._keeps)
        if state is TableState.INCONSISTENT and self._has(cut.table):
            # Its load creates it again, under its new name: what the slave has may be in the way of another table.
            cut = replace(cut, action=Action.DROP, defined=None, former=None, replaces=False)
        elif left_out:
            return []
        self._vacated.add(cut.table)
        if self.load_filter is not None and cut.action is Action.DROP:
            self.load_filter.gone(cut.table)
        return [cut]

    def _definition_only(self, cut: CutItem) -> list[Step]:
        """The step of an ALTER of a table that is left out: the slave's has the former definition if it was ready once.

        So its load finds labels, columns and defaults as the master has them. If DDL commits implicitly, or the slave
        has other columns than the master, the load alone compares them.
        """
        pair = self.sessions.pair
        follows = (
            self.states.state(cut.table) is TableState.INCONSISTENT
            and pair.slave_vendor.transactional_ddl
            and pair.transformation(cut.table) is None
            and cut.table not in pair.placement.taken([cut.table])
        )
        return [DefinitionOnly(cut)] if follows else []

    def _decided_by_blocks(self, table: TableName) -> bool:
        return self.load_filter is not None and self.load_filter.decides(table)

    def _has(self, table: TableName) -> bool:
        """Whether the slave's table of that name is the one that is inconsistent, and can be dropped."""
        return table not in self._isolated and table not in self.sessions.pair.placement.taken([table])

    @property
    def _keeps(self) -> bool:
        return self.sessions.pair.slave.on_drop == "keep"

    def _follow_while_loading(self, cut: CutItem) -> list[Step]:
        if cut.action is Action.CREATE:
            assert self.part is not None, "in NORMAL"
            if loaded_since(self.part.blocks_of(cut.table), cut):
                self.part.read_again(cut.table)
                return []
            self.part.gone(cut.table)
            return self._create(cut)
        if cut.action is Action.DIFFER:
            return self._differ(cut)
        assert cut.defined is not None, f"an item {cut.action} has a definition"
        now = cut.defined.table
        if now != cut.table or key_changed(cut):
            return self._leave_loading(cut, now)
        if reason := self._cut_while_loading(cut):
            return self.leave_out(cut.table, reason)
        return [cut]

    def _leave_loading(self, cut: CutItem, now: TableName) -> list[Step]:
        """The steps of a change after which blocks of a table that is not loaded yet are of no use."""
        cut = replace(cut, replaces=now in self.states.former)
        if key_changed(cut):
            steps = self.leave_out(cut.table, KEY_CHANGED)
        else:
            steps = [*self.leave_out(cut.table, RENAMED), cut]
        self.states = self.states.renamed(cut.table, now)
        return steps

    def _differ(self, cut: CutItem) -> list[Step]:
        if cut.differs.startswith(UNSEEN):
            return self.leave_out(cut.table, cut.differs.removeprefix(UNSEEN))
        return [cut]

    def _stop_loaders(self, table: TableName) -> None:
        """A loader that reads a block of `table` gives it up and releases the slave's table."""
        if self.part is not None and any(not block.caught_up for block in self.part.blocks_of(table)):
            self.part.read_again(table)

    def _cut_while_loading(self, cut: CutItem) -> str:
        """Has blocks that were read before `cut` read again. Returns why that is not possible, else ""."""
        behind = [block for block in self.part.blocks_of(cut.table) if not block.caught_up] if self.part else []
        if any(block.file is not None for block in behind):
            what = "emptied" if cut.action in EMPTYING else "altered"
            return f"it was {what} on the master after its rows were written to files"
        if behind and self.part is not None:
            self.part.read_again(cut.table)
        return ""

    def _create(self, cut: CutItem) -> list[Step]:
        if cut.table in self._isolated:
            # It is what the slave refuses, also if one of that name was dropped before.
            self.states = self.states.put(cut.table, TableState.INCONSISTENT, self._isolated[cut.table])
            return []
        cut = replace(cut, replaces=cut.table in self.states.former)
        state = state_after_create(
            complete=cut.defined is not None and cut.defined.complete,
            loading=self._loading(cut),
            filled=not cut.replaces and cut.table not in self._vacated and self._filled(cut.table),
        )
        self.states = self.states.put(cut.table, state)
        if state is TableState.ABSENT:
            return [LeftOut(cut.table)]
        return [cut]

    def _loading(self, cut: CutItem) -> bool:
        """Whether blocks bring all rows that the table had when it was registered."""
        if self.load_filter is None or cut.table in self._vacated or cut.table not in self.load_filter.map.tables:
            return False
        return self.load_filter.truncated(cut) is Decision.DROP

    def _filled(self, table: TableName) -> bool:
        with self.sessions.slave_transaction() as slave:
            return vendor_at(self.sessions.pair).applying.filled(slave, table)


def state_after_create(*, complete: bool, loading: bool, filled: bool) -> TableState:
    """The state of a table after its CREATE item.

    `complete`: all of its rows follow in the stream; `loading`: its blocks bring them; `filled`: the slave already has
    a table of that name with rows.
    """
    return TableState.READY if loading or (complete and not filled) else TableState.ABSENT


def loaded_since(blocks: Sequence[Block], cut: CutItem) -> bool:
    """Whether all `blocks` are read after `cut`, which registered the table.

    Otherwise the table left and joined again during its load, and changes in between may not be captured.
    """
    return not any(
        block.caught_up or (block.marker is not None and not block.marker.covers(cut.transaction, cut.repl_key))
        for block in blocks
    )


def key_changed(cut: CutItem) -> bool:
    """Whether rows are named or ordered otherwise after an ALTER. Names of columns do not matter."""
    assert cut.defined is not None and cut.former is not None, "an item ALTER has both"
    was, now = (
        [(column.position, column.type, column.collation) for column in definition.shape.key]
        for definition in (cut.former, cut.defined)
    )
    return was != now
