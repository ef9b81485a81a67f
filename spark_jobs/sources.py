"""Data sources for Spark: a master's rows, format `sluice`, and its changes, format `sluice.changes`.

`register` registers them in a session; docs/feeds.md explains their options. The master's connection is inside the
registered class, as bytes: it is in no option, plan, page or event log. Classes are sent by value, so executors need
only the library, which a session sends if they lack it. The processes of a stream get nothing of what a session sends:
a stream carries the library itself.
"""

import atexit
import datetime
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from sluice import config, library
from sluice.database import registry
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.feed import arrow_columns, change_read, table_rows
from sluice.feed.change_read import ChangeRead, Span
from sluice.feed.master import Master
from sluice.feed.table_rows import TableRead
from sluice.model.connection import ConnectionInfo
from sluice.model.feed import ALL_TABLES, FeedPosition
from sluice.model.logical_type import Kind
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.row_condition import Operator, RowCondition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION_ROWS = 250_000
"""Rows of a partition without the option `partitionRows`."""

OPTIONS = {
    "sluice": frozenset({"prefix", "table", "feed", "position", "columns", "texts", "partitionrows"}),
    "sluice.changes": frozenset({"prefix", "table", "feed", "from", "to", "texts"}),
}
_ORDERS: Mapping[type[Filter], Operator] = {
    EqualTo: Operator.EQUAL,
    In: Operator.EQUAL,
    LessThan: Operator.LESS,
    LessThanOrEqual: Operator.AT_MOST,
    GreaterThan: Operator.GREATER,
    GreaterThanOrEqual: Operator.AT_LEAST,
    IsNull: Operator.IS_NULL,
    IsNotNull: Operator.NOT_NULL,
}
_ORDERED = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE})
"""Kinds whose values Spark and the master sort in the same order."""
_EQUAL = _ORDERED | {Kind.BOOLEAN, Kind.TEXT}
"""Kinds whose values are equal on the master if Spark finds them equal. CHAR is not one, because of its blanks."""


def register(spark: "SparkSession", prefix: str, connections: Mapping[str, ConnectionInfo]) -> None:
    """Registers the formats `sluice` and `sluice.changes` in the session, for the replication `prefix`.

    `connections`: by the id in the replication's file, see `docs/feeds.md`. A session may know several replications:
    then the option `prefix` chooses one. Raises `Terminal` of the configuration.
    """
    replication = config.load(prefix)
    conn_id = replication.master.conn_id
    if conn_id not in connections:
        raise Terminal(
            f"The connection {conn_id!r} of {prefix} is not among those given: {sorted(connections)}.",
            code="wrong-option",
        )
    known: dict[str, Master] = getattr(spark, "_sluice_masters", {})
    known[str(replication.prefix)] = Master.of(replication, connections[conn_id])
    spark._sluice_masters = known  # type: ignore[attr-defined]  # noqa: SLF001
    _bring_library(spark)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    ChangeSource.library = _Library(library.archive_bytes())
    for kind in (TableSource, ChangeSource):
        made = type(kind.__name__, (kind,), {"masters": dict(known), "__module__": "__main__"})
        spark.dataSource.register(made)


def _bring_library(spark: "SparkSession") -> None:
    """Gives executors the library and this module, once for each session."""
    import spark_jobs.sources

    cloudpickle.register_pickle_by_value(spark_jobs.sources)  # type: ignore[no-untyped-call]
    if getattr(spark, "_sluice_library", None) == library.fingerprint():
        return
    row = spark.range(0, 1, 1, 1).mapInArrow(_fingerprint, "library string").first()
    if row is None or row["library"] != library.fingerprint():
        folder = Path(tempfile.mkdtemp(prefix="sluice-library-"))
        # A session that is no client of Connect reads the archive from there for as long as it lives.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        archive = str(library.archive(folder))
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            spark.addArtifacts(archive, pyfile=True)
        else:
            spark.sparkContext.addPyFile(archive)
    spark._sluice_library = library.fingerprint()  # type: ignore[attr-defined]  # noqa: SLF001


def _fingerprint(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import importlib.util

    for _ in batches:
        pass
    present = importlib.util.find_spec("sluice") is not None
    text = importlib.import_module("sluice.library").fingerprint() if present else ""
    yield pa.RecordBatch.from_pylist([{"library": text}])


class _Library:
    """The archive of the library. Where it is unpickled, the library can be imported afterwards."""

    def __init__(self, archive: bytes) -> None:
        self.archive = archive

    def __reduce__(self) -> tuple[Any, ...]:
        return _imported, (self.archive,)


def _imported(archive: bytes) -> _Library:
    import importlib.util
    import os
    import sys

    if importlib.util.find_spec("sluice") is None:
        # A file in memory, which ends with the process: no other account can write to it.
        descriptor = os.memfd_create("sluice")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(archive)
        sys.path.insert(0, f"/proc/self/fd/{descriptor}")
    return _Library(archive)


def _restored(library: _Library, kind: type) -> object:
    """An empty object of that class, which is unpickled after the library."""
    return object.__new__(kind)


class _CarriesLibrary:
    """Can be unpickled where the library is missing."""

    library: _Library

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.library, type(self)), self.__dict__


