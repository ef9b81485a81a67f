"""Converts an item, or a row of REJECTS, to a change of a row."""

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.model import content, guid
from sluice.model.change import Action, RowChange
from sluice.model.names import TableName


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
