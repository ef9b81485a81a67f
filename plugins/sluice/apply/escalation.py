"""What is tried next when changes do not go to the slave together.

A window is tried in the form that costs least: of each table the net change of every key, in one statement. Some
changes need more. Two rows exchange a unique value; a row is referred to before it is there; a conflict has to be
traced to one change. Each failure rolls the transaction back, and leads to another attempt that does more, or to none.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sluice.database.conflicts import Unsettled
from sluice.model.names import TableName


@dataclass(frozen=True)
class Attempt:
    """How the changes of a window are tried."""

    replayed: frozenset[TableName] = frozenset()
    """Tables whose changes are applied one by one, in the order of their REPL_KEYs."""
    immediate: frozenset[str] = frozenset()
    """Deferrable constraints of the slave that are checked with each change: qualified, quoted names."""
    deferrable: bool = False
    """Whether rows that hold a unique value which another row needs go also where the commit would check it."""


@dataclass(frozen=True)
class Escalation:
    """The next attempt after a failed one; None where no further one would help."""

    tables: frozenset[TableName]
    """Those that the window changes rows of."""
    related: Callable[[TableName], Collection[TableName]]
    """What must be replayed together with a table, the table included."""
    safe: bool
    """Whether the window is applied in safe mode."""
    final: bool
    """Whether a conflict is one for sure; else the definitions are compared first."""
    rejecting: bool
    """Whether conflicts go to REJECTS."""
    cascades: bool
    """Whether the slave's foreign keys act on changes."""
    in_slices: bool
    """Whether more of the window follows in a transaction of its own, or came before."""

    def after_collision(self, tried: Attempt, table: TableName) -> Attempt | None:
        """The set-based form of the table's changes does not work, or its replay met another table's rows."""
        if self.tables <= tried.replayed:
            return None
        return self._replaying(tried, self.tables if table in tried.replayed else self.related(table))

    def after_conflict(self, tried: Attempt, table: TableName) -> Attempt | None:
        """A change does not fit the slave's row.

        Changes that fit only in their order across tables look like a conflict when tables are taken singly. So do
        rows that the slave's foreign keys have led to where the master's did.
        """
        if self.tables <= tried.replayed or not self.final:
            return None
        if not (tried.replayed or self.rejecting or self.cascades):
            return None
        return self._replaying(tried, self.tables if tried.replayed else self.related(table))

    def after_commit(self, tried: Attempt, refused: Unsettled) -> Attempt | None:
        """A constraint that is checked at the commit refuses the slave's rows. None also where a larger slice helps."""
        # A partition goes by another name than what is replicated.
        again = self.related(refused.table) if refused.table in self.tables else self.tables
        if self.safe and refused.unique and not tried.deferrable:
            # A row that the window does not bring holds the value: in safe mode it goes and comes back as the master's.
            return self._replaying(replace(tried, deferrable=True), again)
        if self.in_slices or not self.rejecting or refused.constraint in tried.immediate:
            return None
        # Checked at once, it tells which change is at fault.
        return self._replaying(replace(tried, immediate=tried.immediate | {refused.constraint}), again)

    @staticmethod
    def _replaying(tried: Attempt, tables: Collection[TableName]) -> Attempt:
        return replace(tried, replayed=tried.replayed.union(tables))