class _Source(DataSource):
    """The base of both formats: the master of the option `prefix`, and the table."""

    masters: ClassVar[Mapping[str, Master]] = {}

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        known = OPTIONS[self.name()] | {"path"}
        if strange := sorted(name for name in options if name.lower() not in known):
            shown = ", ".join(sorted(known - {"path"}))
            raise Terminal(f"{self.name()} has no option {strange[0]}; it has {shown}.", code="wrong-option")

    @property
    def master(self) -> Master:
        """Raises `wrong-option`."""
        given = self._text("prefix").upper()
        if not given and len(self.masters) == 1:
            return next(iter(self.masters.values()))
        if given not in self.masters:
            known = ", ".join(sorted(self.masters))
            raise Terminal(
                f"option prefix: {given!r} is not registered in this session; {known} is. See register.",
                code="wrong-option",
            )
        return self.masters[given]

    @property
    def table(self) -> TableName | None:
        text = self._text("table")
        return TableName.parse(text) if text else None

    @property
    def texts(self) -> tuple[str, ...]:
        return self._list("texts")

    @property
    def feed(self) -> str:
        """The name of a feed of the replication; empty without one. Raises `unknown-feed`."""
        name = self._text("feed")
        if name:
            self.master.check_feed(name)
        return name

    def _text(self, name: str) -> str:
        return str(self.options.get(name, "")).strip()

    def _list(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self._text(name).split(",") if part.strip())

    def _position(self, name: str) -> Position | None:
        """Raises `wrong-option`."""
        text = self._text(name)
        if not text:
            return None
        try:
            return registry.parse_position(text)
        except (ValueError, KeyError, TypeError):
            raise Terminal(
                f"option {name}: {text[:80]!r} is no position, as `position_of` gives it.", code="wrong-option"
            ) from None


class TableSource(_Source):
    """Format `sluice`: the rows of a table as of one position."""

    @classmethod
    def name(cls) -> str:
        return "sluice"

    @property
    def wanted_table(self) -> TableName:
        """Raises `wrong-option`."""
        if self.table is None:
            raise Terminal("option table is missing: name the table as schema.table.", code="wrong-option")
        return self.table

    def schema(self) -> StructType:
        master, table = self.master, self.wanted_table
        with master.session() as session:
            columns = master.columns(session, master.shape(session, table))
        arrow = arrow_columns.schema(columns, self.texts)
        chosen = self._list("columns")
        if strange := [name for name in chosen if name not in arrow.names]:
            raise Terminal(
                f"option columns: {table} has no column {strange[0]!r}; it has {', '.join(arrow.names)}.",
                code="wrong-option",
            )
        if chosen:
            arrow = pa.schema([arrow.field(name) for name in chosen])
        return from_arrow_schema(arrow)

    def reader(self, schema: StructType) -> "TableReader":
        try:
            rows = int(self._text("partitionRows") or PARTITION_ROWS)
        except ValueError:
            rows = 0
        if rows < 1:
            raise Terminal("option partitionRows: write a whole number above 0.", code="wrong-option")
        return TableReader(self.master, self.wanted_table, schema, rows, self.feed, self._position("position"))


