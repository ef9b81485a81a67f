"""The binary log of a MariaDB master as a recorder reads it (`sluice.database.change_log.ChangeLog`).

What was read is named by a set of GTIDs, so that reading continues after a failover to a replica as well. Reading
begins one transaction earlier than recording, and the last recorded one must come again as it was: a server that lost
the end of its log gives the same GTIDs to other transactions.
"""

import logging
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sluice import sql_files
from sluice.database.change_log import (
    Event,
    LoggedTable,
    LogPlace,
    LogUnreadable,
    Part,
    Rows,
    TableEvent,
    Transaction,
)
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.mysql import catalog
from sluice.vendors.mysql.binlog import columns, ddl, events, groups, table_map
from sluice.vendors.mysql.binlog import requirements as required
from sluice.vendors.mysql.binlog.charsets import Charsets
from sluice.vendors.mysql.binlog.columns import TableUnfit
from sluice.vendors.mysql.binlog.dump import Dump, LogRefused
from sluice.vendors.mysql.binlog.events import Gtid, Kind
from sluice.vendors.mysql.binlog.groups import Group, Groups, NotFollowed
from sluice.vendors.mysql.binlog.places import Transactions
from sluice.vendors.mysql.binlog.row_code import Reader, reader
from sluice.vendors.mysql.connection import MySQLSession, connect

log = logging.getLogger("sluice.record")

_SEQUENCE = ("next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size")
"""How the columns of a sequence begin: its numbers are logged as rows, and are none."""


class OtherServer(Terminal):
    """Another server than before does not have what was recorded."""

    def __init__(self, server: str, transactions: str, reason: str):
        super().__init__(
            f"{server}: this is another server than the one that was recorded, and its log does not continue behind "
            f"{transactions}: {reason}. Let the connection name the former server, or a replica that has these "
            "transactions in its log (log_slave_updates); or begin a new stream in another folder."
        )


@dataclass(frozen=True)
class _Known:
    """A description of a table in the log, and how its rows are read."""

    logged: LoggedTable
    rows: Reader | None
    """None: they are not read."""
    pairs: Reader | None
    everything: int
    """The bits of all columns."""
    unfit: str = ""
    """Why they are not."""


