"""A PostgreSQL master as a source of changes, from ITEMS (`sluice.database.changes.ChangeSource`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.vendors.postgres.foreign_keys import read as foreign_keys
from sluice.vendors.postgres.key_order import locate
from sluice.vendors.postgres.source.captured_tables import read as captured
from sluice.vendors.postgres.source.joining_tables import pending as joining
from sluice.vendors.postgres.source.joining_tables import rows as row_counts
from sluice.vendors.postgres.source.pending_changes import first_transaction
from sluice.vendors.postgres.source.pending_changes import read as changes_of
from sluice.vendors.postgres.source.position import (
    beginning,
    expect_continued,
    nothing_committed,
    secure,
    take,
    window_end,
)
from sluice.vendors.postgres.source.purge import (
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
from sluice.vendors.postgres.source.queue import Reader
from sluice.vendors.postgres.source.schema_diff import check as check_definitions
from sluice.vendors.postgres.source.schema_diff import compare as compare_definitions
from sluice.vendors.postgres.source.schema_diff import definitions, values_follow
from sluice.vendors.postgres.source.schema_diff import digest as definitions_digest
from sluice.vendors.postgres.source.schema_diff import reports as reports_definitions
from sluice.vendors.postgres.source.tables_registry import registered
