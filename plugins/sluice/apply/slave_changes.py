"""The changes of one table in a run, as the slave gets them: net changes to merge, or one by one to replay."""

from functools import cached_property

import numpy as np
import pyarrow as pa

from sluice.apply import net_changes
from sluice.apply.key_events import Flags, KeyEvents
from sluice.database.net_changes import NetChanges
from sluice.database.row_images import RowImageCodec
from sluice.transform import changes
from sluice.transform import net_changes as transformed
from sluice.transform.table_transform import TableTransform


def key_of_master(key: tuple[str, ...], transform: TableTransform | None) -> tuple[str, ...]:
    """The columns by whose names changes are captured; `key`: the slave's."""
    return key if transform is None else tuple(column.name for column in transform.master.key)


def one_by_one(items: pa.Table, transform: TableTransform | None, images: RowImageCodec) -> pa.Table:
    """Each change of a table, as the slave gets it. Raises `RowNotTransformed`, `TransformationInvalid`."""
    return items if transform is None else changes.of_slave(items, transform, images)


class SlaveChanges:
    """Of the master's changes `found`, those with `keep`; None: all."""

    def __init__(self, found: KeyEvents, transform: TableTransform | None, keep: Flags | None = None):
        self._found = found
        self._keep = keep
        self._transform = transform

    def items(self) -> pa.Table:
        """Each change, to be replayed. Raises `RowNotTransformed`, `TransformationInvalid`."""
        keep = self._keep_events
        return self.events.items if keep is None else net_changes.kept_items(self.events, keep)

    @cached_property
    def events(self) -> KeyEvents:
        """Each change as events of the slave's keys, also of those that are not kept. Raises as `items`."""
        if self._transform is None:
            return self._found
        items = one_by_one(self._found.items, self._transform, self._found.images)
        return net_changes.events(items, self._transform.key(), self._found.images)

    @property
    def _keep_events(self) -> Flags | None:
        if self._transform is None or self._keep is None:
            return self._keep
        return _kept(self.events, self._found, self._keep)

    def net(self, *, compare: bool, safe: bool) -> NetChanges:
        """What remains of them. `compare`: with old images. Raises `MixedShapes`, and as `items`."""
        transform = self._transform
        if transform is None:
            return net_changes.reduce(self._found, self._keep, before=compare, safe=safe)
        by_row = not self._found.key or (transform.filters and not net_changes.former_known(self._found.items))
        if by_row:
            # Rows without a key may become alike. Of rows without old images the slave keeps what it has.
            return net_changes.reduce(self.events, self._keep_events, before=compare, safe=safe)
        before = compare or (transform.filters and not safe)
        net = net_changes.reduce(self._found, self._keep, before=before, safe=safe, whole=True)
        return transformed.of_slave(net, transform, safe=safe, compare=compare and net.compared)


def _kept(events: KeyEvents, found: KeyEvents, keep: Flags) -> Flags:
    """Which of the slave's `events` are kept, by those of the master that they come from."""
    kept = np.zeros(len(events), dtype=bool)
    theirs, mine = np.asarray(found.repl_keys), np.asarray(events.repl_keys)
    # A change of a key is two events, of which the slave may have one: its row goes, or it comes.
    for place, origin in ((events.after, found.after), (~events.after, found.before)):
        kept[place] = keep[origin][np.searchsorted(theirs[origin], mine[place])]
    return kept
