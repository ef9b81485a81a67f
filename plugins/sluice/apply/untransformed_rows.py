"""The rows of a window that cannot be transformed: with `on_conflict: reject` their changes go to REJECTS.

All other changes of the window are applied. The reject names the row, but has none of its values, because nobody knows
which of them the slave may have. `resync` with `repair` brings the row once the exit, the expression or the row is
mended.
"""

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply.key_events import changed_key_texts
from sluice.database.row_images import RowImageCodec
from sluice.model.change import RowChange
from sluice.model.guid import key_text
from sluice.model.names import TableName
from sluice.model.reject import Rejected
from sluice.transform.table_transform import MOST_NAMED, RowNotTransformed, TableTransform


class UntransformedRows:
    """The rows of one window that failed so far."""

    def __init__(self, *, rejecting: bool):
        self._rejecting = rejecting
        self._reasons: dict[TableName, dict[str, str]] = {}
        """Table → the master's key → the reason."""

    @property
    def any(self) -> bool:
        return bool(self._reasons)

    def clear(self) -> None:
        """Forgets the rows of the last window."""
        self._reasons.clear()

    def note(self, failure: RowNotTransformed) -> None:
        """Adds the rows of `failure`. Raises it where the slave must stop.

        That is where so many rows fail that the rows are hardly the cause, and where no key names them.
        """
        known = self._reasons.get(failure.table, {})
        more = {key_text(key, list(key)): failure.finding for key in failure.keys if key}
        if not self._rejecting or not more.keys() - known.keys() or len(known | more) >= MOST_NAMED:
            raise failure
        self._reasons[failure.table] = more | known

    def without(
        self, items: pa.Table, transform: TableTransform, images: RowImageCodec
    ) -> tuple[pa.Table, list[Rejected]]:
        """The changes of one table without those of the failed rows, and the rejects of the latter."""
        reasons = self._reasons.get(transform.master.table)
        if not reasons or not items.num_rows:
            return items, []
        key = tuple(column.name for column in transform.master.key)
        names = transform.key()
        kept, rejects = [], []
        moving = pc.is_null(items.column("guid")).to_pylist()
        for place, guid in enumerate(items.column("guid").to_pylist()):
            item = items.slice(place, 1)
            touched = changed_key_texts(item, key, images) if moving[place] else {guid}
            reason = next((reasons[text] for text in sorted(touched) if text in reasons), None)
            kept.append(reason is None)
            if reason is not None:
                (change,) = images.changes(item, {transform.master.table: key})
                old, new = (
                    {name: image[column] for column, name in zip(key, names, strict=True)} if image else {}
                    for image in (change.old, change.new)
                )
                change = RowChange(change.repl_key, transform.shape.table, change.action, names, new, old, None, None)
                rejects.append(Rejected(change, reason + HOW_TO_MEND, None))
        return items.filter(pa.array(kept)), rejects


HOW_TO_MEND = ". Mend that, then start the DAG resync with the action repair."
