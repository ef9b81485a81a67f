"""Ranges of keys: conditions, and the end of a range, for servers that use no index to compare rows of values."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.shape import TableShape
from sluice.vendors.common.slave_tables import TextColumn


class KeyColumn(TextColumn, Protocol):
    """A column of a key."""

    @property
    def quoted(self) -> str: ...

    def literal(self, text: str) -> str:
        """The column's value with this canonical text, as an expression without parameters."""
        ...


@dataclass(frozen=True)
class KeyOrder(ABC):
    """How a server orders the keys of one table. Of `sluice.database.rows.KeyOrder` what vendors share."""

    shape: TableShape

    @property
    @abstractmethod
    def columns(self) -> tuple[KeyColumn, ...]: ...

    @property
    @abstractmethod
    def source(self) -> str: ...

    @abstractmethod
    def one_after(self, rows: int) -> str:
        """The end of a query for one row: the first after so many."""

    @abstractmethod
    def first_row(self, connection: Session, query: str) -> tuple[str | None, ...] | None: ...

    @property
    def equal(self) -> tuple[str, ...]:
        return tuple("=" for _ in self.shape.key)

    @property
    def by(self) -> str:
        return ", ".join(column.quoted for column in self.columns)

    def within(self, lo: Key | None, hi: Key | None) -> str:
        conditions = []
        if lo is not None:
            conditions.append(f"NOT ({self._below(lo)})")
        if hi is not None:
            conditions.append(self._below(hi))
        return " AND ".join(conditions) or "1 = 1"

    def next_bound(self, connection: Session, lo: Key | None, hi: Key | None, rows: int) -> Key | None:
        texts = ", ".join(column.text("t") for column in self.columns)
        query = f"SELECT {texts} FROM {self.source} t WHERE {self.within(lo, hi)} ORDER BY {self.by}"
        row = self.first_row(connection, f"{query} {self.one_after(rows)}")
        if row is None:
            return None
        return tuple(column.shown(text) or "" for column, text in zip(self.columns, row, strict=True))

    def _below(self, key: Key) -> str:
        """`key of the row < key`, written out."""
        condition = ""
        for column, text in reversed(list(zip(self.columns, key, strict=True))):
            value = column.literal(text)
            below = f"{column.quoted} < {value}"
            condition = f"({below} OR ({column.quoted} = {value} AND {condition}))" if condition else below
        return f"({condition})"
