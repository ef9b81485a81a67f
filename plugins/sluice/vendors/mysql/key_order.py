"""Ranges of keys on this server (`sluice.database.rows.KeyOrder`)."""

from functools import cached_property

from sluice.database.session import Session
from sluice.model.shape import TableShape
from sluice.vendors.common import key_order as common
from sluice.vendors.mysql import names
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native

_ALIKE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "datetime", "timestamp"})
"""Types whose values every database orders alike. A UUID of MariaDB is not among them, nor is a text."""


class KeyOrder(common.KeyOrder):
    @cached_property
    def columns(self) -> tuple[ColumnTexts, ...]:
        return tuple(ColumnTexts(column.name, column.type) for column in self.shape.key)

    @property
    def same_everywhere(self) -> bool:
        return all(column.base in _ALIKE for column in self.columns)

    @property
    def source(self) -> str:
        return names.place(self.shape.table)

    def one_after(self, rows: int) -> str:
        return f"LIMIT 1 OFFSET {rows}"

    def first_row(self, connection: Session, query: str) -> tuple[str | None, ...] | None:
        return native(connection).run(query).fetchone()


def key_order(connection: Session, shape: TableShape) -> KeyOrder:
    del connection
    return KeyOrder(shape)
