"""Tables of the same columns and key, such as partitions and tables of tenants, are reduced together.

To reduce the changes of a table takes some eighty of Arrow's kernels, and each of them some microseconds, however few
the rows are. So of many tables with few changes those that are alike are reduced as one, whose keys differ by their
table too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply import net_changes
from sluice.apply.key_events import of_key
from sluice.apply.window_runs import Run
from sluice.database.net_changes import NetChanges
from sluice.database.row_images import RowImageCodec
from sluice.errors import SluiceError
from sluice.model.names import TableName

MOST_OF_ONE = 5_000
"""Changes of a table up to which its kernels cost more than its rows."""
MOST_TOGETHER = 100_000
"""Changes that are reduced at once: their texts lie in memory twice meanwhile."""

Key = tuple[str, ...]


def reduced(
    run: Run,
    keys: Mapping[TableName, Key],
    images: RowImageCodec,
    *,
    compares: Callable[[TableName], bool],
    safe: bool,
) -> dict[TableName, NetChanges]:
    """The net changes of those tables of `run` whose columns and key others have too. The rest is to be reduced one by
    one.

    `keys`: by which their changes were captured; `compares`: whether a table's old images are wanted.
    """
    found: dict[TableName, NetChanges] = {}
    for key, compared, tables in _alike(run, keys, images, compares):
        items = pa.concat_tables([run[table] for table in tables]).combine_chunks()
        begins = accumulate((run[table].num_rows for table in tables[:-1]), initial=0)
        if pc.index(items.column("guid"), pa.scalar("", pa.large_string())).as_py() >= 0:
            continue  # whether it is a key or the lack of one is looked at table by table
        try:
            events = net_changes.events(items, key, images)
            each = net_changes.reduce_each(events, dict(zip(tables, begins, strict=True)), before=compared, safe=safe)
        except SluiceError:
            continue  # one by one, the table at fault is the one that is named
        if compared and not each[0].compared:
            continue  # one of them does not say what its rows were before
        found.update(zip(tables, each, strict=True))
    return found


def alone(changes: NetChanges) -> NetChanges:
    """With rows of its own: a part of what was reduced together is pickled with all of it."""
    return replace(
        changes,
        **{kind: rows.take(pa.array(range(rows.num_rows), pa.int64())) for kind, rows in changes.by_kind.items()},
    )


def _alike(
    run: Run, keys: Mapping[TableName, Key], images: RowImageCodec, compares: Callable[[TableName], bool]
) -> Iterator[tuple[Key, bool, list[TableName]]]:
    """Tables of the same key and columns, several at a time, and whether they are compared."""
    small = [table for table, items in run.items() if keys[table] and items.num_rows <= MOST_OF_ONE]
    groups: dict[tuple[Key, bool, Key], list[TableName]] = {}
    for table in small if len(small) > 1 else ():
        columns = _columns(run[table], keys[table], images)
        if columns is not None:
            groups.setdefault((keys[table], compares(table), columns), []).append(table)
    for (key, compared, _), tables in groups.items():
        rows, taken = 0, list[TableName]()
        for table in tables:
            if rows + run[table].num_rows > MOST_TOGETHER:
                yield key, compared, taken
                rows, taken = 0, []
            rows += run[table].num_rows
            taken.append(table)
        if len(taken) > 1:
            yield key, compared, taken


def _columns(items: pa.Table, key: Key, images: RowImageCodec) -> Key | None:
    """The columns of a table by its first change; None where that does not say them, or was captured by another key."""
    guid, content, old = (items.column(label)[0].as_py() for label in ("guid", "content", "oldcontent"))
    text = content if content is not None else old
    if not guid or not text:
        return None
    try:
        row = images.row(text)
    except SluiceError:
        return None
    return tuple(row) if row.keys() >= set(key) and of_key(guid, row, key) else None