class TableReader(DataSourceReader):
    """Plans in Spark's driver, reads in its executors."""

    def __init__(
        self, master: Master, table: TableName, schema: StructType, rows: int, feed: str, position: Position | None
    ) -> None:
        self._master = master
        self._table = table
        self._wanted = to_arrow_schema(schema, timezone="UTC")
        self._rows = rows
        self._feed = feed
        self._position = position
        self._conditions: list[RowCondition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        """Spark evaluates all of them as well, because rows that are undone were not filtered by them."""
        with self._master.session() as session:
            columns = self._master.columns(session, self._master.shape(session, self._table))
        kinds = {column.name: column.logical.kind for column in columns}
        self._conditions = [condition for each in filters if (condition := _condition(each, kinds)) is not None]
        yield from filters

    def partitions(self) -> Sequence[InputPartition]:
        """Takes the position, and partitions the table by its keys."""
        master = self._master
        with master.session() as session:
            position = self._position
            if position is None and self._feed:
                position = change_read.begun(master, session, self._feed, str(self._table))
            if position is None:
                position = master.queue(session).take()
                master.queue(session).secure(position)
            self._read = table_rows.plan(master, session, self._table, position, self._rows)
        return [InputPartition((self._read, number)) for number in range(self._read.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        share: tuple[TableRead, int] = partition.value
        read, number = share
        yield from read.read(number, self._wanted, self._conditions)


class ChangeSource(_CarriesLibrary, _Source):
    """Format `sluice.changes`: changes of a table, or of all, between two positions or from one on."""

    @classmethod
    def name(cls) -> str:
        return "sluice.changes"

    def schema(self) -> StructType:
        return from_arrow_schema(self._read().schema.arrow)

    def reader(self, schema: StructType) -> "ChangeReader":
        begin, end = self._position("from"), self._position("to")
        master = self.master
        with master.session() as session:
            if begin is None and self.feed:
                begin = change_read.begun(master, session, self.feed, self._table_text)
            if begin is None:
                raise Terminal(
                    "option from is missing: the position after which changes are read, or option feed.",
                    code="wrong-option",
                )
            if end is None:
                end = master.queue(session).take(begin)
                master.queue(session).secure(end)
        change_read.expect_ordered(begin, end)
        return ChangeReader(self._read(), change_read.spans(begin, end))

    def streamReader(self, schema: StructType) -> "ChangeStream":  # noqa: N802
        if not self.feed:
            raise Terminal(
                "option feed is missing: a stream needs a named reader, which keeps its changes from being purged. Add "
                "one under feeds in the replication's file.",
                code="wrong-option",
            )
        return ChangeStream(self.library, self._read(), self.feed, self._table_text, self._position("from"))

    @property
    def _table_text(self) -> str:
        return str(self.table) if self.table is not None else ALL_TABLES

    def _read(self) -> ChangeRead:
        master = self.master
        with master.session() as session:
            return ChangeRead(master, change_read.schema_of(master, session, self.table, self.texts))


class ChangeReader(DataSourceReader):
    """A batch of changes."""

    def __init__(self, read: ChangeRead, spans: Sequence[Span]) -> None:
        self._read = read
        self._spans = spans

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(span) for span in self._spans]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # With nothing to read, Spark passes one partition of None.
        return self._read.read(partition.value) if partition.value is not None else iter(())


class ChangeStream(_CarriesLibrary, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of changes. An offset is a position, so that a batch has whole transactions; Spark's checkpoint has the
    processed ones, and the feed on the master follows it."""

    def __init__(self, library: _Library, read: ChangeRead, feed: str, table: str, begin: Position | None) -> None:
        self.library = library
        self._read = read
        self._feed = feed
        self._table = table
        self._begin = begin
        self._up_to_now = False
        self._last: dict[str, str] | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        """Called once in the life of a query: later its checkpoint has the position."""
        master = self._read.master
        with master.session() as session:
            if self._begin is not None:
                change_read.expect_held(master, session, self._begin)
                self._note(session, self._begin)
                return _offset(self._begin)
            return _offset(change_read.begun(master, session, self._feed, self._table))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._up_to_now = True

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        """The present position; `start` if no change of any table came since."""
        if self._last is not None:
            return self._last
        master, begin = self._read.master, _of_offset(start)
        with master.session() as session:
            change_read.expect_held(master, session, begin)
            now = master.queue(session).take(begin)
            with master.reader() as reader:
                changes = reader.survey(Window(begin, now), limit=1).changes
            if changes:
                # A crash of the master must not undo what a sink has.
                master.queue(session).secure(now)
        offset = _offset(now) if changes else start
        if self._up_to_now:
            self._last = offset
        return offset

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        return [InputPartition(span) for span in change_read.spans(_of_offset(start), _of_offset(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read.read(partition.value)

    def commit(self, end: dict[str, str]) -> None:
        """Called when the sink has everything up to `end`, and the checkpoint says so: these changes may be purged."""
        with self._read.master.session() as session:
            self._note(session, _of_offset(end))

    def _note(self, session: Session, position: Position) -> None:
        master = self._read.master
        read = FeedPosition(self._feed, self._table, position)
        master.queue(session).note_feed(read)


def _offset(position: Position) -> dict[str, str]:
    return {"position": position.text()}


def _of_offset(offset: Mapping[str, str]) -> Position:
    return registry.parse_position(offset["position"])


def _condition(given: Filter, kinds: Mapping[str, Kind]) -> RowCondition | None:
    """A filter for the master; None if only Spark can evaluate it."""
    operator = _ORDERS.get(type(given))
    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    if operator is None or len(attribute) != 1 or attribute[0] not in kinds:
        return None
    kind = kinds[attribute[0]]
    if operator in (Operator.IS_NULL, Operator.NOT_NULL):
        return RowCondition(attribute[0], operator)
    if kind not in (_EQUAL if operator is Operator.EQUAL else _ORDERED):
        return None
    values = given.value if isinstance(given, In) else (getattr(given, "value", None),)
    texts = [_value_text(value, kind) for value in values or ()]
    if not texts or any(text is None for text in texts):
        return None
    return RowCondition(attribute[0], operator, tuple(text for text in texts if text is not None))


def _value_text(value: object, kind: Kind) -> str | None:
    """The text for the master; None if it cannot evaluate the value."""
    if isinstance(value, bool):
        return str(value).lower() if kind is Kind.BOOLEAN else None
    if isinstance(value, int | Decimal):
        return str(value) if kind in (Kind.INTEGER, Kind.NUMBER) else None
    if isinstance(value, datetime.datetime):
        zoned = value.tzinfo is not None
        return value.isoformat(" ") if zoned == (kind is Kind.TIMESTAMP_ZONE) and kind is not Kind.DATE else None
    if isinstance(value, datetime.date):
        return value.isoformat() if kind is Kind.DATE else None
    if isinstance(value, str):
        return value if kind is Kind.TEXT and "\0" not in value else None
    return None
