"""MySQL and MariaDB as services see them: slaves only. mypy holds each part to its protocol."""

from sluice.database import addresses
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
from sluice.vendors.mysql.not_a_master import NotAMaster


class MySQL:
    """See `Vendor`. What only a master is asked for raises `NotAMaster`."""

    def position(self, text: str) -> Position:
        raise NotAMaster

    @property
    def sessions(self) -> Sessions:
        from sluice.vendors.mysql import sessions

        return sessions

    @property
    def images(self) -> RowImageCodec:
        raise NotAMaster

    @property
    def types(self) -> ColumnTypes:
        from sluice.vendors.mysql import types

        return types

    def own_tables(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> OwnTables:
        from sluice.vendors.mysql.target.control_tables import MySQLTables

        return MySQLTables(connection, prefix)

    @property
    def load_locks(self) -> LoadLocks:
        from sluice.vendors.mysql.target import load_ownership

        return load_ownership

    @property
    def applying(self) -> ApplyTarget:
        from sluice.vendors.mysql.target import apply_target

        return apply_target

    @property
    def following(self) -> Following:
        from sluice.vendors.mysql.target.definitions import DEFINITIONS

        return DEFINITIONS

    @property
    def queries(self) -> Queries:
        from sluice.vendors.mysql import queries

        return queries

    @property
    def broadcasts(self) -> Broadcasts:
        raise NotAMaster

    @property
    def digests(self) -> Digester:
        from sluice.vendors.mysql import digester

        return digester.Digester()

    @property
    def changes(self) -> ChangeQueue:
        raise NotAMaster

    @property
    def rows(self) -> RowSource:
        from sluice.vendors.mysql import row_source

        return row_source

    @property
    def schemas(self) -> Schemas:
        from sluice.vendors.mysql import schemas

        return schemas

    @property
    def selection(self) -> RowSelection:
        from sluice.vendors.mysql import row_selection

        return row_selection

    @property
    def load_target(self) -> LoadTarget:
        from sluice.vendors.mysql.target import load_target

        return load_target

    @property
    def preflight(self) -> Preflight:
        from sluice.vendors.mysql import preflight

        return preflight

    @property
    def capture(self) -> Capture:
        raise NotAMaster

    @property
    def failover(self) -> FailoverSupport:
        raise NotAMaster

    def located(self, url: str | None) -> ConnectionInfo:
        return addresses.located(url, "mysql", "MYSQL_PWD")

    @property
    def accounts(self) -> Accounts:
        from sluice.vendors.mysql import accounts

        return accounts

    @property
    def contents(self) -> MasterContents:
        raise NotAMaster

    @property
    def server_load(self) -> ServerLoadMeter:
        raise NotAMaster


MYSQL: Vendor = MySQL()
