"""Ranges of keys: conditions, and where a range ends."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.logical_type import Kind
from sluice.model.row_condition import RowCondition
from sluice.model.shape import Column, TableShape
from sluice.vendors.oracle import names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import native, quoted

_ALIKE = frozenset({Kind.NUMBER, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE})
"""Kinds whose values every database orders alike. A text is none of them."""


@dataclass(frozen=True)
class KeyOrder:
    """How this server orders the keys of one table."""

    shape: TableShape

    @property
    def same_everywhere(self) -> bool:
        return all(ColumnTexts(column.name, column.type).kind in _ALIKE for column in self.shape.key)

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
        """Values are canonical texts in any case; all rows of the block come, whatever `where` would leave out."""
        del locked, canonical, where
        texts = [f"{ColumnTexts(each.name, each.type).text('t')} AS {quoted(each.name)}" for each in columns]
        # Not by the names alone, which are those of the texts.
        by = ", ".join(f"t.{quoted(column.name)}" for column in self.shape.key)
        query = f"SELECT {', '.join(texts) or '1'} FROM {self.source} t WHERE {self.within(lo, hi)}"
        return f"{query} ORDER BY {by}" if by else query

    def next_bound(self, connection: Session, lo: Key | None, hi: Key | None, rows: int) -> Key | None:
        columns = [ColumnTexts(column.name, column.type) for column in self.shape.key]
        texts = ", ".join(column.text("t") for column in columns)
        query = f"SELECT {texts} FROM {self.source} t WHERE {self.within(lo, hi)}"
        row = native(connection).run(f"{query} ORDER BY {self.by} OFFSET {rows} ROWS FETCH NEXT 1 ROWS ONLY").fetchone()
        if row is None:
            return None
        return tuple(ColumnTexts.shown(text) or "" for text in row)

    def _below(self, key: Key) -> str:
        """`key of the row < key`, written out: the server uses no index for a comparison of rows."""
        condition = ""
        for column, text in reversed(list(zip(self.shape.key, key, strict=True))):
            own = ColumnTexts(column.name, column.type)
            value = own.literal(text)
            below = f"{own.quoted} < {value}"
            condition = f"({below} OR ({own.quoted} = {value} AND {condition}))" if condition else below
        return f"({condition})"


def locate(shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """For each key how many of `bounds`, which are in order, are at or below it.

    Sessions compare texts by their bytes (NLS_SORT = BINARY), so their order is known without the server.
    """
    ends = [ordered(shape, bound) for bound in bounds]
    return [bisect_right(ends, ordered(shape, key)) for key in keys]


def ordered(shape: TableShape, key: Key) -> tuple[Any, ...]:
    """A key as Python orders it as the server does."""
    return tuple(
        ColumnTexts(column.name, column.type).ordered(text) for column, text in zip(shape.key, key, strict=True)
    )


def key_order(connection: Session, shape: TableShape) -> KeyOrder:
    del connection
    return KeyOrder(shape)
