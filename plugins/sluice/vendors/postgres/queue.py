"""Reading ITEMS on a PostgreSQL master: windows as Arrow.

    with Reader(info, prefix, schema, application="sluice DEMO_ dr1") as reader:
        reader.items(previous, target)                       # a small window, in one go
        reader.survey(previous, target, limit=1_000_000)     # a large one: how far a slice goes
        reader.items(previous, target, above=a, up_to=b, part=Part(0, 4))   # a share of a slice

A `Reader` keeps its connections and is used by one thread at a time. After a `Transient` error it
connects anew by itself at the next call.
"""

import json
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql.dbapi
import numpy as np
import psycopg
import pyarrow as pa

from sluice import sql_files
from sluice.domain.change import Action
from sluice.domain.connection import ConnectionInfo
from sluice.domain.names import Prefix, TableName
from sluice.domain.position import Position
from sluice.errors import SluiceError
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.errors import classify

_ENDLESS = 2**62
ITEMS = pa.schema(
    [
        ("repl_key", pa.int64()),
        ("trans_key", pa.int64()),
        ("schema", pa.large_string()),
        ("table", pa.large_string()),
        ("guid", pa.large_string()),
        ("action", pa.large_string()),
        ("content", pa.large_string()),
        ("oldcontent", pa.large_string()),
    ]
)
"""The columns of a window."""
STREAMS, STREAMED = 2, 5_000
"""Connections that read one window, half of its REPL_KEYs each, and the REPL_KEYs from which on that pays."""


class TooManyBytes(SluiceError):
    """A window holds more than its reader was asked to bring; reading stopped half-way."""

    def __init__(self, max_bytes: int):
        super().__init__(f"The window holds more than {max_bytes:,} bytes.")


@dataclass(frozen=True)
class Part:
    """One of `of` disjoint shares of a window: all changes of a key are in the same one.

    UPDATEs that change a key are in none of them, nor are TRUNCATE and DDL: their keys are two, and
    the driver reads them apart (`Reader.key_changes`).
    """

    number: int
    of: int

    @property
    def condition(self) -> str:
        # A keyless table is one unit: copies that come and copies that go must meet to cancel out.
        return (
            "guid IS NOT NULL AND db_action IN ('INSERT', 'UPDATE', 'DELETE') AND "
            "(hashtext(CASE WHEN guid = '' THEN db_schema || '.' || tablename ELSE guid END) & 2147483647)"
            f" % {int(self.of)} = {int(self.number)}"
        )


@dataclass(frozen=True)
class Cut:
    """An item that cuts the stream: all before it is applied, then it, then the rest."""

    repl_key: int
    transaction: int
    action: str
    table: TableName


@dataclass(frozen=True)
class Survey:
    """What waits in a window, or at its beginning."""

    changes: int
    last: int | None
    """REPL_KEY of the last of them: where a slice of that many changes ends."""
    bytes: int
    """Of their contents, as texts."""
    key_changes: int
    """UPDATEs that change a key."""
    cuts: tuple[Cut, ...]
    more: bool
    """Whether changes of the window follow after these."""


@dataclass(frozen=True)
class Window:
    """What a statement reads of ITEMS: changes that `ends` covers and `begins` does not."""

    begins: Position
    ends: Position
    floor: int
    """REPL_KEYs above this one, up to the ceiling."""
    ceiling: int
    selection: str = "true"
    """A further condition on ITEMS, of literals alone."""

    @classmethod
    def between(
        cls, begins: Position, ends: Position, selection: str = "true", *, above: int = 0, up_to: int | None = None
    ) -> "Window":
        """The window `(begins, ends]`; `above` and `up_to` cut out REPL_KEYs in between."""
        ceiling = ends.high if up_to is None else min(up_to, ends.high)
        return cls(begins, ends, max(above, begins.floor(ends)), ceiling, selection)

    @property
    def condition(self) -> str:
        """As SQL: `${window}` of the statements that read ITEMS."""
        return sql_files.render(
            "postgres",
            "queue_window",
            floor=str(int(self.floor)),
            ceiling=str(int(self.ceiling)),
            selection=self.selection,
            **{"from": connection.literal(self.begins.snapshot), "to": connection.literal(self.ends.snapshot)},
        )


