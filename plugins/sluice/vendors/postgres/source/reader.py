"""Reads windows of ITEMS on a PostgreSQL master as Arrow tables.

    with PostgresReader(info, prefix, schema, application="sluice DEMO_ dr1") as reader:
        reader.items(previous, target)                       # a small window, complete
        reader.survey(previous, target, limit=1_000_000)     # a large one: where a slice ends
        reader.items(previous, target, above=a, up_to=b, share=Share(0, 4))   # a share of a slice

A reader keeps its connections; only one thread may use it. After a `Transient` error the next call connects again.
"""

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import adbc_driver_manager
import adbc_driver_postgresql
import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from adbc_driver_manager._reader import AdbcRecordBatchReader

from sluice import sql_files
from sluice.database.changes import LARGEST_CHANGE, Cut, Oversized, Share, Survey, TooManyBytes
from sluice.database.items import ITEMS, marked
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.position import Window
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.errors import classify
from sluice.vendors.postgres.source.window_condition import Condition

# A session over ADBC whose answers are Arrow.
#
# The driver's own DBAPI is left out: it imports pyarrow.dataset and with it pandas, 28 MB that each apply would hold.


class ArrowSession:
    """One connection, in autocommit mode. What goes wrong is an `adbc_driver_manager.Error`."""

    def __init__(self, uri: str):
        self._database = adbc_driver_postgresql.connect(uri)
        try:
            self._connection = adbc_driver_manager.AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise

    def run(self, text: str) -> None:
        """A statement without rows."""
        with adbc_driver_manager.AdbcStatement(self._connection) as statement:
            statement.set_sql_query(text)
            statement.execute_update()

    @contextmanager
    def rows(self, text: str) -> Iterator[pa.RecordBatchReader]:
        """Its rows, batch by batch, inside the block. Leaving it early ends the statement on the server."""
        with adbc_driver_manager.AdbcStatement(self._connection) as statement:
            statement.set_sql_query(text)
            handle, _ = statement.execute_query()
            # It raises the driver's errors with their SQLSTATE.
            with closing(AdbcRecordBatchReader._import_from_c(handle.address)) as reader:  # noqa: SLF001
                yield reader

    def close(self) -> None:
        with suppress(adbc_driver_manager.ProgrammingError):  # closed already
            self._connection.close()
        self._database.close()


_ENDLESS = 2**62
STREAMS, STREAMED = 2, 2_000_000
"""How many connections read one window, each an equal part of its REPL_KEYs; from how many REPL_KEYs on they do. A
change takes some 400 bytes of the log, and as many REPL_KEYs."""


def _of_share(share: Share | None) -> str:
    """The SQL condition that a change belongs to the share."""
    if share is None:
        return "true"
    # A keyless table is in one share, so that inserted and deleted copies of a row cancel out.
    return (
        "guid IS NOT NULL AND db_action IN ('INSERT', 'UPDATE', 'DELETE') AND "
        "(hashtext(CASE WHEN guid = '' THEN db_schema || '.' || tablename ELSE guid END) & 2147483647)"
        f" % {int(share.of)} = {int(share.number)}"
    )


def _of_rows(table: TableName) -> str:
    """The SQL condition that an item is a change of a row of the table."""
    return (
        f"db_schema = {connection.literal(table.schema)} AND tablename = {connection.literal(table.name)} "
        "AND db_action IN ('INSERT', 'UPDATE', 'DELETE')"
    )


