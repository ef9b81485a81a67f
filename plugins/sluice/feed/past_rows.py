"""Rows as of a position, computed from rows that were read later and the changes in between. No I/O.

Each change is undone: its new row does not exist yet, its old row still does. Versions of rows are counted, without
keys, so that rows that exchanged their keys, and tables without a key, need no special case.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.database.changes import WaitingChange
from sluice.database.row_images import RowImageCodec
from sluice.errors import Transient
from sluice.model.change import ROW_ACTIONS, Action
from sluice.model.names import TableName

Version = tuple[str | None, ...]
"""The texts of a row, in the order of the table's columns."""


def rows_not_reconstructible(table: TableName, action: str) -> Transient:
    """A change that does not say which rows it removed lies between the position and the read."""
    return Transient(
        f"{table} had a {action} after the position at which it is read, and its rows of before are gone. Read it "
        "again, at a position of now; a feed that has not begun to be read can be dropped and begun anew.",
        code="rows-not-reconstructible",
    )


@dataclass(frozen=True)
class TakenBack:
    """The corrections of the rows that were read."""

    gone: Counter[Version]
    """Versions that came later, with how often each is to be left out."""
    back: tuple[Version, ...]
    """Versions that were there."""


def taken_back(
    changes: Iterable[WaitingChange], names: Sequence[str], images: RowImageCodec, table: TableName
) -> TakenBack:
    """The corrections that undo `changes`, all of `table` since the position, in their order. Raises
    `rows-not-reconstructible`."""
    later: Counter[Version] = Counter()
    back: list[Version] = []
    for action, content, oldcontent in changes:
        if action not in ROW_ACTIONS or any(text and images.is_partial(text) for text in (content, oldcontent)):
            raise rows_not_reconstructible(table, action)
        new = images.row(content) if content is not None and action != Action.DELETE else {}
        if action != Action.INSERT:
            old = {**new, **images.row(oldcontent or "")}
            version = _version(old, names, table)
            if later[version]:
                later[version] -= 1
            else:
                back.append(version)
        if action != Action.DELETE:
            later[_version(new, names, table)] += 1
    return TakenBack(+later, tuple(back))


def _version(row: dict[str, str | None], names: Sequence[str], table: TableName) -> Version:
    try:
        return tuple(row[name] for name in names)
    except KeyError:
        raise rows_not_reconstructible(table, Action.ALTER) from None