class BinaryLog:
    """See `ChangeLog`."""

    def __init__(self, info: ConnectionInfo, covers: Callable[[TableName], bool], *, application: str):
        self.info, self.application, self._wanted = info, application, covers
        self.session = connect(info, application=application)
        self._charsets = Charsets(self.session)
        self._collations = {
            str(name): int(number)
            for name, number in self.session.run(
                "SELECT collation_name, id FROM information_schema.collations WHERE id IS NOT NULL"
            )
        }
        self._known: dict[bytes, _Known | None] = {}
        self._dumping: MySQLSession | None = None

    def __enter__(self) -> "BinaryLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()
        if self._dumping is not None:
            self._dumping.close()

    def clock(self) -> datetime:
        return self.session.clock()

    def described(self, tables: Sequence[TableName], at: LogPlace) -> Collection[LoggedTable]:
        shapes, unfit = catalog.shapes(self.session, tables), required.unfit(self.session, tables)
        # A statement is in the log before the catalog can be read again. So what was read is of the end, if nothing
        # came meanwhile.
        if not Transactions.parse(at.transactions).covers_all_of(Transactions.parse(self.end().transactions)):
            return []
        return [columns.logged(shape) for table, shape in shapes.items() if table not in unfit]

    def kept_seconds(self) -> float | None:
        (seconds,) = self.session.run("SELECT @@global.binlog_expire_logs_seconds").fetchone() or (0,)
        return float(seconds) or None

    def expect_fit(self, *, tables: bool) -> None:
        required.expect(self.session, self._replicated() if tables else [])

    def end(self) -> LogPlace:
        row = self.session.run("SELECT @@global.gtid_binlog_pos").fetchone()
        status = self.session.run("SHOW MASTER STATUS").fetchone()
        assert row is not None
        assert status is not None
        transactions = str(Transactions.parse(str(row[0])))
        return LogPlace(self._server(), transactions, str(status[0]), int(status[1]), before=transactions)

    def tables(self) -> Collection[LoggedTable]:
        return [columns.logged(shape) for shape in catalog.shapes(self.session, self._replicated()).values()]

    def _replicated(self) -> list[TableName]:
        """The replicated tables, among those of the server's databases that are not its own."""
        statement = sql_files.render("mysql", "binlog_tables", tables="TRUE")
        tables = (
            catalog.table_of(self.session, database, name)
            for database, name, _, _ in self.session.read_schema(statement)
            if database.lower() not in catalog.OF_SERVER
        )
        return sorted(filter(self._wanted, tables))

    def read(self, after: LogPlace, *, waits: bool) -> Iterator[Transaction | None]:
        server = self._server()
        try:
            yield from self._read(after, server, waits=waits)
        except (LogRefused, NotFollowed) as reason:
            if server != after.server:
                raise OtherServer(self.info.server, after.transactions, str(reason)) from None
            raise LogUnreadable(self.info.server, str(reason).rstrip(".")) from None

    def _read(self, after: LogPlace, server: str, *, waits: bool) -> Iterator[Transaction | None]:
        number = zlib.crc32(self.application.encode()) | 1 << 31
        self._dumping = connect(self.info, application=self.application)
        dump = Dump(self._dumping, number, after.before)
        reading = _Reading(after, server)
        try:
            for event in dump.events(waits=waits):
                if event.kind == Kind.HEARTBEAT:
                    reading.expect_continued()
                    yield None
                    continue
                for place, group in reading.add(event, dump.file):
                    # Anything that cannot be followed is noticed before any of the transaction is used.
                    rows = {Kind.TABLE_MAP, *events.ACTIONS}
                    statements = (each for each in group.events if each.kind not in rows)
                    defined = [groups.statements_of(self._statement(each)) for each in statements]
                    moment = f"{datetime.fromtimestamp(group.time, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
                    yield Transaction(place, moment, self._parts(group, defined))
                    group.events.close()
            reading.expect_continued()
            yield None
        finally:
            self._dumping.close()

    def _statement(self, event: events.Event) -> events.Query:
        """The statement, whose text is in the character set of the session that ran it. Raises `NotFollowed`."""
        query = events.query(event)
        if query.raw.isascii():
            return query
        try:
            return replace(query, sql=self._charsets.statement(query.raw, query.collation))
        except UnicodeDecodeError:
            if groups.statements_of(query):
                charset = self._charsets.of_collations.get(query.collation, f"of collation {query.collation}")
                raise NotFollowed(f"a statement that defines tables has texts that are not {charset}") from None
            return query

    def _server(self) -> str:
        row = self.session.run("SELECT @@server_uid").fetchone()
        assert row is not None
        return str(row[0])

    # -- the parts of a transaction

    def _parts(self, group: Group, defined: Iterable[list[ddl.Defined]]) -> Iterator[Part]:
        maps: dict[int, _Known | None] = {}
        statements = iter(defined)
        given: set[tuple[TableName, str]] = set()

        def unknown(table: TableName, reason: str) -> Iterator[Part]:
            if (table, reason) not in given:
                given.add((table, reason))
                yield TableEvent(Event.UNKNOWN, table, reason=reason)

        for event in group.events:
            if event.kind == Kind.TABLE_MAP:
                maps[table_map.table_id(event.data)] = self._table(event.data)
            elif event.kind in events.ACTIONS:
                body = events.rows(event)
                known = maps.get(body.table)
                if known is None:
                    continue
                table = known.logged.table
                action = events.ACTIONS[Kind(event.kind)]
                read = known.pairs if action == "update" else known.rows
                if read is None:
                    yield from unknown(table, known.unfit)
                elif body.before != known.everything or body.after != known.everything:
                    yield from unknown(table, _PARTIAL)
                else:
                    try:
                        rows = read(body.data, body.at, len(body.data))
                    except (ValueError, IndexError) as error:
                        yield from unknown(table, f"a row cannot be read from the log: {type(error).__name__}")
                        continue
                    yield Rows(known.logged, action, rows)
            else:
                # An ALTER in two phases is there twice, or was given up.
                undone = group.gtid.flags_extra & (Gtid.START_ALTER | Gtid.ROLLBACK_ALTER)
                for each in next(statements) if not undone else ():
                    yield from self._happened(each)

    def _happened(self, defined: ddl.Defined) -> Iterator[Part]:
        """What a statement means for the replicated tables."""
        table = self._named(defined.table)
        other = None if defined.other is None else self._named(defined.other)
        if not table.name or self._wanted(table):
            if other is None or self._wanted(other):
                yield TableEvent(
                    defined.event, table, other, defined.reason, defined.renamed, defined.filled, defined.dropped,
                    defined.converted, defined.rekeyed,
                )  # fmt: skip
            else:
                yield TableEvent(Event.UNKNOWN, table, reason=f"it was renamed to {other}, which is not replicated")
        elif other is not None and self._wanted(other):
            reason = f"{table}, which is not replicated, was renamed to it with its rows"
            yield TableEvent(Event.UNKNOWN, other, reason=reason)
        self._known.clear()

    def _named(self, place: ddl.QualifiedName) -> TableName:
        """Statements name tables in the case in which they were written."""
        database, name = (part.lower() for part in place) if self.session.folds_names else place
        return catalog.table_of(self.session, database, name)

    def _table(self, data: bytes) -> _Known | None:
        """What is known of a TABLE_MAP; None for a table that is not replicated."""
        described = data[events.HEAD_BYTES + 8 :]
        if described not in self._known:
            self._known[described] = self._described(data)
        return self._known[described]

    def _described(self, data: bytes) -> _Known | None:
        database, name = table_map.table_name(data)
        table = catalog.table_of(self.session, database, name)
        if database.lower() in catalog.OF_SERVER or not self._wanted(table):
            return None
        try:
            own = table_map.parse(data)
        except table_map.MetadataMissing:
            if required.is_sequence(self.session, table):
                return None
            return _Known(LoggedTable(table, ()), None, None, 0, _NAMELESS)
        if own.names[: len(_SEQUENCE)] == _SEQUENCE:
            return None
        shape = catalog.shape(self.session, table)
        everything = (1 << len(own.columns)) - 1
        why = required.unfit(self.session, [table]).get(table)
        try:
            if why is not None:
                raise TableUnfit(why)
            there = shape if shape is not None and columns.agrees(own, shape, self._charsets) else None
            described = {column.name: column for column in there.columns} if there is not None else {}
            read = columns.read_columns(own, described, self._charsets, self._collations)
        except TableUnfit as unfit:
            return _Known(LoggedTable(table, ()), None, None, everything, str(unfit))
        made = columns.logged(there) if there is not None else columns.of_log(table, own, read)
        cells = [each.cell for each in read]
        return _Known(made, reader(cells, pairs=False), reader(cells, pairs=True), everything)


