"""Another codec of row images than the XML of ITEMS: JSON, one object a row."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from sluice.database import xml_images
from sluice.database.row_images import MixedShapes
from sluice.model import content as xml
from sluice.model import table_definition
from sluice.model.change import RowChange
from sluice.model.names import TableName
from sluice.model.table_definition import Bound, TableDefinition

_TEXT = pa.large_string()


class JsonImages:
    """See `sluice.database.row_images.RowImageCodec`."""

    def row(self, content: str) -> dict[str, str | None]:
        found: dict[str, str | None] = json.loads(content)
        return found

    def is_partial(self, content: str) -> bool:
        return False

    def columns(self, contents: pa.Array | pa.ChunkedArray, names: Sequence[str]) -> list[pa.Array]:
        rows = []
        for text in contents.to_pylist():
            rows.append(self.row(text))
            if list(rows[-1]) != list(names):
                raise MixedShapes(names)
        return [pa.array([row[name] for row in rows], _TEXT) for name in names]

    def overlay(
        self,
        values: Sequence[pa.Array],
        names: Sequence[str],
        oldcontents: pa.Array | pa.ChunkedArray,
        skip: Sequence[str] = (),
    ) -> list[pa.Array]:
        olds = [self.row(text) if text else {} for text in oldcontents.to_pylist()]
        named = {name for old in olds for name in old}.difference(skip)
        return [
            pa.array([old.get(name, now) for old, now in zip(olds, column.to_pylist(), strict=True)], _TEXT)
            if name in named
            else column
            for name, column in zip(names, values, strict=True)
        ]

    def definition(self, content: str) -> TableDefinition:
        return table_definition.parse(json.loads(content)["desc"])

    def bound(self, content: str) -> Bound:
        return table_definition.parse_bound(json.loads(content)["desc"])

    def changes(self, items: pa.Table, keys: Mapping[TableName, Sequence[str]]) -> Iterator[RowChange]:
        for label in ("content", "oldcontent"):
            rows = [None if text is None else self.row(text) for text in items.column(label).to_pylist()]
            texts = [None if row is None else xml.format_row(row.items()) for row in rows]
            items = items.set_column(items.column_names.index(label), label, pa.array(texts, _TEXT))
        return xml_images.changes(items, keys)

    def written(
        self,
        names: Sequence[str],
        values: Sequence[pa.Array],
        only: Sequence[pa.Array | None] = (),
        plain: Collection[str] = (),
    ) -> pa.Array:
        lists = [column.to_pylist() for column in values]
        named = [None if each is None else each.to_pylist() for each in only] or [None] * len(lists)
        return pa.array(
            [
                json.dumps({
                    name: column[place]
                    for name, column, flags in zip(names, lists, named, strict=True)
                    if flags is None or flags[place]
                })
                for place in range(len(lists[0]) if lists else 0)
            ],
            _TEXT,
        )  # fmt: skip

    def is_plain(self, contents: pa.Array) -> bool:
        return False


def as_json(items: pa.Table) -> pa.Table:
    """Items of ITEMS, with JSON rows."""
    for label in ("content", "oldcontent"):
        texts = [None if text is None else _json(text) for text in items.column(label).to_pylist()]
        items = items.set_column(items.column_names.index(label), label, pa.array(texts, _TEXT))
    return items


def _json(text: str) -> str:
    return json.dumps({"desc": text} if text.startswith("<desc") else dict(xml.parse(text)))
