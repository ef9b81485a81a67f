"""Rejects: changes that are set aside, and how they are settled."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from sluice.counted import listed
from sluice.model import change, content, guid
from sluice.model.change import RowChange
from sluice.model.conflict_rule import Decision, Winner
from sluice.model.names import TableName

Row = tuple[str | None, ...]


class RejectStatus(StrEnum):
    """The status of a reject."""

    SET_ASIDE = "set aside"
    ASKED = "asked"
    """A person asks to apply it; the running apply does that, or writes the reason why not into `answer`."""
    APPLIED = "applied"
    DROPPED = "dropped"


MOVES: dict[RejectStatus, frozenset[RejectStatus]] = {
    RejectStatus.SET_ASIDE: frozenset({RejectStatus.ASKED, RejectStatus.DROPPED}),
    RejectStatus.ASKED: frozenset({RejectStatus.SET_ASIDE, RejectStatus.APPLIED, RejectStatus.DROPPED}),
    RejectStatus.APPLIED: frozenset(),
    RejectStatus.DROPPED: frozenset(),
}
"""The allowed transitions; `ASKED → SET_ASIDE` is a refusal."""
OPEN = frozenset(status for status, further in MOVES.items() if further)
"""The statuses of rejects that are not settled."""


TABLES_SHOWN = 5


def how_to_settle(tables: Iterable[str]) -> str:
    """The message about `tables` with rejects, with the remedy; empty without tables."""
    names = sorted(set(tables))
    if not names:
        return ""
    return (
        f"Changes of {listed(names, TABLES_SHOWN, 'table')} are set aside in REJECTS, so the slave differs from its "
        "master there. Start the DAG rejects with the action list, which shows them, or start the DAG resync with the "
        "action repair, which fixes their rows."
    )


def before(status_after: RejectStatus) -> list[RejectStatus]:
    """The statuses from which a reject may move to `status_after`."""
    return sorted(status for status, further in MOVES.items() if status_after in further)


@dataclass(frozen=True)
class Reject:
    """A row of REJECTS."""

    id: int
    repl_key: int
    table: TableName
    action: str
    content: str | None
    oldcontent: str | None
    held: str | None
    reason: str
    rejected_at: datetime
    key: tuple[str, ...]
    """The key's columns; empty for a keyless table."""
    keys: tuple[str, ...]
    """Texts of the keys that it changes."""
    newer: int | None
    """REPL_KEY of the last applied change of the same row since then."""
    status: RejectStatus
    force: bool
    asked_by: str | None
    asked_at: datetime | None
    settled_by: str | None
    settled_at: datetime | None
    answer: str | None

    @property
    def outdated(self) -> str | None:
        """Why it must not be applied without force; None: it may be."""
        if self.newer is None or self.force:
            return None
        return (
            f"change {self.newer} of the same row was applied since change {self.repl_key} was set aside. Drop this "
            "one, or ask with force to overwrite the newer state"
        )

    def touched(self, columns: Sequence[str], rows: Iterable[Row]) -> set[Row]:
        """The rows of `rows` that it changes: texts of keys, or, for a keyless table, whole rows of `columns`."""
        if self.key:
            texts = frozenset(self.keys)
            return {row for row in rows if guid.key_text(dict(zip(self.key, row, strict=True)), self.key) in texts}
        images = [image for image in (self.after, self.before) if image]
        return {tuple(image.get(name) for name in columns) for image in images}.intersection(rows)

    @cached_property
    def after(self) -> dict[str, str | None]:
        """The row after the change; empty without one. Raises `malformed-content`."""
        return dict(content.parse(self.content or ""))

    @cached_property
    def before(self) -> dict[str, str | None]:
        """The row before the change, or its known values; empty without one. Raises `malformed-content`."""
        old = dict(content.parse(self.oldcontent or ""))
        return {**self.after, **old} if old else {}

    @cached_property
    def on_slave(self) -> dict[str, str | None]:
        """The row that the slave had; empty without one. Raises `malformed-content`."""
        return dict(content.parse(self.held or ""))

    @property
    def change(self) -> RowChange:
        """The change to apply; only a change of a row can be applied. Raises `malformed-content`."""
        item = {
            "repl_key": self.repl_key,
            "schema": self.table.schema,
            "table": self.table.name,
            "guid": self.keys[0] if len(self.keys) == 1 else None if self.keys else "",
            "action": self.action,
            "content": self.content,
            "oldcontent": self.oldcontent,
        }
        return change.of(item, self.key)

    def __str__(self) -> str:
        text = f"{self.id}  {self.status}  {self.table} {self.action} ({self.repl_key}): {self.reason}"
        return f"{text} Answer: {self.answer}" if self.answer else text


@dataclass
class Rejected:
    """A new row of `<prefix>REJECTS`."""

    change: RowChange
    reason: str
    slave_row: dict[str, str | None] | None
    """The slave's row with that key; None without one."""
    newer: int | None = None
    """REPL_KEY of a later change of the same row that was applied."""
    decision: Decision | None = None
    """The decision of a rule; None: it waits for a person."""

    @property
    def status(self) -> RejectStatus:
        if self.decision is None:
            return RejectStatus.SET_ASIDE
        return RejectStatus.APPLIED if self.decision.winner is Winner.MASTER else RejectStatus.DROPPED
