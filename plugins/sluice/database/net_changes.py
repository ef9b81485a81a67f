"""The net changes of a window: one at most for each key."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.model.names import TableName

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("deletes", "updates", "moves", "inserts")
"""The tables of `NetChanges`."""


@dataclass(frozen=True)
class NetChanges:
    """The net changes of one table in a window.

    Its tables (`KINDS`) have large_string columns (`copies` is int64). Columns are named by number, so that no user's
    name can collide: `c1`… the values of `columns`, `k1`… the key under which the slave has the row, `b1`… the values
    of `columns` before the window, without the key, and only where `compared`.

    | table | columns | rows |
    |---|---|---|
    | deletes | k…, [b…] | rows to delete; of a keyless table `c…, copies` |
    | updates | c…, [b…] | rows that keep their key; a missing `b` is equal to its `c` |
    | moves | k…, c…, [b…] | rows that get another key; a missing `b` is equal to its `c` |
    | inserts | c… | rows to insert; of a keyless table one row a copy |
    """

    table: TableName
    columns: tuple[str, ...]
    key: tuple[str, ...]
    deletes: "pa.Table"
    updates: "pa.Table"
    moves: "pa.Table"
    inserts: "pa.Table"
    changes: int
    """How many items they were computed from, dropped ones included."""
    compared: bool = False
    """Whether the old images are known, so that the slave's rows can be compared with them."""

    @property
    def by_kind(self) -> "dict[str, pa.Table]":
        """Its tables by their names, of `KINDS`."""
        return {kind: getattr(self, kind) for kind in KINDS}

    @property
    def keyless(self) -> bool:
        return not self.key

    @property
    def rows(self) -> int:
        """How many rows of the slave they touch."""
        return int(self.deletes.num_rows + self.updates.num_rows + self.moves.num_rows + self.inserts.num_rows)
