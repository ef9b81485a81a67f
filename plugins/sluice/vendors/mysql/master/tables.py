"""The tables of a master beside its recorded log (`sluice.database.change_log.RowsBesideLog`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from sluice.database.change_log import LogPlace, Span
from sluice.database.errors import DatabaseError
from sluice.model.blocks import Key
from sluice.model.foreign_key import ForeignKey
from sluice.model.joining import Rows
from sluice.model.key_ranges import located
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.mysql import catalog
from sluice.vendors.mysql.binlog.places import Transactions
from sluice.vendors.mysql.connection import MySQLSession
from sluice.vendors.mysql.master.rows import TYPES
from sluice.vendors.mysql.rows import MySQLRows

COUNTED = 10_000
"""The number of rows up to which a table's rows are counted."""


class LoggedTables:
    """For one session."""

    def __init__(self, session: MySQLSession):
        self.session, self.server = session, session.server

    def end(self) -> Callable[[LogPlace], bool]:
        (text,) = self.session.run("SELECT @@global.gtid_binlog_pos").fetchone() or ("",)
        written = Transactions.parse(str(text))
        return lambda place: Transactions.parse(place.transactions).covers_all_of(written)

    def begin(self, table: TableName | None = None) -> Span:
        session = self.session
        (server,) = session.run("SELECT @@server_uid").fetchone() or ("",)
        # The server answers a session at times with the snapshot of another one. Before it any answer is right: no
        # later snapshot shows less.
        answer = dict(session.run("SHOW STATUS LIKE 'Binlog_snapshot_%'").fetchall())
        before = number(str(answer["Binlog_snapshot_file"])), int(answer["Binlog_snapshot_position"])
        session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        if table is not None:
            # From here on nobody alters it; what happened in between comes in the log.
            session.run(f"SELECT 1 FROM {catalog.qualified(table)} LIMIT 0")
        status = session.run("SHOW MASTER STATUS").fetchone()
        assert status is not None, "the server has a log"
        after = number(str(status[0])), int(status[1])

        def up_to(end: tuple[int, int]) -> Callable[[LogPlace], bool]:
            # Of a server that was the master before, all that was recorded came here first.
            return lambda place: place.server != str(server) or (number(place.file), place.offset) <= end

        return Span(up_to(before), up_to(after), self.end())

    def leave(self) -> None:
        self.session.corrected = {}
        if not self.session.closed:
            with suppress(DatabaseError):
                self.session.run("ROLLBACK")

    def correct(self, rows: Mapping[Key, Mapping[str, str | None] | None]) -> None:
        self.session.corrected = rows

    def shape(self, table: TableName) -> TableShape | None:
        return catalog.shape(self.session, table)

    def locate(self, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        return located([TYPES.logical(column.type).kind for column in shape.key], bounds, keys)

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        listed = list(tables)
        return [own.key for own in catalog.foreign_keys(self.session, listed) if own.key.child in listed]

    def row_counts(self, tables: Iterable[TableName]) -> dict[TableName, Rows]:
        counts = {}
        estimates = MySQLRows().estimates(self.session, listed := list(tables))
        for table in listed:
            query = f"SELECT COUNT(*) FROM (SELECT 1 FROM {catalog.qualified(table)} LIMIT {COUNTED + 1}) AS s"
            (counted,) = self.session.run(query).fetchone() or (0,)
            estimated = estimates[table].rows if table in estimates else None
            exact = int(counted) <= COUNTED
            counts[table] = Rows(int(counted) if exact else max(int(counted), estimated or 0), exact)
        return counts


def number(file: str) -> int:
    """The number of a file of the log, `master-bin.000012`."""
    return int(file.rpartition(".")[2] or 0)
