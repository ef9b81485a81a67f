"""Finds what an Oracle server or account lacks."""

from collections.abc import Callable, Sequence

from sluice.configuration.model import Replication, SlaveConfig
from sluice.database.preflight import MasterPreflight, Requirements
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Issue, Severity
from sluice.model.names import TableName
from sluice.vendors.oracle import catalog
from sluice.vendors.oracle.rows import OracleRows
from sluice.vendors.oracle.schemas import OracleSchemas
from sluice.vendors.oracle.session import OracleSession, native
from sluice.vendors.oracle.source import preflight_master
from sluice.vendors.oracle.source.preflight_master import NEVER_RAN, of_account, of_server

PACKAGES = {
    "DBMS_LOCK": "loads and installs keep out of one another's way by it",
    "DBMS_CRYPTO": "tables are compared by it",
}

PRIVILEGES = {
    "CREATE SESSION": "Sluice works over sessions",
    "CREATE TABLE": "tables are made and filled there",
    "CREATE SEQUENCE": "REJECTS numbers its rows by an identity, which is a sequence",
}


def _of_tables(session: OracleSession, tables: Sequence[TableName]) -> list[Issue]:
    """Triggers of replicated tables, as issues: a session cannot disable them."""
    why = "it acts on each change that is applied, and what it writes to replicated tables the master does not have"
    return [
        Issue("", f"{table} without the trigger {trigger}", why, None, Severity.WARNING)
        for table, trigger in catalog.triggers(session, tables)
    ]


class OraclePreflight(MasterPreflight):
    """Finds what a server lacks, before anything is changed."""

    def of_master(self, connection: Session, replication: Replication, *, light: bool = False) -> list[Issue]:
        """What the master lacks: privileges of the account, and properties of its tables; beside redo, what reading its
        rows needs."""
        session = native(connection)
        if session.redo is not None:
            return preflight_master.beside_redo(session)
        return preflight_master.issues(session, replication, light=light)

    def requirements(
        self, master: Session, replication: Replication, covers: Callable[[TableName], bool]
    ) -> Requirements:
        """What the master's tables for which `covers` is true need on a slave."""
        try:
            tables = [each.table for each in replication.resolve(OracleRows().tables(master)) if covers(each.table)]
        except Terminal:
            tables = []  # said of the master
        sizes = catalog.estimates(master, tables)
        return Requirements(
            OracleSchemas().tables(master, tables), [], [], "UTF8", sum(size.bytes for size in sizes.values())
        )

    def of_slave(
        self,
        connection: Session,
        replication: Replication,
        slave: SlaveConfig,
        requirements: Requirements | None,
        *,
        part: bool = False,
        light: bool = False,
    ) -> list[Issue]:
        """What a slave lacks. `part` and `light` make no difference: few statements are needed."""
        session = native(connection)
        issues = [Issue("", "a proof on an Oracle server", NEVER_RAN, None, Severity.WARNING)]
        issues += [*of_server(session), *of_account(session, PRIVILEGES, PACKAGES)]
        if requirements is not None:
            issues += _of_tables(session, [definition.table for definition in requirements.definitions])
        return issues

    def of_refusal(self, info: ConnectionInfo, reason: str) -> Issue:
        """An issue for a refused account."""
        return Issue("", f"a log-in of {info.user}", reason.rstrip("."), None, remedy="Correct the connection.")

    def sequences_of_master(self, connection: Session, tables: Sequence[TableName]) -> list[Issue]:
        """Empty: sequences are not replicated."""
        return []

    def sequences_of_slave(self, connection: Session, tables: Sequence[TableName]) -> list[Issue]:
        """Empty: a slave draws no numbers."""
        return []
