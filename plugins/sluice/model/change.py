"""Changes: the actions that ITEMS records, and what one does to a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName


class Action(StrEnum):
    """DB_ACTION of an item."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    DELETE_WHERE = "DELETE WHERE"
    """The rows that meet a condition go: a partition was dropped with them."""
    DIFFER = "DIFFER"
    """Nobody can say what changed in a table; CONTENT says why."""
    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"


ROW_ACTIONS = frozenset({Action.INSERT, Action.UPDATE, Action.DELETE})
"""Changes of one row. All others cut the stream: what precedes them is applied first."""

EMPTYING = frozenset({Action.TRUNCATE, Action.DELETE_WHERE})
"""Changes that remove rows of a table without naming them."""

DEFINITIONS = frozenset({Action.CREATE, Action.ALTER, Action.DROP})
"""Changes of a table's definition."""


@dataclass(frozen=True)
class RowChange:
    """One change of one row, taken apart."""

    repl_key: int
    table: TableName
    action: Action
    key: tuple[str, ...]
    """The key's columns; empty for a keyless table."""
    new: Mapping[str, str | None]
    """The row after it, empty for a DELETE."""
    old: Mapping[str, str | None]
    """What is known of the row before it, at least its key. Empty for an INSERT."""
    content: str | None
    """`new` as REJECTS keeps it, None for none."""
    oldcontent: str | None
    """Of `old` what its item says."""
    mask: Mask = NO_PATTERNS
    partial: bool = False
    """`new` of an UPDATE lacks columns, which stay as they are; or `old` of a DELETE."""

    def key_of(self, row: Mapping[str, str | None]) -> dict[str, str | None]:
        """The row's key, or all of a keyless row."""
        return {name: row[name] for name in self.key} if self.key else dict(row)

    @property
    def says_former(self) -> bool:
        """Whether `old` is all of the row before it, or there was none."""
        return not self.old or (not self.partial and self.new.keys() <= self.old.keys())

    @property
    def shown(self) -> dict[str, str | None]:
        """What names the row in a message: the key under which the slave holds it, without masked values."""
        return self.mask.row(self.table, self.key_of(self.old or self.new))
