"""Changes: the actions that ITEMS records, and what is left of them for each key of a window."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sluice.domain.names import TableName


class Action(StrEnum):
    """DB_ACTION of an item."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"


ROW_ACTIONS = frozenset({Action.INSERT, Action.UPDATE, Action.DELETE})
"""Changes of one row. All others cut the stream: what precedes them is applied first."""


@dataclass(frozen=True)
class NetChanges:
    """What a window's changes of one table amount to, each row once.

    The four tables are `pyarrow.Table`s of large_string columns (`copies` is int64). Columns are
    named by place, so that no name of a user's can collide: `c1`… the values of `columns`, `k1`…
    the key under which the slave holds the row now, `b1`… the values of `columns` before the
    window (only when asked for).

    | table | columns | rows |
    |---|---|---|
    | deletes | k…, [b…] | rows that go; of a keyless table `c…, copies` |
    | updates | c…, [b…] | rows that stay under their key |
    | moves | k…, c…, [b…] | rows that live on under another key |
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

    @property
    def keyless(self) -> bool:
        return not self.key

    @property
    def rows(self) -> int:
        """Rows of the slave that it touches."""
        return int(self.deletes.num_rows + self.updates.num_rows + self.moves.num_rows + self.inserts.num_rows)