class Reader:
    """Reads windows of one prefix's ITEMS. `schema`: where its resources live, unquoted."""

    def __init__(self, info: ConnectionInfo, prefix: Prefix, schema: str, *, application: str = "sluice"):
        self.info = info
        self.application = application
        self._names = {"prefix": prefix.lower, "schema": connection.quoted(schema)}
        self._connections: list[Any] = [None] * STREAMS
        self._pool: ThreadPoolExecutor | None = None

    def items(
        self,
        previous: Position,
        target: Position,
        *,
        above: int = 0,
        up_to: int | None = None,
        part: Part | None = None,
        images: bool = False,
        max_bytes: int | None = None,
    ) -> pa.Table:
        """The changes of the window `(previous, target]` in REPL_KEY order, columns as in `ITEMS`.

        `above` and `up_to` cut out REPL_KEYs in between. `images` reads OLDCONTENT of every change,
        for the comparison with old images. Raises `TooManyBytes` when `max_bytes` are passed,
        `DatabaseUnreachable` and the like, classified.
        """
        window = Window.between(previous, target, part.condition if part else "true", above=above, up_to=up_to)
        return self._read(window, images, max_bytes, streams=STREAMS if part is None else 1)

    def key_changes(
        self,
        previous: Position,
        target: Position,
        *,
        above: int = 0,
        up_to: int | None = None,
        guids: Mapping[TableName, Collection[str]] | None = None,
        images: bool = False,
    ) -> pa.Table:
        """UPDATEs that change a key, and all changes of the keys `guids`: what no `Part` should apply.

        First without `guids`; the keys found in these (`net.entangled`) then go in as `guids`,
        and the shares drop them.
        """
        conditions = ["(guid IS NULL AND db_action = 'UPDATE')"]
        for table, keys in (guids or {}).items():
            if keys:
                array = "ARRAY[" + ",".join(connection.literal(key) for key in sorted(keys)) + "]::text[]"
                conditions.append(
                    f"(guid = ANY ({array}) AND db_schema = {connection.literal(table.schema)}"
                    f" AND tablename = {connection.literal(table.name)})"
                )
        return self._read(Window.between(previous, target, " OR ".join(conditions), above=above, up_to=up_to), images)

    def survey(
        self,
        previous: Position,
        target: Position,
        *,
        above: int = 0,
        up_to: int | None = None,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> Survey:
        """Counts the window, or its first `limit` changes and `max_bytes` of contents, without reading it.

        Some 0.3 µs a change on the master. One change is taken however large it is.
        """
        window = Window.between(previous, target, above=above, up_to=up_to)
        found = self._survey(window, _ENDLESS if limit is None else limit)
        if max_bytes is None or found.bytes <= max_bytes:
            return found
        # Running sums cost more than the rest: only where they are needed.
        filled = self._rows("queue_fill", window, limit=str(found.changes), bytes=str(int(max_bytes)))
        return self._survey(window, filled.column("changes")[0].as_py())

    def _survey(self, window: Window, limit: int) -> Survey:
        row = self._rows("queue_survey", window, limit=str(int(limit)), ceiling=str(window.ceiling)).to_pylist()[0]
        cuts = tuple(
            Cut(repl_key, transaction, action, TableName(schema, table))
            for repl_key, transaction, action, schema, table in json.loads(row["cuts"] or "[]")
        )
        return Survey(row["changes"], row["last"], row["bytes"], row["key_changes"], cuts, row["more"])

    def has(self, previous: Position, target: Position, action: Action) -> bool:
        """Whether the window holds such an item. Costs as much as counting the window."""
        selection = f"db_action = {connection.literal(str(action))}"
        return self._survey(Window.between(previous, target, selection), 1).changes > 0

    def close(self) -> None:
        """Closes the connections; the next call opens others."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        for stream in range(STREAMS):
            self._close(stream)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, window: Window, images: bool, max_bytes: int | None = None, streams: int = 1) -> pa.Table:
        # A GUID of several columns begins with a length; its parts are easier taken from OLDCONTENT.
        needed = "guid IS NULL OR guid = '' OR db_action NOT IN ('INSERT', 'UPDATE')" if not images else "true"
        floor, ceiling = window.floor, window.ceiling
        room = _Room(max_bytes)
        if streams == 1 or ceiling - floor < STREAMED:
            return taken_over(self._rows("queue_items", window, room=room, old=needed))
        if self._pool is None:
            self._pool = ThreadPoolExecutor(STREAMS, thread_name_prefix="sluice-queue")
        bounds = [floor + (ceiling - floor) * number // streams for number in range(streams + 1)]
        reading = [
            self._pool.submit(
                self._rows,
                "queue_items",
                replace(window, floor=bounds[stream], ceiling=bounds[stream + 1]),
                stream,
                room,
                old=needed,
            )
            for stream in range(streams)
        ]
        failures = [failure for each in reading if (failure := each.exception()) is not None]
        if failures:
            raise failures[0]
        return taken_over(pa.concat_tables([each.result() for each in reading]))

    def _rows(
        self, statement: str, window: Window, stream: int = 0, room: "_Room | None" = None, **placeholders: str
    ) -> pa.Table:
        text = sql_files.render("postgres", statement, window=window.condition, **self._names, **placeholders)
        try:
            with self._connected(stream).cursor() as cursor:
                cursor.execute(text)
                return _taken(cursor.fetch_record_batch(), room)
        except adbc_driver_manager.Error as error:
            self._drop(stream)
            raise _classified(error, self.info.place) from error
        except TooManyBytes:
            self._drop(stream)  # which also ends the statement
            raise

    def _connected(self, stream: int) -> Any:
        if self._connections[stream] is None:
            opened = adbc_driver_postgresql.dbapi.connect(connection.uri(self.info, self.application), autocommit=True)
            self._connections[stream] = opened
            with opened.cursor() as cursor:
                # The index has the order that is wanted, and its rows lie beside each other. Where ITEMS is small, or
                # was when it was analysed, the planner likes to read all of it and to sort.
                cursor.execute("SET enable_sort = off")
                # Compiling takes longer than it saves, each time anew: a row is looked at once, by cheap functions.
                cursor.execute("SET jit = off")
        return self._connections[stream]

    def _drop(self, stream: int) -> None:
        try:
            self._close(stream)
        except adbc_driver_manager.Error:
            # The connection is lost; closing it says so once more.
            return

    def _close(self, stream: int) -> None:
        held, self._connections[stream] = self._connections[stream], None
        if held is not None:
            held.close()


class _Room:
    """Bytes that several streams may still bring, together."""

    def __init__(self, max_bytes: int | None):
        self.max_bytes = max_bytes
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Raises `TooManyBytes`."""
        with self._lock:
            self._taken += size
            if self.max_bytes is not None and self._taken > self.max_bytes:
                raise TooManyBytes(self.max_bytes)


def _taken(reader: pa.RecordBatchReader, room: _Room | None) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for batch in reader:
        if room is not None:
            room.take(batch.nbytes)
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def taken_over(found: pa.Table) -> pa.Table:
    """As `ITEMS`. TRANS_KEY comes as the eight bytes of an xid8: making a number of it cost the master a tenth."""
    place = found.column_names.index("trans_key")
    chunks = [pa.array(_numbers(chunk.cast(pa.binary()))) for chunk in found.column(place).chunks if len(chunk)]
    return found.set_column(place, "trans_key", pa.chunked_array(chunks, pa.int64())).cast(ITEMS)


def _numbers(eight: Any) -> Any:
    _, offsets, data = eight.buffers()
    begin = int(np.frombuffer(offsets, np.int32)[eight.offset])
    return np.frombuffer(data, ">i8", len(eight), begin).astype(np.int64)


def _classified(error: Any, place: str) -> SluiceError:
    if error.sqlstate is None and isinstance(error, adbc_driver_manager.OperationalError):
        # ADBC passes libpq's words on where the server said nothing.
        return classify(psycopg.OperationalError(str(error)), place)
    return classify(error, place)
