"""Which tables' changes are left out as a window goes by, and what changes of definitions make of that.

A table that joins has rows on the master that the stream does not bring, unless its CREATE item says otherwise. Until
a load brings them nothing of it is applied: the slave has no such table, or an old one that stays as it is.
"""

from sluice.apply.apply_plan import Step, UnloadedTable
from sluice.apply.load_filter import LoadFilter
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.window_runs import CutItem
from sluice.database.registry import vendor_of
from sluice.model.blocks import Decision
from sluice.model.change import Action
from sluice.model.names import TableName
from sluice.model.table_state import TableState, TableStates


class TableStateTracker:
    """The states of the slave's tables at one place in the stream; `states` moves along with `follow`."""

    def __init__(self, states: TableStates, sessions: PairSessions, load_filter: LoadFilter | None):
        self.states = states
        self.sessions = sessions
        self.load_filter = load_filter
        self._vacated: set[TableName] = set()
        """Names that the steps so far free on the slave."""

    def follow(self, cut: CutItem) -> list[Step]:
        """The steps of a change of a definition."""
        if cut.action is Action.CREATE:
            return self._create(cut)
        left_out = cut.table in self.states
        if cut.action is Action.DIFFER:
            return [] if left_out else [cut]
        if cut.action is Action.DROP:
            self.states = self.states.put(cut.table, TableState.READY)
        else:
            assert cut.defined is not None, f"an item {cut.action} has a definition"
            now = cut.defined.table
            if now == cut.table:
                return [] if left_out else [cut]
            self.states = self.states.renamed(cut.table, now)
        if left_out:
            return []
        self._vacated.add(cut.table)
        if self.load_filter is not None and cut.action is Action.DROP:
            self.load_filter.gone(cut.table)
        return [cut]

    def _create(self, cut: CutItem) -> list[Step]:
        state = state_after_create(
            complete=cut.defined is not None and cut.defined.complete,
            loading=self._loading(cut),
            filled=cut.table not in self._vacated and self._filled(cut.table),
        )
        self.states = self.states.put(cut.table, state)
        if state is TableState.ABSENT:
            return [UnloadedTable(cut.table)]
        return [cut]

    def _loading(self, cut: CutItem) -> bool:
        """Whether blocks hold all rows that the table had when it was registered."""
        if self.load_filter is None or cut.table in self._vacated or cut.table not in self.load_filter.map.tables:
            return False
        return self.load_filter.truncated(cut) is Decision.DROP

    def _filled(self, table: TableName) -> bool:
        with self.sessions.slave_transaction() as slave:
            return vendor_of(self.sessions.pair.slave_info.vendor).applying.filled(slave, table)


def state_after_create(*, complete: bool, loading: bool, filled: bool) -> TableState:
    """The state of a table whose CREATE item comes by.

    `complete`: all of its rows follow in the stream; `loading`: its blocks bring them; `filled`: the slave has a
    table of that name with rows, which are older.
    """
    if loading:
        return TableState.LOADING
    return TableState.READY if complete and not filled else TableState.ABSENT
