"""Changes: the actions that ITEMS records, and what is left of them for each key of a window."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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
class NetChanges:
    """What a window's changes of one table amount to, each row once.

    The four tables are `pyarrow.Table`s of large_string columns (`copies` is int64). Columns are
    named by place, so that no name of a user's can collide: `c1`… the values of `columns`, `k1`…
    the key under which the slave holds the row now, `b1`… the values of `columns` before the
    window, of those beside the key and only where `compared`.

    | table | columns | rows |
    |---|---|---|
    | deletes | k…, [b…] | rows that go; of a keyless table `c…, copies` |
    | updates | c…, [b…] | rows that stay under their key; a `b` that is not there is the same as its `c` |
    | moves | k…, c…, [b…] | rows that live on under another key; the same |
    | inserts | c… | rows that come; of a keyless table one row a copy |
    """

    table: TableName
    columns: tuple[str, ...]
    key: tuple[str, ...]
    deletes: Any
    updates: Any
    moves: Any
    inserts: Any
    changes: int
    """Items that were read for it, dropped ones included."""
    compared: bool = False
    """The old images are known, so that the slave's rows can be compared with them."""

    @property
    def keyless(self) -> bool:
        return not self.key

    @property
    def rows(self) -> int:
        """Rows of the slave that it touches."""
        return int(self.deletes.num_rows + self.updates.num_rows + self.moves.num_rows + self.inserts.num_rows)


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
