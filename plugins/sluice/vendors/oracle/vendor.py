"""Oracle, as master by triggers and as slave."""

from typing import Never

from sluice.database import addresses
from sluice.database.apply import ApplyTarget
from sluice.database.changes import ChangeQueue, ReaderClass
from sluice.database.load import LoadTarget
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.database.vendor import Master
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.paths import PROGRAM
from sluice.vendors.common.not_offered import NotOffered
from sluice.vendors.common.server_load import QueryLoad
from sluice.vendors.oracle import column_types
from sluice.vendors.oracle.digester import Digester
from sluice.vendors.oracle.preflight import OraclePreflight
from sluice.vendors.oracle.queue_position import QueuePosition
from sluice.vendors.oracle.rows import OracleQueries, OracleRows, OracleSelection
from sluice.vendors.oracle.schemas import OracleSchemas
from sluice.vendors.oracle.sessions import OracleLoadLocks, OracleSessions, OracleTables
from sluice.vendors.oracle.source.resources import OracleCapture
from sluice.vendors.oracle.target.tables import DEFINITIONS


def not_offered(what: str, remedy: str) -> NotOffered:
    return NotOffered("an Oracle database", what, remedy, "docs/oracle.md")


class Oracle(Master):
    """Parts that need pyarrow are imported at their first use."""

    position = staticmethod(QueuePosition.parse)
    sessions = OracleSessions()
    capture = OracleCapture
    own_tables = OracleTables
    types = column_types
    load_locks = OracleLoadLocks()
    following = DEFINITIONS
    queries = OracleQueries()
    digests = Digester()
    rows = OracleRows()
    schemas = OracleSchemas()
    selection = OracleSelection()
    preflight = OraclePreflight()
    server_load = QueryLoad(not_offered)

    @property
    def failover(self) -> Never:
        raise not_offered("failover", "Let Data Guard move the database; the slaves continue with it.")

    @property
    def accounts(self) -> Never:
        raise not_offered(f"{PROGRAM} add and remove", "Write the configuration yourself: docs/configuration.md.")

    contents = accounts

    def located(self, url: str | None) -> ConnectionInfo:
        return addresses.located(url, "oracle", "ORACLE_PWD")

    @property
    def images(self) -> RowImageCodec:
        from sluice.database import xml_images

        return xml_images

    def queue(self, session: Session, prefix: Prefix, schema: str) -> ChangeQueue:
        from sluice.vendors.oracle.source.queue import OracleQueue

        return OracleQueue(session, prefix, schema)

    @property
    def reader(self) -> ReaderClass:
        from sluice.vendors.oracle.source.reader import OracleReader

        return OracleReader

    def broadcasts(self, session: Session, prefix: Prefix, schema: str) -> None:
        return None

    @property
    def applying(self) -> ApplyTarget:
        from sluice.vendors.oracle.target.merge import APPLYING

        return APPLYING

    @property
    def load_target(self) -> LoadTarget:
        from sluice.vendors.oracle.target.tables import LOAD_TARGET

        return LOAD_TARGET


ORACLE = Oracle()
