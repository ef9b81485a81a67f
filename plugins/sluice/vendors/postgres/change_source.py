"""A PostgreSQL master as a source of changes, from ITEMS (`sluice.database.changes.ChangeSource`)."""

from sluice.vendors.postgres.captured import read as captured
from sluice.vendors.postgres.foreign_keys import read as foreign_keys
from sluice.vendors.postgres.joining import pending as joining
from sluice.vendors.postgres.joining import rows as row_counts
from sluice.vendors.postgres.position import beginning, secure, take, window_end
from sluice.vendors.postgres.purge import backlog, note, note_held, noted, purge, purged, waiting
from sluice.vendors.postgres.queue import Reader
from sluice.vendors.postgres.structure import check as check_definitions
from sluice.vendors.postgres.structure import compare as compare_definitions
from sluice.vendors.postgres.structure import definitions
from sluice.vendors.postgres.structure import digest as definitions_digest
from sluice.vendors.postgres.structure import told as reports_definitions
from sluice.vendors.postgres.tables_registry import registered
from sluice.vendors.postgres.waiting import converted
from sluice.vendors.postgres.waiting import read as changes_of

__all__ = [
    "Reader",
    "backlog",
    "beginning",
    "captured",
    "changes_of",
    "check_definitions",
    "compare_definitions",
    "converted",
    "definitions",
    "definitions_digest",
    "foreign_keys",
    "joining",
    "note",
    "note_held",
    "noted",
    "purge",
    "purged",
    "registered",
    "reports_definitions",
    "row_counts",
    "secure",
    "take",
    "waiting",
    "window_end",
]
