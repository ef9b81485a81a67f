"""Tables and rows of a server that shares no snapshots, over canonical texts."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from sluice.database import digests
from sluice.database.digests import ComparedTable, TableDigest, Texts
from sluice.database.rows import Rows, SnapshotGone, table_changed
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType, Special
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import Catalog
from sluice.vendors.common.slave_tables import TextColumn

_COLUMNS = "slave, epoch, position, target, slice_key, changes, tables"


class PlainRows(Rows, ABC):
    """Of `sluice.database.rows.Rows` what vendors share."""

    catalog: Catalog

    # What a vendor says otherwise

    @abstractmethod
    def server_of(self, connection: Session) -> str:
        """The server's name, for messages."""

    @abstractmethod
    def begin_reading(self, connection: Session) -> None:
        """Begins a transaction that sees one moment, and only reads."""

    @abstractmethod
    def checkpoints(self, connection: Session) -> list[str]:
        """The names of the tables CHECKPOINT, sorted."""

    @abstractmethod
    def table_digest(self, shape: TableShape, of: ComparedTable) -> TableDigest:
        """Raises `KeyError` for a column that is not there."""

    @abstractmethod
    def counts(self, connection: Session, shape: TableShape, of: ComparedTable, rows: Sequence[Texts]) -> list[int]:
        """How many rows of the table have each of these texts. Raises `KeyError` for a column that is not there."""

    # What all do alike

    def shapes(self, connection: Session, tables: Iterable[TableName]) -> dict[TableName, TableShape]:
        return self.catalog.shapes(connection, tables)

    def shape(self, connection: Session, table: TableName) -> TableShape | None:
        return self.shapes(connection, [table]).get(table)

    def begin_snapshot(self, connection: Session, exported: str | None = None) -> None:
        """With `exported` it must be a moment at which CHECKPOINT says the same."""
        self.begin_reading(connection)
        if exported is not None and self.export_snapshot(connection) != exported:
            server = self.server_of(connection)
            raise SnapshotGone(f"{server}: the apply continued before the snapshot was taken over")

    def export_snapshot(self, connection: Session) -> str:
        """A digest of CHECKPOINT: the server shows the same rows to each transaction that begins while this digest does
        not change."""
        tables = [
            [name, sorted(map(str, connection.execute(f'SELECT {_COLUMNS} FROM "{name}"'.encode())))]
            for name in self.checkpoints(connection)
        ]
        return hashlib.sha256(json.dumps(tables).encode()).hexdigest()

    def rows_under(
        self, connection: Session, of: ComparedTable, keys: Sequence[Texts], *, alike: bool = False
    ) -> list[Texts | None]:
        """For each of `keys`, the row with exactly these texts, None without one; `alike`: with an equal key."""
        present = self.shape(connection, of.table)
        if present is None or {column.name for column in present.key} != set(of.key):
            raise table_changed(self.server_of(connection), of.table)
        key_texts = [tuple(text or "" for text in texts) for texts in keys]
        try:
            rows = self.table_digest(present, of).rows_of_keys(connection, key_texts)
        except KeyError as error:
            raise table_changed(self.server_of(connection), of.table) from error
        return digests.rows_under(rows, of, alike=alike)

    def copies(self, connection: Session, of: ComparedTable, rows: Sequence[Texts]) -> list[int]:
        """How often a table without a key has each of these rows."""
        present = self.shape(connection, of.table)
        if present is None:
            raise table_changed(self.server_of(connection), of.table)
        try:
            return self.counts(connection, present, of, rows)
        except KeyError as error:
            raise table_changed(self.server_of(connection), of.table) from error

    def whole(self, connection: Session, table: TableName) -> bool:
        """A table that was altered or emptied since is an error of the statement that reads it."""
        return True


class SpecialTexts(TextColumn, Protocol):
    """A column's texts, and conditions of its special values."""

    def is_special(self, alias: str, special: Special, length: int) -> str | None: ...


def special_row(
    texts: Callable[[str, str], SpecialTexts],
    read: Callable[[str], Any],
    read_from: tuple[str, str],
    table: TableShape,
    column_types: Mapping[str, ColumnType],
) -> tuple[str, Special, dict[str, str | None]] | None:
    """See `MasterRows.special`. `read_from`: the table in a query, and the end of one that gives a single row."""
    checks = [
        (name, special, condition)
        for name, made in column_types.items()
        for special in sorted(made.excluded)
        if (condition := texts(name, table.column(name).type).is_special("t", special, made.length or 0))
    ]
    keys = {column.name: texts(column.name, column.type) for column in table.key}
    which = [f"CASE WHEN {condition} THEN 1 ELSE 0 END" for _, _, condition in checks]
    values = ", ".join([*which, *(own.text("t") for own in keys.values())])
    either = " OR ".join(condition for _, _, condition in checks)
    row = read(f"SELECT {values} FROM {read_from[0]} t WHERE ({either}) {read_from[1]}").fetchone() if checks else None
    if row is None:
        return None
    name, special, _ = next(check for check, holds in zip(checks, row, strict=False) if int(holds or 0))
    shown = zip(keys.items(), row[len(checks) :], strict=True)
    return name, special, {column: own.shown(text) for (column, own), text in shown}
