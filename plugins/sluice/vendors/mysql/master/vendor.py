"""MariaDB as a master whose binary log is recorded: its rows, as loads and comparisons read them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Never

from sluice.configuration.model import Replication
from sluice.configuration.resolve import own_tables
from sluice.database.accounts import Content, MasterContents
from sluice.database.changes import ChangeQueue, ReaderClass
from sluice.database.preflight import MasterPreflight, Requirements
from sluice.database.registry import recorded_source
from sluice.database.row_images import RowImageCodec
from sluice.database.rows import KeyOrder, MasterSelection
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.database.vendor import Master
from sluice.errors import Terminal
from sluice.model.blocks import Key
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Issue
from sluice.model.key_ranges import Match
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.model.vendors import STREAM
from sluice.vendors.common.master_schemas import PlainMasterSchemas
from sluice.vendors.common.not_offered import NotOffered
from sluice.vendors.common.server_load import QueryLoad
from sluice.vendors.mysql import catalog, grants
from sluice.vendors.mysql.accounts import MySQLPreflight
from sluice.vendors.mysql.binlog import requirements
from sluice.vendors.mysql.catalog import MySQLDefinitions
from sluice.vendors.mysql.connection import native
from sluice.vendors.mysql.master.rows import TYPES, LoggedDigester, LoggedRows
from sluice.vendors.mysql.master.tables import LoggedTables
from sluice.vendors.mysql.rows import MySQLSelection
from sluice.vendors.mysql.vendor import MySQL

ENCODING = "UTF8"


def _not_offered(what: str, remedy: str) -> NotOffered:
    return NotOffered("a MariaDB master", what, remedy, "docs/mariadb-master.md")


class LoggedSchemas(MySQLDefinitions, PlainMasterSchemas):
    """Definitions of a master's tables, with the types and positions of columns that they have in the stream."""

    def tables(self, connection: Session, tables: Sequence[TableName]) -> list[TableDefinition]:
        session, made = native(connection), super().tables(connection, tables)
        in_stream: dict[TableName, TableShape] = {}
        if session.info.stream:
            queue = MASTER.queue(session, Prefix("X_"), "")
            in_stream = queue.definitions(tables, queue.take(), 0)
        return [replace(each, shape=_in_stream(session, each.shape, in_stream.get(each.table))) for each in made]

    def name_on_slaves(self, table: TableName, name: str) -> str:
        """An index is named within its table here, on other servers within a schema."""
        return f"{table.name}_{'pkey' if name == catalog.PRIMARY else name}"


def _in_stream(session: Session, shape: TableShape, in_stream: TableShape | None) -> TableShape:
    """The table as the stream describes it, or will, once it is altered there as it was here."""
    positions = {column.name: column.position for column in in_stream.columns} if in_stream is not None else {}
    free = itertools.count(max(positions.values(), default=0) + 1)
    types = TYPES.in_stream(session, shape.columns)
    columns = [
        replace(column, type=type_, position=positions[column.name] if column.name in positions else next(free))
        for column, type_ in zip(shape.columns, types, strict=True)
    ]
    return replace(shape, columns=tuple(sorted(columns, key=lambda column: column.position)))


class LoggedPreflight(MySQLPreflight, MasterPreflight):
    """Finds what a master lacks."""

    def of_master(self, connection: Session, replication: Replication, *, light: bool = False) -> list[Issue]:
        session = native(connection)
        schemas = [rule.pattern.schema for rule in replication.tables if rule.replicate]
        return requirements.lacking(requirements.find(session, _tables(session, replication), schemas))

    def requirements(
        self, master: Session, replication: Replication, covers: Callable[[TableName], bool]
    ) -> Requirements:
        tables = [table for table in _tables(master, replication) if covers(table)]
        sizes = LoggedRows().estimates(master, tables).values()
        return Requirements(LoggedSchemas().tables(master, tables), [], [], ENCODING, sum(size.bytes for size in sizes))

    def sequences_of_master(self, connection: Session, tables: Sequence[TableName]) -> list[Issue]:
        """Empty: sequences are not replicated."""
        return []


def _tables(master: Session, replication: Replication) -> list[TableName]:
    try:
        return [each.table for each in replication.resolve(LoggedRows().tables(master))]
    except Terminal:
        return []  # said elsewhere


class LoggedSelection(MySQLSelection, MasterSelection):
    """No part of a table can be chosen."""

    def key_of(self, connection: Session, shape: TableShape, text: str) -> Key:
        raise _no_choice()

    def runs(self, connection: Session, order: KeyOrder, where: str, lo: Key | None, hi: Key | None) -> Iterator[Match]:
        raise _no_choice()

    def in_order(self, connection: Session, shape: TableShape, keys: Sequence[Key]) -> list[Key]:
        raise _no_choice()


def _no_choice() -> NotOffered:
    return _not_offered("choice of rows by keys or a condition", "Load whole tables.")


class LoggedContents(MasterContents):
    """What a MariaDB master has."""

    def is_superuser(self, connection: Session) -> bool:
        session = native(connection)
        return "ALL PRIVILEGES" in grants.granted_everywhere(session, grants.own_account(session))

    def encoding(self, connection: Session) -> str:
        """That of the recorded stream."""
        return ENCODING

    def inventory(self, connection: Session) -> list[Content]:
        """Of the connection's own database: the others of the server belong to others, until they are named."""
        rows = LoggedRows()
        present = [table for table in rows.tables(connection) if table.schema == catalog.HERE]
        tables = sorted(set(present) - own_tables(present))
        counts = [one.rows or 0 for one in rows.estimates(connection, tables).values()]
        return [Content(catalog.HERE, len(tables), sum(counts), ())] if tables else []


class LoggedMaster(MySQL, Master):
    """The same servers as masters."""

    types = TYPES
    rows = LoggedRows()
    digests = LoggedDigester()
    schemas = LoggedSchemas()
    selection = LoggedSelection()
    preflight = LoggedPreflight()
    server_load = QueryLoad(_not_offered)
    contents = LoggedContents()

    @staticmethod
    def position(text: str) -> Position:
        return recorded_source().position(text)

    def queue(self, session: Session, prefix: Prefix, schema: str) -> ChangeQueue:
        own, source = native(session), recorded_source()
        if own.recorded is None:
            folder = ConnectionInfo(STREAM, "", 0, own.info.stream, "", "")
            own.recorded = source.sessions.connect(folder, application="")
        return source.log_queue(own.recorded, prefix, schema, LoggedTables(own))

    @property
    def reader(self) -> ReaderClass:
        return recorded_source().reader

    @property
    def images(self) -> RowImageCodec:
        return recorded_source().images

    def broadcasts(self, session: Session, prefix: Prefix, schema: str) -> None:
        return None

    def capture(self, session: Session, prefix: Prefix, schema: str) -> Never:
        raise _not_offered("capture by triggers", "Write capture: binlog.")

    @property
    def failover(self) -> Never:
        raise _not_offered("failover", "Let the connection name the replica that became the master.")


MASTER = LoggedMaster()
