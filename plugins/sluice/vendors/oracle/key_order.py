"""Ranges of keys: conditions, and where a range ends."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.logical_type import Kind
from sluice.model.row_condition import RowCondition
from sluice.model.shape import Column, TableShape
from sluice.vendors.oracle import names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.not_a_master import NotAMaster
from sluice.vendors.oracle.session import literal, native, quoted

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
        raise NotAMaster

    def next_bound(self, connection: Session, lo: Key | None, hi: Key | None, rows: int) -> Key | None:
        columns = [ColumnTexts(column.name, column.type) for column in self.shape.key]
        texts = ", ".join(column.text("t") for column in columns)
        query = f"SELECT {texts} FROM {self.source} t WHERE {self.within(lo, hi)}"
        row = native(connection).run(f"{query} ORDER BY {self.by} OFFSET {rows} ROWS FETCH NEXT 1 ROWS ONLY").fetchone()
        if row is None:
            return None
        return tuple(column.shown(text) or "" for column, text in zip(columns, row, strict=True))

    def _below(self, key: Key) -> str:
        """`key of the row < key`, written out: the server uses no index for a comparison of rows."""
        condition = ""
        for column, text in reversed(list(zip(self.shape.key, key, strict=True))):
            own = ColumnTexts(column.name, column.type)
            value = own.value(_literal(own, text))
            below = f"{own.quoted} < {value}"
            condition = f"({below} OR ({own.quoted} = {value} AND {condition}))" if condition else below
        return f"({condition})"


def _literal(own: ColumnTexts, text: str | None) -> str:
    bound = own.bind(text)
    if bound is None:
        return "NULL"
    return f"HEXTORAW('{bound.hex()}')" if isinstance(bound, bytes) else literal(bound)


def key_order(connection: Session, shape: TableShape) -> KeyOrder:
    del connection
    return KeyOrder(shape)
