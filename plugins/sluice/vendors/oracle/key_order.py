"""Ranges of keys on this server (`sluice.database.rows.KeyOrder`)."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.logical_type import Kind
from sluice.model.row_condition import RowCondition
from sluice.model.shape import Column, TableShape
from sluice.vendors.common.key_order import KeyOrder
from sluice.vendors.oracle import names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import native, quoted

_ALIKE = frozenset({Kind.NUMBER, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE})
"""Kinds whose values every database orders alike. A text is none of them."""


class OracleKeyOrder(KeyOrder):
    """How the server orders the keys of a table."""

    @cached_property
    def columns(self) -> tuple[ColumnTexts, ...]:
        return tuple(ColumnTexts(column.name, column.type) for column in self.shape.key)

    @property
    def same_everywhere(self) -> bool:
        return all(column.kind in _ALIKE for column in self.columns)

    @property
    def source(self) -> str:
        return names.qualified(self.shape.table)

    def one_after(self, rows: int) -> str:
        return f"OFFSET {rows} ROWS FETCH NEXT 1 ROWS ONLY"

    def first_row(self, connection: Session, query: str) -> tuple[str | None, ...] | None:
        return native(connection).run(query).fetchone()

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
        """Values are canonical texts in any case; all rows of the block come, `where` is not evaluated."""
        del locked, canonical, where
        texts = [f"{ColumnTexts(each.name, each.type).text('t')} AS {quoted(each.name)}" for each in columns]
        # Not by the names alone, which are those of the texts.
        by = ", ".join(f"t.{quoted(column.name)}" for column in self.shape.key)
        query = f"SELECT {', '.join(texts) or '1'} FROM {self.source} t WHERE {self.within(lo, hi)}"
        return f"{query} ORDER BY {by}" if by else query


def locate(shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """For each key, how many of the sorted `bounds` are at or below it.

    Sessions compare texts by their bytes (NLS_SORT = BINARY), so their order is known without the server.
    """
    ends = [ordered(shape, bound) for bound in bounds]
    return [bisect_right(ends, ordered(shape, key)) for key in keys]


def ordered(shape: TableShape, key: Key) -> tuple[Any, ...]:
    """A key as Python orders it as the server does."""
    return tuple(
        ColumnTexts(column.name, column.type).ordered(text) for column, text in zip(shape.key, key, strict=True)
    )
