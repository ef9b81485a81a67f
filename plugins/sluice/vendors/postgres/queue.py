"""Reading ITEMS on a PostgreSQL master: windows as Arrow.

    with Reader(info, prefix, schema, application="sluice DEMO_ dr1") as reader:
        reader.items(previous, target, limit=20_001)         # a small window, in one go
        reader.survey(previous, target, limit=1_000_000)     # a large one: how far a slice goes
        reader.items(previous, target, above=a, up_to=b, part=Part(0, 4))   # a share of a slice

A `Reader` keeps one connection and is used by one thread at a time. After a `Transient` error it
connects anew by itself at the next call.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql.dbapi
import psycopg
import pyarrow as pa

from sluice import sql_files
from sluice.domain.connection import ConnectionInfo
from sluice.domain.names import Prefix, TableName
from sluice.domain.position import Position
from sluice.errors import SluiceError
from sluice.vendors.postgres import connection

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
_ENDLESS = 2**63 - 1


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


class Reader:
    """Reads windows of one prefix's ITEMS. `schema`: where its resources live, unquoted."""

    def __init__(self, info: ConnectionInfo, prefix: Prefix, schema: str, *, application: str = "sluice"):
        self.info = info
        self.application = application
        self._names = {"prefix": prefix.lower, "schema": connection.quoted(schema)}
        self._connection: Any = None

    def items(
        self,
        previous: Position,
        target: Position,
        *,
        above: int = 0,
        up_to: int | None = None,
        part: Part | None = None,
        limit: int | None = None,
        images: bool = False,
    ) -> pa.Table:
        """The changes of the window `(previous, target]` in REPL_KEY order, columns as in `ITEMS`.

        `above` and `up_to` cut out REPL_KEYs in between; `limit` stops after so many. `images`
        reads OLDCONTENT of every change, for the comparison with old images. Raises
        `DatabaseUnreachable` and the like, classified.
        """
        return self._read(
            "queue_items",
            self._window(previous, target, above, up_to, part.condition if part else "true", limit),
            images,
        )

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
        return self._read(
            "queue_items", self._window(previous, target, above, up_to, " OR ".join(conditions), None), images
        )

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

        Some 0.5 µs a change on the master. One change is taken however large it is.
        """
        window = self._window(previous, target, above, up_to, "true", None if limit is None else limit + 1)
        window["look"] = window["limit"]
        window["limit"] = str(_ENDLESS if limit is None else int(limit))
        window["bytes"] = str(_ENDLESS if max_bytes is None else int(max_bytes))
        row = self._rows("queue_survey", window).to_pylist()[0]
        cuts = tuple(
            Cut(repl_key, action, TableName(schema, table))
            for repl_key, action, schema, table in json.loads(row["cuts"] or "[]")
        )
        return Survey(row["changes"], row["last"], row["bytes"], row["key_changes"], cuts, row["more"])

    def close(self) -> None:
        """Closes the connection; the next call opens another."""
        held, self._connection = self._connection, None
        if held is not None:
            held.close()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _window(
        self, previous: Position, target: Position, above: int, up_to: int | None, selection: str, limit: int | None
    ) -> dict[str, str]:
        ceiling = target.high if up_to is None else min(up_to, target.high)
        return {
            "floor": str(int(max(above, previous.floor(target)))),
            "ceiling": str(int(ceiling)),
            "from": connection.literal(previous.snapshot),
            "to": connection.literal(target.snapshot),
            "selection": selection,
            "limit": "ALL" if limit is None else str(int(limit)),
        }

    def _read(self, statement: str, window: dict[str, str], images: bool) -> pa.Table:
        # A GUID of several columns begins with a length; its parts are easier taken from OLDCONTENT.
        needed = "guid IS NULL OR guid = '' OR db_action NOT IN ('INSERT', 'UPDATE')" if not images else "true"
        table = self._rows(statement, {**window, "old": needed})
        return table.cast(ITEMS)

    def _rows(self, statement: str, placeholders: dict[str, str]) -> pa.Table:
        text = sql_files.render("postgres", statement, **self._names, **placeholders)
        try:
            if self._connection is None:
                self._connection = adbc_driver_postgresql.dbapi.connect(
                    connection.uri(self.info, self.application), autocommit=True
                )
            with self._connection.cursor() as cursor:
                cursor.execute(text)
                return cursor.fetch_arrow_table()
        except adbc_driver_manager.Error as error:
            self._drop()
            raise _classified(error, self.info.place) from error

    def _drop(self) -> None:
        try:
            self.close()
        except adbc_driver_manager.Error:
            # The connection is lost; closing it says so once more.
            return


def _classified(error: Any, place: str) -> SluiceError:
    if error.sqlstate is None and isinstance(error, adbc_driver_manager.OperationalError):
        # ADBC passes libpq's words on where the server said nothing.
        return connection.classify(psycopg.OperationalError(str(error)), place)
    return connection.classify(error, place)
