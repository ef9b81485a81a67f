"""PostgreSQL as services see it: which module is which part. mypy checks each against its protocol."""

from sluice.database.apply import ApplyTarget
from sluice.database.changes import ReaderClass
from sluice.database.row_images import RowImageCodec
from sluice.database.vendor import Master
from sluice.vendors.postgres import (
    accounts,
    column_types,
    digester,
    failover_support,
    preflight,
    queries,
    row_selection,
    row_source,
    schemas,
    sessions,
)
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source import server_load
from sluice.vendors.postgres.source.broadcasts import PostgresBroadcasts
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.resources import PostgresCapture
from sluice.vendors.postgres.target import following, load_ownership, load_target
from sluice.vendors.postgres.target.control_tables import PostgresTables


class Postgres(Master):
    """Parts that need pyarrow are imported at their first use."""

    position = staticmethod(SnapshotPosition.parse)
    located = staticmethod(accounts.located)
    own_tables = PostgresTables
    sessions = sessions
    queue = PostgresQueue
    capture = PostgresCapture
    broadcasts = PostgresBroadcasts
    types = column_types
    load_locks = load_ownership
    following = following
    queries = queries
    digests = digester
    rows = row_source
    schemas = schemas
    selection = row_selection
    load_target = load_target
    preflight = preflight
    failover = failover_support
    accounts = accounts
    contents = accounts
    server_load = server_load

    @property
    def images(self) -> RowImageCodec:
        from sluice.database import xml_images

        return xml_images

    @property
    def reader(self) -> ReaderClass:
        from sluice.vendors.postgres.source.reader import PostgresReader

        return PostgresReader

    @property
    def applying(self) -> ApplyTarget:
        from sluice.vendors.postgres.target import apply_target

        return apply_target


POSTGRES = Postgres()
