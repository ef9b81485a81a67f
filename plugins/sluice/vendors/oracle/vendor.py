"""Oracle as services see it: which module is which part. mypy checks each against its protocol."""

from typing import Never

from sluice.database import addresses
from sluice.database.apply import ApplyTarget
from sluice.database.changes import ChangeQueue, ReaderClass
from sluice.database.control import OwnTables
from sluice.database.load import LoadTarget
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.database.vendor import Master
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.paths import PROGRAM
from sluice.vendors.oracle import (
    column_types,
    digester,
    preflight,
    queries,
    row_selection,
    row_source,
    schemas,
    sessions,
)
from sluice.vendors.oracle.not_offered import NotOffered
from sluice.vendors.oracle.queue_position import QueuePosition
from sluice.vendors.oracle.source import server_load
from sluice.vendors.oracle.source.resources import OracleCapture
from sluice.vendors.oracle.target import load_ownership
from sluice.vendors.oracle.target.control_tables import OracleTables
from sluice.vendors.oracle.target.definitions import DEFINITIONS


class Oracle(Master):
    """Parts that need pyarrow are imported at their first use."""

    position = staticmethod(QueuePosition.parse)
    sessions = sessions
    capture = OracleCapture
    types = column_types
    load_locks = load_ownership
    following = DEFINITIONS
    queries = queries
    digests = digester.Digester()
    rows = row_source
    schemas = schemas
    selection = row_selection
    preflight = preflight
    server_load = server_load

    @property
    def failover(self) -> Never:
        raise NotOffered("failover", "Let Data Guard move the database; the slaves go on with it.")

    @property
    def accounts(self) -> Never:
        raise NotOffered(f"{PROGRAM} add and remove", "Write the configuration yourself: docs/configuration.md.")

    contents = accounts

    def located(self, url: str | None) -> ConnectionInfo:
        return addresses.located(url, "oracle", "ORACLE_PWD")

    def own_tables(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> OwnTables:
        return OracleTables(connection, prefix)

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
        from sluice.vendors.oracle.target import apply_target

        return apply_target

    @property
    def load_target(self) -> LoadTarget:
        from sluice.vendors.oracle.target import load_target

        return load_target


ORACLE = Oracle()
