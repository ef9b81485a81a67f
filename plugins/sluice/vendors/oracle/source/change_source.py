"""An Oracle master as a source of changes, from ITEMS (`sluice.database.changes.ChangeQueue`)."""

# ruff: noqa: F401 (what is imported here is offered)

from collections.abc import Iterable, Sequence

from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.oracle import catalog, key_order
from sluice.vendors.oracle.source.definitions import check as check_definitions
from sluice.vendors.oracle.source.definitions import compare as compare_definitions
from sluice.vendors.oracle.source.definitions import digest as definitions_digest
from sluice.vendors.oracle.source.definitions import joining, values_follow
from sluice.vendors.oracle.source.definitions import of_changes as definitions
from sluice.vendors.oracle.source.definitions import reports as reports_definitions
from sluice.vendors.oracle.source.pending_changes import first_transaction
from sluice.vendors.oracle.source.pending_changes import read as changes_of
from sluice.vendors.oracle.source.positions import (
    beginning,
    expect_continued,
    nothing_committed,
    secure,
    take,
    window_end,
)
from sluice.vendors.oracle.source.purge import (
    backlog,
    drop_feed,
    feeds,
    note,
    note_feed,
    note_holders,
    noted,
    purge,
    purged,
    room,
    waiting,
)
from sluice.vendors.oracle.source.queue import Reader
from sluice.vendors.oracle.source.tables_registry import captured, registered, row_counts


def foreign_keys(connection: Session, tables: Iterable[TableName]) -> list[ForeignKey]:
    """The foreign keys by which `tables` refer to others, or to themselves."""
    wanted = list(tables)
    return [own.key for own in catalog.foreign_keys(connection, wanted) if own.key.child in wanted]


def locate(connection: Session, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """See `ChangeSource`: the order of keys is known without the server."""
    return key_order.locate(shape, bounds, keys)
