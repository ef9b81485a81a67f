"""MySQL and MariaDB as services see them: slaves only. mypy checks each part against its protocol."""

from sluice.database import addresses
from sluice.database.apply import ApplyTarget
from sluice.database.control import OwnTables
from sluice.database.load import LoadTarget
from sluice.database.session import Session
from sluice.database.vendor import Target
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.mysql import (
    accounts,
    digester,
    preflight,
    queries,
    row_selection,
    row_source,
    schemas,
    sessions,
    types,
)
from sluice.vendors.mysql.target import load_ownership
from sluice.vendors.mysql.target.control_tables import MySQLTables
from sluice.vendors.mysql.target.definitions import DEFINITIONS


class MySQL(Target):
    """Parts that need pyarrow are imported at their first use."""

    sessions = sessions
    types = types
    load_locks = load_ownership
    following = DEFINITIONS
    queries = queries
    digests = digester.Digester()
    rows = row_source
    schemas = schemas
    selection = row_selection
    preflight = preflight
    accounts = accounts

    def located(self, url: str | None) -> ConnectionInfo:
        return addresses.located(url, "mysql", "MYSQL_PWD")

    def own_tables(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> OwnTables:
        return MySQLTables(connection, prefix)

    @property
    def applying(self) -> ApplyTarget:
        from sluice.vendors.mysql.target import apply_target

        return apply_target

    @property
    def load_target(self) -> LoadTarget:
        from sluice.vendors.mysql.target import load_target

        return load_target


MYSQL = MySQL()
