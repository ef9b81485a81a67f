"""The steps of a window, done in order in one transaction of the slave."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sluice.apply.window_runs import CutItem
from sluice.database.apply import Staged
from sluice.database.net_changes import NetChanges
from sluice.model.blocks import Block, Decision
from sluice.model.names import TableName
from sluice.model.reject import Rejected


@dataclass(frozen=True)
class Rows:
    """The net changes of one run, ready to be merged."""

    changes: list[NetChanges | Staged]
    """A table may have several."""
    items: Callable[[TableName], pa.Table]
    """All changes of a table in the run, to be replayed instead."""
    keys: Mapping[TableName, tuple[str, ...]]
    """The key under which each table's changes were captured."""
    ordered: frozenset[TableName] = frozenset()
    """Tables that must be replayed at the first attempt."""
    rejected: Sequence[Rejected] = ()
    """Changes of rows that cannot be transformed; neither `changes` nor `items` hold them."""


@dataclass(frozen=True)
class Truncation:
    """A TRUNCATE or DELETE WHERE of the master, with the decision of the blocks that are loading."""

    cut: CutItem
    decision: Decision = Decision.APPLY
    """WAIT: some blocks were read before it, others after; only rows of the earlier ones are deleted."""


@dataclass(frozen=True)
class LeftOut:
    """From here on a table's changes are left out until it is loaded."""

    table: TableName
    reason: str = ""
    """Why the table is inconsistent; empty if it joined with rows that the slave lacks."""


@dataclass(frozen=True)
class DefinitionOnly:
    """A change of the definition of a table whose rows are left out. The slave may refuse it."""

    change: CutItem


@dataclass(frozen=True)
class CaughtUp:
    """Blocks of a table that is loaded while others replicate have caught up with the end of the window."""

    table: TableName
    blocks: Sequence[Block]
    ready: bool
    """Whether all blocks of the table have."""


@dataclass(frozen=True)
class Checks:
    """How strictly changes must fit the slave's rows."""

    safe: bool
    """Safe mode: a change gives the row the master's values, even if the slave had others."""
    compare: bool
    """Whether the slave's row must have the old image's values."""
    final: bool
    """Whether a conflict counts; otherwise the master's definitions are compared first."""
    images: bool
    """Whether changes are read with their old images."""
    updates: Callable[[TableName], bool]
    """Whether updates of a table are captured. If not, values differ."""

    def compares(self, table: TableName) -> bool:
        return self.compare and self.updates(table)


Single = Rows | CutItem | LeftOut | DefinitionOnly | CaughtUp
Step = Single | Truncation


def grouped(steps: Iterable[Step]) -> Iterator[Single | list[Truncation]]:
    """The steps, with consecutive truncations as one list."""
    waiting: list[Truncation] = []
    for step in steps:
        if isinstance(step, Truncation):
            waiting.append(step)
            continue
        if waiting:
            yield waiting
            waiting = []
        yield step
    if waiting:
        yield waiting
