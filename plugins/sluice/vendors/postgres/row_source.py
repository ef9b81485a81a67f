"""Tables, keys and snapshots of a PostgreSQL database (`sluice.database.rows.RowSource`)."""

from sluice.database.rows import RowFormat
from sluice.vendors.postgres.blocks import locate
from sluice.vendors.postgres.catalog import shape, shapes, tables
from sluice.vendors.postgres.copying import RowStream
from sluice.vendors.postgres.estimates import read as estimates
from sluice.vendors.postgres.ranges import key_order
from sluice.vendors.postgres.repair import copies
from sluice.vendors.postgres.repair import rows as rows_under
from sluice.vendors.postgres.snapshot import begin as begin_snapshot
from sluice.vendors.postgres.snapshot import export as export_snapshot
from sluice.vendors.postgres.snapshot import position_of as position_of_snapshot
from sluice.vendors.postgres.snapshot import reading, reading_exported, whole

__all__ = [
    "begin_snapshot",
    "copies",
    "estimates",
    "export_snapshot",
    "formats",
    "key_order",
    "locate",
    "position_of_snapshot",
    "reading",
    "reading_exported",
    "rows_under",
    "shape",
    "shapes",
    "stream",
    "tables",
    "whole",
]

formats = frozenset(RowFormat)
stream = RowStream
