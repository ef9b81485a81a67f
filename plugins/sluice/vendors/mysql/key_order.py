"""Ranges of keys: conditions, and where a range ends."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.row_condition import RowCondition
from sluice.model.shape import Column, TableShape
from sluice.vendors.mysql import names
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import literal, native, quoted
from sluice.vendors.mysql.not_a_master import NotAMaster

_ALIKE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "datetime", "timestamp"})
"""Types whose values every database orders alike. A UUID of MariaDB is not among them, nor is a text."""


@dataclass(frozen=True)
class KeyOrder:
    """How this server orders the keys of one table."""

    shape: TableShape

    @property
    def same_everywhere(self) -> bool:
        return all(ColumnTexts(column.name, column.type).base in _ALIKE for column in self.shape.key)

    @property
    def equal(self) -> tuple[str, ...]:
        return tuple("=" for _ in self.shape.key)

    @property
    def source(self) -> str:
        return names.place(self.shape.table)

    @property
    def by(self) -> str:
        return ", ".join(quoted(column.name) for column in self.shape.key)

    def within(self, lo: Key | None, hi: Key | None) -> str:
        conditions = []
        if lo is not None:
            conditions.append(f"NOT ({self._below(lo)})")
        if hi is not None:
            conditions.append(self._below(hi))
        return " AND ".join(conditions) or "1 = 1"

    def select(
        self,
        columns: Sequence[Column],
        lo: Key | None,
        hi: Key | None,
        *,
        locked: bool = False,
        canonical: bool = False,
        where: Sequence[RowCondition] = (),
    ) -> str:
        raise NotAMaster

    def next_bound(self, connection: Session, lo: Key | None, hi: Key | None, rows: int) -> Key | None:
        columns = [ColumnTexts(column.name, column.type) for column in self.shape.key]
        texts = ", ".join(column.text("t") for column in columns)
        query = f"SELECT {texts} FROM {self.source} t WHERE {self.within(lo, hi)}"
        row = native(connection).run(f"{query} ORDER BY {self.by} LIMIT 1 OFFSET {rows}").fetchone()
        if row is None:
            return None
        return tuple(column.shown(text) or "" for column, text in zip(columns, row, strict=True))

    def _below(self, key: Key) -> str:
        """`key of the row < key`, written out: the server uses no index for a comparison of rows."""
        condition = ""
        for column, text in reversed(list(zip(self.shape.key, key, strict=True))):
            own = ColumnTexts(column.name, column.type)
            value = own.value(literal(text))
            below = f"{own.quoted} < {value}"
            condition = f"({below} OR ({own.quoted} = {value} AND {condition}))" if condition else below
        return f"({condition})"


def key_order(connection: Session, shape: TableShape) -> KeyOrder:
    del connection
    return KeyOrder(shape)
