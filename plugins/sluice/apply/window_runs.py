"""Divides a window's changes into runs and cuts, and each run by table."""

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
from sluice.model.position import Window
from sluice.model.shape import TableShape
from sluice.model.table_definition import Bound, TableDefinition

# Changes of definitions on a slave whose DDL commits implicitly, as that of most vendors does.
#
# There a change of a definition cannot share a transaction with rows and the checkpoint. So it is done alone, in
# three steps; the apply may be killed after any of them:
#
# 1. the changes before it are committed as a slice, with a checkpoint that ends just before it: it is pending; 2.
# the DDL is executed. `Alterer.apply` does nothing if it was executed before; 3. the checkpoint that ends with
# it is committed, together with its changes to rows (labels of enums kept as texts).
#
# An apply that starts after step 1 begins with step 2. Until step 3 the slave is catching up: it shows no state of
# the master.


def next_part(window: Window, definition: int) -> Window:
    """The part of `window` to apply next; `definition`: the REPL_KEY of its first change of a definition.

    That is all before the change (possibly nothing), or the change alone once that is committed.
    """
    pending = window.above == definition - 1
    return window.between(window.above, definition if pending else definition - 1)


@dataclass(frozen=True)
class CutItem:
    """An item that other changes must not pass: it deletes rows without naming them, or changes a definition."""

    repl_key: int
    transaction: int
    action: Action
    table: TableName
    defined: TableDefinition | None = None
    """For a CREATE or ALTER: the definition after it."""
    former: TableDefinition | None = None
    """For an ALTER: the definition before it."""
    bound: Bound | None = None
    """For a DELETE WHERE: the condition of the deleted rows."""
    differs: str = ""
    """For a DIFFER: why the table's rows are unknown."""
    followed: TableShape | None = None
    """For a CREATE or ALTER: the master's columns after it, before any transformation."""
    replaces: bool = False
    """Whether the table gets the name of one that left the replication and that the slave has kept."""

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
    schema_of, schemas = _codes(items.column("schema"))
    name_of, names = _codes(items.column("table"))
    table_of = schema_of * len(names) + name_of
    tables, counts = np.unique(table_of, return_counts=True)
    if (table_of[1:] < table_of[:-1]).any():
        # One `take` for all tables: each goes through all of the window's texts, however few it takes.
        items = items.take(pa.array(np.argsort(table_of, kind="stable")))
    begins = np.cumsum(counts) - counts
    return {
        TableName(schemas[table // len(names)], names[table % len(names)]): items.slice(begin, count)
        for table, begin, count in zip(tables.tolist(), begins.tolist(), counts.tolist(), strict=True)
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
    """Divides `items`, in REPL_KEY order, at the REPL_KEYs `cuts` into one piece more. No item has one of these."""
    keys = np.asarray(items.column("repl_key"))
    bounds = [0, *np.searchsorted(keys, np.array(cuts, dtype=np.int64)).tolist(), len(keys)]
    return [items.slice(begin, end - begin) for begin, end in pairwise(bounds)]
