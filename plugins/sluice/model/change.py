"""Changes: the actions in ITEMS, and the effect of one on a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sluice.model import content, guid
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName


class Action(StrEnum):
    """DB_ACTION of an item."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    DELETE_WHERE = "DELETE WHERE"
    """Delete the rows that match a condition: their partition was removed."""
    DIFFER = "DIFFER"
    """A table differs, and it is unknown in what; CONTENT has the reason."""
    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"


ROW_ACTIONS = frozenset({Action.INSERT, Action.UPDATE, Action.DELETE})
"""Changes of one row. All others are cuts: everything before them is applied first."""

UNSEEN = "unseen: "
"""The beginning of a DIFFER's reason if the table's rows may change without a trigger that sees it."""
EMPTYING = frozenset({Action.TRUNCATE, Action.DELETE_WHERE})
"""Changes that delete rows of a table without naming them."""

DEFINITIONS = frozenset({Action.CREATE, Action.ALTER, Action.DROP})
"""Changes of the definition of a table."""


@dataclass(frozen=True)
class RowChange:
    """One change of one row, parsed."""

    repl_key: int
    table: TableName
    action: Action
    key: tuple[str, ...]
    """The key's columns; empty for a keyless table."""
    new: Mapping[str, str | None]
    """The row after the change; empty for a DELETE."""
    old: Mapping[str, str | None]
    """The known values of the row before the change, at least its key; empty for an INSERT."""
    content: str | None
    """`new` as REJECTS stores it; None without a row."""
    oldcontent: str | None
    """The part of `old` that the item has."""
    mask: Mask = NO_PATTERNS
    partial: bool = False
    """`new` of an UPDATE lacks unchanged columns, or `old` of a DELETE lacks columns."""

    def key_of(self, row: Mapping[str, str | None]) -> dict[str, str | None]:
        """The row's key, or all of a keyless row."""
        return {name: row[name] for name in self.key} if self.key else dict(row)

    @property
    def says_former(self) -> bool:
        """Whether `old` is the whole row before the change, or there was none."""
        return not self.old or (not self.partial and self.new.keys() <= self.old.keys())

    @property
    def shown(self) -> dict[str, str | None]:
        """The row in a message: its key on the slave, without masked values."""
        return self.mask.row(self.table, self.key_of(self.old or self.new))


# Converts an item, or a row of REJECTS, to a change of a row.


def of(item: Mapping[str, Any], key: Sequence[str]) -> RowChange:
    """From a row of `sluice.database.items`. Raises `malformed-content`, `KeyError` for a missing key column."""
    action = Action(item["action"])
    new, old = item["content"], item["oldcontent"]
    row = dict(content.parse(new)) if new is not None and action is not Action.DELETE else {}
    before: dict[str, str | None] = {}
    if action is Action.UPDATE:
        # OLDCONTENT has the changed columns and the key; it is not read if only the key is needed.
        whole = old is not None and not content.is_partial(old)
        before = dict(row) if whole else {name: row[name] for name in key}
        if old is not None:
            before |= dict(content.parse(old))
    elif action is Action.DELETE:
        if old is not None:
            before = dict(content.parse(old))
        else:
            before = dict(zip(key, guid.key_values(item["guid"], len(key)), strict=True))
    table = TableName(item["schema"], item["table"])
    named = old if action is Action.DELETE else new
    partial = named is not None and content.is_partial(named)
    return RowChange(item["repl_key"], table, action, tuple(key), row, before, new, old, partial=partial)
