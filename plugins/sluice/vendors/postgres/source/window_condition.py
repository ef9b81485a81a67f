"""The SQL condition that a row of ITEMS is in a window."""

from dataclasses import dataclass

from sluice import sql_files
from sluice.model.position import Window
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.snapshot_position import SnapshotPosition


@dataclass(frozen=True)
class Condition:
    """Which changes a statement reads from ITEMS: those that `ends` covers and `begins` does not."""

    begins: SnapshotPosition
    ends: SnapshotPosition
    floor: int
    """Their REPL_KEYs are above this one, and at most `ceiling`."""
    ceiling: int
    selection: str = "true"
    """A further SQL condition on ITEMS, without parameters."""

    @classmethod
    def of(cls, window: Window, selection: str = "true") -> "Condition":
        begins, ends = SnapshotPosition.of(window.previous), SnapshotPosition.of(window.target)
        ceiling = ends.high if window.up_to is None else min(window.up_to, ends.high)
        return cls(begins, ends, max(window.above, begins.floor(ends)), ceiling, selection)

    @property
    def sql(self) -> str:
        """`${window}` of the statements that read ITEMS."""
        return sql_files.render(
            "postgres",
            "queue_window",
            floor=str(int(self.floor)),
            ceiling=str(int(self.ceiling)),
            selection=self.selection,
            **{"from": connection.literal(self.begins.snapshot), "to": connection.literal(self.ends.snapshot)},
        )
