"""Builds items like the capture, for tests without a master: a table as a dictionary, and its history."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sluice.database import xml_images
from sluice.database.items import ITEMS
from sluice.model import content, guid
from sluice.model.change import RowChange
from sluice.model.names import TableName

TABLE = TableName("public", "t")
Values = tuple[str | None, ...]


class History:
    """A table that records every change of its rows as items. Values are texts."""

    def __init__(
        self, table: TableName = TABLE, columns: Sequence[str] = ("id", "v"), key: Sequence[str] = ("id",)
    ) -> None:
        self.table = table
        self.columns = tuple(columns)
        self.key = tuple(key)
        self.rows: list[Values] = []
        self.items: list[dict[str, Any]] = []

    def insert(self, *values: str | None) -> None:
        self.rows.append(values)
        self._item("INSERT", self._guid(values), self._content(values), None)

    def delete(self, *values: str | None) -> None:
        self.rows.remove(values)
        self._item("DELETE", self._guid(values), None, self._content(values))

    def update(self, old: Values, new: Values) -> None:
        self.rows.remove(old)
        self.rows.append(new)
        shown = [
            (name, before)
            for name, before, after in zip(self.columns, old, new, strict=True)
            if name in self.key or before != after
        ]
        guid = self._guid(old)
        self._item("UPDATE", guid if guid == self._guid(new) else None, self._content(new), content.format_row(shown))

    def window(self, start: int = 0, stop: int | None = None) -> pa.Table:
        """The items between two places of the history, as `queue.Reader.items` returns them."""
        return pa.Table.from_pylist(self.items[start:stop], schema=ITEMS)

    def changes(self, start: int = 0, stop: int | None = None) -> Iterator[RowChange]:
        """The changes between two places of the history, as a slave replays them."""
        return xml_images.changes(self.window(start, stop), {self.table: self.key})

    def find(self, *key: str) -> Values:
        places = [self.columns.index(name) for name in self.key]
        return next(row for row in self.rows if tuple(row[place] for place in places) == key)

    def _content(self, values: Values) -> str:
        return content.format_row(zip(self.columns, values, strict=True))

    def _guid(self, values: Values) -> str:
        return guid.key_text(dict(zip(self.columns, values, strict=True)), self.key) if self.key else ""

    def _item(self, action: str, guid: str | None, new: str | None, old: str | None) -> None:
        number = len(self.items) + 1
        self.items.append(
            {
                "repl_key": number,
                "trans_key": 1000 + number,
                "schema": self.table.schema,
                "table": self.table.name,
                "guid": guid,
                "action": action,
                "content": new,
                "oldcontent": old,
            }
        )
