"""A window in hand: its changes cut into runs, and each run sorted by table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.row_images import RowImageCodec
from sluice.model.change import ROW_ACTIONS, Action
from sluice.model.names import TableName
from sluice.model.table_definition import Bound, TableDefinition


@dataclass(frozen=True)
class CutItem:
    """An item that cuts the stream: rows that go without being named, or a change of a table's definition."""

    repl_key: int
    transaction: int
    action: Action
    table: TableName
    defined: TableDefinition | None = None
    """What the table is now; None where none was made or altered."""
    former: TableDefinition | None = None
    """What it was, where it was altered."""
    bound: Bound | None = None
    """Of a DELETE WHERE: which rows go."""
    differs: str = ""
    """Of a DIFFER: why nobody knows the table's rows."""
    replaces: bool = False
    """Whether the table takes the name of one that left, which the slave has kept."""

    def __str__(self) -> str:
        now = self.defined
        if now is None or self.action is Action.DROP:
            return f"{self.action} {self.table}"
        renamed = f" → {now.table}" if now.table != self.table else ""
        columns = ", ".join(f"{column.name} {column.type}" for column in now.shape.columns)
        return f"{self.action} {self.table}{renamed} ({columns})"


Run = dict[TableName, pa.Table]
"""Changes of rows between two cuts: each table's items, in REPL_KEY order."""


def runs(items: pa.Table, images: RowImageCodec) -> Iterator[Run | CutItem]:
    """The items of a window, in REPL_KEY order, as runs of row changes and the cuts between them."""
    if not items.num_rows:
        return
    rows = np.asarray(pc.is_in(items.column("action"), pa.array(sorted(ROW_ACTIONS), pa.large_string())))
    begin = 0
    for at in np.flatnonzero(~rows).tolist():
        if at > begin:
            yield by_table(items.slice(begin, at - begin))
        yield _cut(items.slice(at, 1), images)
        begin = at + 1
    if begin < items.num_rows:
        yield by_table(items.slice(begin))


def by_table(items: pa.Table) -> Run:
    """Items by table, their order kept."""
    schemas = _codes(items.column("schema"))
    names = _codes(items.column("table"))
    (schema_of, schema_words), (name_of, name_words) = schemas, names
    code = schema_of * len(name_words) + name_of
    each, counts = np.unique(code, return_counts=True)
    if len(each) > 1:
        # Once for all tables: it goes through all of a window's texts, however few are taken.
        items = items.take(pa.array(np.argsort(code, kind="stable")))
    begins = np.cumsum(counts) - counts
    return {
        TableName(schema_words[one // len(name_words)], name_words[one % len(name_words)]): items.slice(begin, count)
        for one, begin, count in zip(each.tolist(), begins.tolist(), counts.tolist(), strict=True)
    }


def _codes(column: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str]]:
    encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices).astype(np.int64), encoded.dictionary.to_pylist()


def _cut(items: pa.Table, images: RowImageCodec) -> CutItem:
    (item,) = items.to_pylist()
    action, table = Action(item["action"]), TableName(item["schema"], item["table"])
    content, oldcontent = item["content"] or "", item["oldcontent"] or ""
    return CutItem(
        item["repl_key"],
        item["trans_key"],
        action,
        table,
        defined=images.definition(content) if action in (Action.CREATE, Action.ALTER) else None,
        former=images.definition(oldcontent) if action is Action.ALTER else None,
        bound=images.bound(content) if action is Action.DELETE_WHERE else None,
        differs=content if action is Action.DIFFER else "",
    )


def pieces(items: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    """`items`, in REPL_KEY order, parted at the REPL_KEYs `cuts`, which none of them has: one piece more than cuts."""
    keys = np.asarray(items.column("repl_key"))
    bounds = [0, *np.searchsorted(keys, np.array(cuts, dtype=np.int64)).tolist(), len(keys)]
    return [items.slice(begin, end - begin) for begin, end in pairwise(bounds)]
