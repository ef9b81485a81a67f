"""What a window becomes: steps that are done one after another in one transaction of the slave."""

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
    """Net changes of one run, ready to be merged; `items` are what they were reduced from."""

    changes: list[NetChanges | Staged]
    """`NetChanges` or staged ones, several of a table allowed."""
    items: Callable[[TableName], pa.Table]
    """All changes of a table in this run, to replay them one by one."""
    keys: Mapping[TableName, tuple[str, ...]]
    """The key under which each table's changes were captured."""
    ordered: frozenset[TableName] = frozenset()
    """Tables that must be replayed from the start."""
    rejected: Sequence[Rejected] = ()
    """Changes of rows that cannot be transformed; they are in none of the others."""


@dataclass(frozen=True)
class Truncation:
    """A TRUNCATE or DELETE WHERE of the master, and what the blocks under way make of it."""

    cut: CutItem
    decision: Decision = Decision.APPLY
    """WAIT: some blocks were read before it, others after; only rows of the former go."""


@dataclass(frozen=True)
class LeftOut:
    """What follows of a table is left out until it is loaded: it joined with rows that the slave lacks, or `reason`."""

    table: TableName
    reason: str = ""
    """Why the table is inconsistent."""


@dataclass(frozen=True)
class CaughtUp:
    """Blocks of a table that were loaded beside others are as of the end of the window."""

    table: TableName
    blocks: Sequence[Block]
    ready: bool
    """Whether the whole table is."""


@dataclass(frozen=True)
class Checks:
    """How strictly changes must fit the slave's rows."""

    safe: bool
    """Safe mode: a change makes its row what the master has, whatever was there."""
    compare: bool
    """Whether a row's former values must be those of the master."""
    final: bool
    """Whether a conflict is one for sure; else the master's definitions are compared first."""
    images: bool
    """Whether changes are read with their old images."""
    updates: Callable[[TableName], bool]
    """Whether the master's updates of a table travel: where they do not, rows differ in their values."""

    def compares(self, table: TableName) -> bool:
        return self.compare and self.updates(table)


Step = Rows | Truncation | CutItem | LeftOut | CaughtUp


def grouped(steps: Iterable[Step]) -> Iterator[Rows | CutItem | LeftOut | CaughtUp | list[Truncation]]:
    """The steps, with truncations that follow one another as one."""
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
