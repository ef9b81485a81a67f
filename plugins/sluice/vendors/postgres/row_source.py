"""Tables, keys and snapshots of a PostgreSQL database (`sluice.database.rows.RowSource`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.database.rows import RowFormat
from sluice.vendors.postgres.catalog import shape, shapes, tables
from sluice.vendors.postgres.estimates import read as estimates
from sluice.vendors.postgres.fetch_rows import copies
from sluice.vendors.postgres.fetch_rows import rows as rows_under
from sluice.vendors.postgres.key_order import key_order
from sluice.vendors.postgres.row_copy import RowStream
from sluice.vendors.postgres.source.snapshot import begin as begin_snapshot
from sluice.vendors.postgres.source.snapshot import export as export_snapshot
from sluice.vendors.postgres.source.snapshot import reading_exported, whole
from sluice.vendors.postgres.special_values import example as special

formats = frozenset(RowFormat)
shared_snapshots = True
stream = RowStream