_NAMELESS = (
    "its rows are logged without names of columns: SET GLOBAL binlog_row_metadata = 'FULL' on the master, and write it "
    "into the server's configuration"
)
_PARTIAL = "a session logs rows without some of their columns: its binlog_row_image is not FULL"


class _Reading:
    """Which groups come after a place, and that the log continues where it was read."""

    def __init__(self, after: LogPlace, server: str):
        self._after, self._server = after, server
        self._recorded = Transactions.parse(after.transactions)
        self._seen = Transactions.parse(after.before)
        """All groups that have come."""
        self._groups = Groups()
        self._prepared: dict[events.Xid, Transactions] = {}
        """Where reading must begin again for each XA transaction that is not decided."""
        self._continued = not after.last

    def add(self, event: events.Event, file: str) -> Iterator[tuple[LogPlace, Group]]:
        """The group that ends with the event, if it was not recorded before. Raises `NotFollowed`."""
        try:
            group = self._groups.add(event)
        except (ValueError, IndexError) as error:
            raise NotFollowed(f"an event in {file} before {event.next} cannot be read: {error}") from None
        if group is None:
            return
        before, gtid = self._seen, group.gtid
        self._seen = before.plus(gtid)
        self._follow_prepared(before)
        if self._recorded.covers(gtid):
            if str(gtid) == self._after.last:
                if groups.checksum(group) != self._after.checksum:
                    raise NotFollowed(f"{gtid} is another transaction now: the end of the master's log was lost")
                self._continued = True
            group.events.close()
            return
        if not self._continued:
            raise NotFollowed(f"{gtid} comes behind {self._after.last}, which is gone: the master's log was lost")
        self._recorded = self._recorded.plus(gtid)
        earliest = min(self._prepared.values(), key=lambda each: sum(part[2] for part in each.last), default=before)
        place = LogPlace(
            self._server, str(self._recorded), file, group.end, str(gtid), groups.checksum(group), str(earliest)
        )
        yield place, group

    def expect_continued(self) -> None:
        """All that the log has has come. Raises `NotFollowed`."""
        if not self._continued:
            raise NotFollowed(
                f"its log ends before {self._after.last}, which was recorded: the end of the log was lost"
            )

    def _follow_prepared(self, before: Transactions) -> None:
        for xid in self._groups.prepared:
            self._prepared.setdefault(xid, before)
        for xid in [xid for xid in self._prepared if xid not in self._groups.prepared]:
            del self._prepared[xid]
