"""The changes of one table in a run, transformed for the slave: as net changes to merge, or as items to replay."""

from collections.abc import Collection
from functools import cached_property

import numpy as np
import pyarrow as pa

from sluice.apply import net_changes
from sluice.apply.key_events import Flags, KeyEvents
from sluice.database.net_changes import NetChanges
from sluice.database.row_images import RowImageCodec
from sluice.model.guid import key_text, key_values
from sluice.transform import changes
from sluice.transform import net_changes as transformed
from sluice.transform.table_transform import TableTransform


def key_of_master(key: tuple[str, ...], transform: TableTransform | None) -> tuple[str, ...]:
    """The key columns by their names on the master; `key`: the slave's."""
    return key if transform is None else tuple(column.name for column in transform.master.key)


def keys_of_master(texts: Collection[str], transform: TableTransform | None) -> Collection[str]:
    """The keys of the master's rows, by those of the slave's rows that are made of them; as texts (GUID)."""
    if transform is None or not transform.extra_key:
        return texts
    key = transform.key()
    rows = (dict(zip(key, key_values(text, len(key)), strict=True)) for text in texts)
    return {key_text(row, transform.master_key()) for row in rows}


def one_by_one(items: pa.Table, transform: TableTransform | None, images: RowImageCodec) -> pa.Table:
    """The items of a table, transformed for the slave. Raises `RowNotTransformed`, `TransformationInvalid`."""
    return items if transform is None else changes.of_slave(items, transform, images)


class SlaveChanges:
    """The events of the master's changes that `keep` selects; None: all."""

    def __init__(self, events: KeyEvents, transform: TableTransform | None, keep: Flags | None = None):
        self._of_master = events
        self._keep = keep
        self._transform = transform

    def items(self) -> pa.Table:
        """The items to replay. Raises `RowNotTransformed`, `TransformationInvalid`."""
        keep = self._keep_events
        return self.events.items if keep is None else net_changes.kept_items(self.events, keep)

    @cached_property
    def events(self) -> KeyEvents:
        """All changes as events of the slave's keys, also those that are not kept. Raises as `items`."""
        if self._transform is None:
            return self._of_master
        items = one_by_one(self._of_master.items, self._transform, self._of_master.images)
        return net_changes.events(items, self._transform.key(), self._of_master.images)

    @property
    def _keep_events(self) -> Flags | None:
        if self._transform is None or self._keep is None:
            return self._keep
        return _kept(self.events, self._of_master, self._keep)

    def net(self, *, compare: bool, safe: bool) -> NetChanges:
        """The net changes. `compare`: with old images. Raises `MixedShapes`, and as `items`."""
        transform = self._transform
        if transform is None:
            return net_changes.reduce(self._of_master, self._keep, before=compare, safe=safe)
        by_row = (
            not self._of_master.key
            or transform.extra_key
            or (transform.filters and not net_changes.former_known(self._of_master.items))
        )
        if by_row:
            # Different rows of a keyless table may be transformed into equal ones; of several rows that are made of
            # one, each has a net change of its own; and without old images the filter cannot tell whether the slave has
            # the row. So transform first, then reduce.
            return net_changes.reduce(self.events, self._keep_events, before=compare, safe=safe)
        before = compare or (transform.filters and not safe)
        net = net_changes.reduce(self._of_master, self._keep, before=before, safe=safe, whole=True)
        return transformed.of_slave(net, transform, safe=safe, compare=compare and net.compared)


def _kept(of_slave: KeyEvents, of_master: KeyEvents, keep: Flags) -> Flags:
    """Which of the slave's events are kept: those whose event on the master is."""
    kept = np.zeros(len(of_slave), dtype=bool)
    master_keys, slave_keys = np.asarray(of_master.repl_keys), np.asarray(of_slave.repl_keys)
    # A key change is two events; the slave may have only one of them, because its row appears or disappears.
    for part, origin in ((of_slave.after, of_master.after), (~of_slave.after, of_master.before)):
        kept[part] = keep[origin][np.searchsorted(master_keys[origin], slave_keys[part])]
    return kept