class PostgresReader:
    """Reads windows of one prefix's ITEMS. `schema`: of its resources, unquoted.

    `largest`: bytes of contents above which a change comes without them (`sluice.database.items.oversized`).
    """

    def __init__(
        self,
        info: ConnectionInfo,
        prefix: Prefix,
        schema: str,
        *,
        application: str = "sluice",
        largest: int = LARGEST_CHANGE,
    ):
        self.info = info
        self._largest = str(int(largest))
        self.application = application
        self._names = {"prefix": prefix.lower, "schema": connection.quoted(schema)}
        self._connections: list[ArrowSession | None] = [None] * STREAMS
        self._pool: ThreadPoolExecutor | None = None

    def items(
        self,
        window: Window,
        *,
        share: Share | None = None,
        images: bool = False,
        max_bytes: int | None = None,
        rows_of: TableName | None = None,
    ) -> pa.Table:
        """The changes of the window in REPL_KEY order, columns as in `ITEMS`.

        `rows_of`: only changes of this table's rows. `images`: reads OLDCONTENT of every change, for comparisons with
        old images. Raises `TooManyBytes` above `max_bytes`, errors of `sluice.database.errors`.
        """
        chosen = Condition.of(window, _of_share(share) if rows_of is None else _of_rows(rows_of))
        return self._read(chosen, images, max_bytes, streams=STREAMS if share is None else 1)

    def key_changes(
        self,
        window: Window,
        *,
        guids: Mapping[TableName, Collection[str]] | None = None,
        images: bool = False,
    ) -> pa.Table:
        """UPDATEs that change a key, and all changes of the keys `guids`, which no `Share` may apply.

        To be called first without `guids`, then with the keys of the result (`net.entangled`), which the shares leave
        out.
        """
        conditions = ["(guid IS NULL AND db_action = 'UPDATE')"]
        for table, keys in (guids or {}).items():
            if keys:
                array = "ARRAY[" + ",".join(connection.literal(key) for key in sorted(keys)) + "]::text[]"
                conditions.append(
                    f"(guid = ANY ({array}) AND db_schema = {connection.literal(table.schema)}"
                    f" AND tablename = {connection.literal(table.name)})"
                )
        return self._read(Condition.of(window, " OR ".join(conditions)), images)

    def survey(
        self,
        window: Window,
        *,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> Survey:
        """Counts the window, or its first `limit` changes and `max_bytes` of contents, without reading it.

        Takes some 0.2 µs a change on the master, 0.3 where the limit may cut it. Counts at least one change, of any
        size.
        """
        chosen = Condition.of(window)
        survey = self._survey(chosen, _ENDLESS if limit is None else limit)
        if max_bytes is None or survey.bytes <= max_bytes:
            return survey
        # Running sums are the slowest part, so they are computed only where needed.
        filled = self._rows("queue_fill", chosen, limit=str(survey.changes), bytes=str(int(max_bytes)))
        return self._survey(chosen, filled.column("changes")[0].as_py())

    def _survey(self, chosen: Condition, limit: int) -> Survey:
        # There are never more changes than REPL_KEYs.
        limited = "true" if chosen.ceiling - chosen.floor > limit else "false"
        rows = self._rows("queue_survey", chosen, limit=str(int(limit)), ceiling=str(chosen.ceiling), limited=limited)
        row = rows.to_pylist()[0]
        cuts = tuple(
            Cut(repl_key, transaction, action, TableName(schema, table))
            for repl_key, transaction, action, schema, table in json.loads(row["cuts"] or "[]")
        )
        return Survey(
            row["changes"], row["last"], row["bytes"], row["key_changes"], cuts, row["more"], row["unordered"],
            tuple(
                Oversized(repl_key, TableName(schema, table), size)
                for repl_key, schema, table, size in json.loads(row["oversized"] or "[]")
            ),
        )  # fmt: skip

    def unordered(self, window: Window) -> bool:
        """See `sluice.database.changes.ChangeReader`. As slow as counting the window."""
        return self._survey(Condition.of(window, "version = '2' OR db_action = 'DELETE WHERE'"), 1).changes > 0

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        for stream in range(STREAMS):
            self._close(stream)

    def __enter__(self) -> "PostgresReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, chosen: Condition, images: bool, max_bytes: int | None = None, streams: int = 1) -> pa.Table:
        # OLDCONTENT gives the parts of a key of several columns, which would have to be parsed from the GUID.
        needed = "guid IS NULL OR guid = '' OR db_action NOT IN ('INSERT', 'UPDATE')" if not images else "true"
        floor, ceiling = chosen.floor, chosen.ceiling
        room = _Room(max_bytes)
        if streams == 1 or ceiling - floor < STREAMED:
            return taken_over(self._rows("queue_items", chosen, room=room, old=needed))
        if self._pool is None:
            self._pool = ThreadPoolExecutor(STREAMS, thread_name_prefix="sluice-queue")
        bounds = [floor + (ceiling - floor) * number // streams for number in range(streams + 1)]
        reading = [
            self._pool.submit(
                self._rows,
                "queue_items",
                replace(chosen, floor=bounds[stream], ceiling=bounds[stream + 1]),
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
        self, statement: str, chosen: Condition, stream: int = 0, room: "_Room | None" = None, **placeholders: str
    ) -> pa.Table:
        if statement in ("queue_items", "queue_survey"):
            placeholders["largest"] = self._largest
        text = sql_files.render("postgres", statement, window=chosen.sql, **self._names, **placeholders)
        try:
            with self._connected(stream).rows(text) as reader:
                return _taken(reader, room)
        except adbc_driver_manager.Error as error:
            self._drop(stream)
            raise _classified(error, self.info.server) from error
        except TooManyBytes:
            self._drop(stream)  # this also ends the statement
            raise

    def _connected(self, stream: int) -> ArrowSession:
        session = self._connections[stream]
        if session is None:
            session = self._connections[stream] = ArrowSession(connection.uri(self.info, self.application))
            session.run(connection.ensure_settings(connection.CANONICAL | connection.PATIENT))
            # The index has the wanted order, and its rows are adjacent. Where ITEMS is small, or was when it was
            # analysed, the planner would read all of it and sort.
            session.run("SET enable_sort = off")
            # Compiling takes longer than it saves, as cheap functions read each row once.
            session.run("SET jit = off")
            # Passing rows on from parallel workers takes twice as long as reading them.
            session.run("SET max_parallel_workers_per_gather = 0")
        return session

    def _drop(self, stream: int) -> None:
        try:
            self._close(stream)
        except adbc_driver_manager.Error:
            # The connection is lost; closing it fails, too.
            return

    def _close(self, stream: int) -> None:
        connection, self._connections[stream] = self._connections[stream], None
        if connection is not None:
            connection.close()


class _Room:
    """The bytes that several streams may read together."""

    def __init__(self, max_bytes: int | None):
        self.max_bytes = max_bytes
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Counts `size` bytes. Raises `TooManyBytes`."""
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


def taken_over(items: pa.Table) -> pa.Table:
    """Casts to `ITEMS`. TRANS_KEY comes as the eight bytes of an xid8, as a cast on the master is slow."""
    unordered = bool(pc.any(items.column("unordered")).as_py())
    oversized: list[Oversized] = []
    if items.column("left_out").null_count < items.num_rows:
        left_out = items.filter(pc.is_valid(items.column("left_out")))
        oversized = [
            Oversized(row["repl_key"], TableName(row["schema"], row["table"]), row["left_out"])
            for row in left_out.select(["repl_key", "schema", "table", "left_out"]).to_pylist()
        ]
    items = items.drop_columns(["unordered", "left_out"])
    index = items.column_names.index("trans_key")
    chunks = [pa.array(_numbers(chunk.cast(pa.binary()))) for chunk in items.column(index).chunks if len(chunk)]
    taken = items.set_column(index, "trans_key", pa.chunked_array(chunks, pa.int64())).cast(ITEMS)
    return marked(taken, unordered=unordered, oversized=oversized)


def _numbers(eight: pa.Array) -> npt.NDArray[np.int64]:
    _, offsets, data = eight.buffers()
    begin = int(np.frombuffer(offsets, np.int32)[eight.offset])
    return np.frombuffer(data, ">i8", len(eight), begin).astype(np.int64)


def _classified(error: adbc_driver_manager.Error, server: str) -> SluiceError:
    if error.sqlstate is None and isinstance(error, adbc_driver_manager.OperationalError):
        # ADBC passes on libpq's text if the server did not answer.
        return classify(psycopg.OperationalError(str(error)), server)
    return classify(error, server)
