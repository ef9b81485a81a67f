"""PostgreSQL as services see it: which module is which part. mypy holds each to its protocol."""

from sluice.database.accounts import Accounts, MasterContents
from sluice.database.apply import ApplyTarget
from sluice.database.broadcasts import Broadcasts, Queries
from sluice.database.capture import Capture
from sluice.database.changes import ChangeQueue
from sluice.database.column_types import ColumnTypes
from sluice.database.control import LoadLocks, OwnTables
from sluice.database.digests import Digester
from sluice.database.failover import FailoverSupport
from sluice.database.following import Following
from sluice.database.load import LoadTarget
from sluice.database.preflight import Preflight
from sluice.database.row_images import RowImageCodec
from sluice.database.rows import RowSource
from sluice.database.schema import Schemas
from sluice.database.selection import RowSelection
from sluice.database.server_load import ServerLoadMeter
from sluice.database.session import Session, Sessions
from sluice.database.vendor import Vendor
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.position import Position


class Postgres:
    """See `Vendor`."""

    def position(self, text: str) -> Position:
        from sluice.vendors.postgres.snapshot_position import SnapshotPosition

        return SnapshotPosition.parse(text)

    @property
    def sessions(self) -> Sessions:
        from sluice.vendors.postgres import sessions

        return sessions

    @property
    def images(self) -> RowImageCodec:
        from sluice.database import xml_images

        return xml_images

    @property
    def types(self) -> ColumnTypes:
        from sluice.vendors.postgres import column_types

        return column_types

    def own_tables(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> OwnTables:
        from sluice.vendors.postgres.target.control_tables import PostgresTables

        return PostgresTables(connection, prefix, schema, slave)

    @property
    def load_locks(self) -> LoadLocks:
        from sluice.vendors.postgres.target import load_ownership

        return load_ownership

    @property
    def applying(self) -> ApplyTarget:
        from sluice.vendors.postgres.target import apply_target

        return apply_target

    @property
    def following(self) -> Following:
        from sluice.vendors.postgres.target import following

        return following

    @property
    def queries(self) -> Queries:
        from sluice.vendors.postgres import queries

        return queries

    @property
    def broadcasts(self) -> Broadcasts:
        from sluice.vendors.postgres.source import broadcasts

        return broadcasts

    @property
    def digests(self) -> Digester:
        from sluice.vendors.postgres import digester

        return digester

    @property
    def changes(self) -> ChangeQueue:
        from sluice.vendors.postgres.source import change_source

        return change_source

    @property
    def rows(self) -> RowSource:
        from sluice.vendors.postgres import row_source

        return row_source

    @property
    def schemas(self) -> Schemas:
        from sluice.vendors.postgres import schemas

        return schemas

    @property
    def selection(self) -> RowSelection:
        from sluice.vendors.postgres import row_selection

        return row_selection

    @property
    def load_target(self) -> LoadTarget:
        from sluice.vendors.postgres.target import load_target

        return load_target

    @property
    def preflight(self) -> Preflight:
        from sluice.vendors.postgres import preflight

        return preflight

    @property
    def capture(self) -> Capture:
        from sluice.vendors.postgres.source import capture

        return capture

    @property
    def failover(self) -> FailoverSupport:
        from sluice.vendors.postgres import failover_support

        return failover_support

    def located(self, url: str | None) -> ConnectionInfo:
        from sluice.vendors.postgres import accounts

        return accounts.located(url)

    @property
    def accounts(self) -> Accounts:
        from sluice.vendors.postgres import accounts

        return accounts

    @property
    def contents(self) -> MasterContents:
        from sluice.vendors.postgres import accounts

        return accounts

    @property
    def server_load(self) -> ServerLoadMeter:
        from sluice.vendors.postgres.source import server_load

        return server_load


POSTGRES: Vendor = Postgres()
