"""What is left of a window's changes for each key."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.model.names import TableName

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("deletes", "updates", "moves", "inserts")
"""The tables of `NetChanges`."""


@dataclass(frozen=True)
class NetChanges:
    """What a window's changes of one table amount to, each row once.

    Its tables (`KINDS`) have large_string columns (`copies` is int64). Columns are named by place, so that no name of a
    user's can collide: `c1`… the values of `columns`, `k1`… the key under which the slave holds the row now, `b1`… the
    values of `columns` before the window, of those beside the key and only where `compared`.

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
    deletes: "pa.Table"
    updates: "pa.Table"
    moves: "pa.Table"
    inserts: "pa.Table"
    changes: int
    """Items that were read for it, dropped ones included."""
    compared: bool = False
    """The old images are known, so that the slave's rows can be compared with them."""

    @property
    def by_kind(self) -> "dict[str, pa.Table]":
        """Its tables by their names, of `KINDS`."""
        return {kind: getattr(self, kind) for kind in KINDS}

    @property
    def keyless(self) -> bool:
        return not self.key

    @property
    def rows(self) -> int:
        """Rows of the slave that it touches."""
        return int(self.deletes.num_rows + self.updates.num_rows + self.moves.num_rows + self.inserts.num_rows)
