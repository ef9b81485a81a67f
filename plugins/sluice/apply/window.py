"""A window in hand: its changes cut into runs, and each run sorted by table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.domain.change import ROW_ACTIONS, Action
from sluice.domain.names import TableName


@dataclass(frozen=True)
class CutItem:
    """An item that cuts the stream: a TRUNCATE, or a change of a table's definition."""

    repl_key: int
    transaction: int
    action: Action
    table: TableName
    content: str | None
    oldcontent: str | None


Run = dict[TableName, Any]
"""Changes of rows between two cuts: each table's items (`pyarrow.Table`), in REPL_KEY order."""


def runs(items: Any) -> Iterator[Run | CutItem]:
    """The items of a window, in REPL_KEY order, as runs of row changes and the cuts between them."""
    if not items.num_rows:
        return
    rows = np.asarray(pc.is_in(items.column("action"), pa.array(sorted(ROW_ACTIONS), pa.large_string())))
    begin = 0
    for at in np.flatnonzero(~rows).tolist():
        if at > begin:
            yield by_table(items.slice(begin, at - begin))
        yield _cut(items.slice(at, 1).to_pylist()[0])
        begin = at + 1
    if begin < items.num_rows:
        yield by_table(items.slice(begin))


def by_table(items: Any) -> Run:
    """Items by table, their order kept."""
    schemas = _codes(items.column("schema"))
    names = _codes(items.column("table"))
    (schema_of, schema_words), (name_of, name_words) = schemas, names
    code = schema_of * len(name_words) + name_of
    return {
        TableName(schema_words[each // len(name_words)], name_words[each % len(name_words)]): items
        if len(found) == items.num_rows
        else items.take(pa.array(found))
        for each in np.unique(code).tolist()
        if (found := np.flatnonzero(code == each)) is not None
    }


def _codes(column: Any) -> tuple["np.ndarray[Any, np.dtype[np.int64]]", list[str]]:
    encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices).astype(np.int64), encoded.dictionary.to_pylist()


def _cut(item: dict[str, Any]) -> CutItem:
    return CutItem(
        item["repl_key"],
        item["trans_key"],
        Action(item["action"]),
        TableName(item["schema"], item["table"]),
        item["content"],
        item["oldcontent"],
    )


def pieces(items: Any, cuts: Sequence[int]) -> list[Any]:
    """`items`, in REPL_KEY order, parted at the REPL_KEYs `cuts`, which none of them has: one piece more than cuts."""
    keys = np.asarray(items.column("repl_key"))
    bounds = [0, *np.searchsorted(keys, np.array(cuts, dtype=np.int64)).tolist(), len(keys)]
    return [items.slice(begin, end - begin) for begin, end in pairwise(bounds)]
