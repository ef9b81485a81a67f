"""MySQL and MariaDB as slaves."""

from sluice.database import addresses
from sluice.database.apply import ApplyTarget
from sluice.database.load import LoadTarget
from sluice.database.vendor import Target
from sluice.model.connection import ConnectionInfo
from sluice.vendors.mysql.accounts import MySQLAccounts, MySQLPreflight
from sluice.vendors.mysql.catalog import DEFINITIONS
from sluice.vendors.mysql.column_types import TYPES
from sluice.vendors.mysql.rows import MySQLDigester, MySQLQueries, MySQLRows, MySQLSelection
from sluice.vendors.mysql.sessions import MySQLLoadLocks, MySQLSessions, MySQLTables


class MySQL(Target):
    """Parts that need pyarrow are imported at their first use."""

    sessions = MySQLSessions()
    types = TYPES
    own_tables = MySQLTables
    load_locks = MySQLLoadLocks()
    following = DEFINITIONS
    schemas = DEFINITIONS
    queries = MySQLQueries()
    digests = MySQLDigester()
    rows = MySQLRows()
    selection = MySQLSelection()
    preflight = MySQLPreflight()
    accounts = MySQLAccounts()

    def located(self, url: str | None) -> ConnectionInfo:
        return addresses.located(url, "mysql", "MYSQL_PWD")

    @property
    def applying(self) -> ApplyTarget:
        from sluice.vendors.mysql.merge import APPLYING

        return APPLYING

    @property
    def load_target(self) -> LoadTarget:
        from sluice.vendors.mysql.tables import LOAD_TARGET

        return LOAD_TARGET


MYSQL = MySQL()
