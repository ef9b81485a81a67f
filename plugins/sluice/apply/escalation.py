"""Decides what is tried next when a window's transaction fails.

The first attempt is the cheapest: the net changes of each table, in a few statements. Some windows need more: two rows
exchange a unique value, a row is referred to before it is inserted, a conflict must be traced to one change. Each
failure rolls the transaction back; then comes an attempt that does more, or the failure stands.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sluice.database.conflicts import CommitRefused
from sluice.model.names import TableName


@dataclass(frozen=True)
class Attempt:
    """How the changes of a window are applied this time."""

    replayed: frozenset[TableName] = frozenset()
    """Tables whose changes are applied one by one, in the order of their REPL_KEYs."""
    immediate: frozenset[str] = frozenset()
    """Deferrable constraints of the slave that are checked with each change: qualified, quoted names."""
    deferrable: bool = False
    """Whether rows are displaced also for unique values that the commit checks."""


@dataclass(frozen=True)
class Escalation:
    """The next attempt after a failed one; None where no further one would help."""

    tables: frozenset[TableName]
    """Tables whose rows the window changes."""
    related: Callable[[TableName], Collection[TableName]]
    """The table, and those that must be replayed together with it."""
    safe: bool
    """Whether the window is applied in safe mode."""
    final: bool
    """Whether a conflict counts; otherwise the definitions are compared first."""
    rejecting: bool
    """Whether conflicts go to REJECTS."""
    cascades: bool
    """Whether the slave's foreign keys act on changes."""
    in_slices: bool
    """Whether the window takes several transactions."""

    def after_collision(self, tried: Attempt, table: TableName) -> Attempt | None:
        """After a merge of the table's changes failed, or its replay failed because of another table's rows."""
        if self.tables <= tried.replayed:
            return None
        return self._replaying(tried, self.tables if table in tried.replayed else self.related(table))

    def after_conflict(self, tried: Attempt, table: TableName) -> Attempt | None:
        """After a change did not fit the slave's row.

        It may be a false conflict: changes that fit only in their order across tables, or rows that the slave's foreign
        keys have already changed as the master's did. Replaying tells.
        """
        if self.tables <= tried.replayed or not self.final:
            return None
        if not (tried.replayed or self.rejecting or self.cascades):
            return None
        return self._replaying(tried, self.tables if tried.replayed else self.related(table))

    def after_commit(self, tried: Attempt, refused: CommitRefused) -> Attempt | None:
        """After a constraint that the commit checks refused the rows. None also where a larger slice may help."""
        # The refusing table may be a partition, whose name is not the replicated one.
        again = self.related(refused.table) if refused.table in self.tables else self.tables
        if self.safe and refused.unique and not tried.deferrable:
            # A row outside the window holds the value: in safe mode it is displaced and restored from the master.
            return self._replaying(replace(tried, deferrable=True), again)
        if self.in_slices or not self.rejecting or refused.constraint in tried.immediate:
            return None
        # Checked with each statement, the constraint tells which change is at fault.
        return self._replaying(replace(tried, immediate=tried.immediate | {refused.constraint}), again)

    @staticmethod
    def _replaying(tried: Attempt, tables: Collection[TableName]) -> Attempt:
        return replace(tried, replayed=tried.replayed.union(tables))
