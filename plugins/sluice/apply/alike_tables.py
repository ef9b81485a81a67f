"""Reduces tables of the same columns and key together, such as partitions and tables of tenants.

Reducing the changes of a table takes some eighty calls of Arrow's kernels, each of some microseconds however few the
rows are. So tables with few changes and the same columns and key are reduced as one table, whose key includes the
table.
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
"""Changes of a table up to which calling the kernels costs more than its rows."""
MOST_TOGETHER = 100_000
"""Changes that are reduced together: meanwhile their texts are in memory twice."""

Key = tuple[str, ...]


def reduced(
    run: Run,
    keys: Mapping[TableName, Key],
    images: RowImageCodec,
    *,
    compares: Callable[[TableName], bool],
    safe: bool,
) -> dict[TableName, NetChanges]:
    """The net changes of the tables of `run` that share columns and key with others. The caller reduces the rest.

    `keys`: of the tables, as captured; `compares`: whether a table's old images are needed.
    """
    result: dict[TableName, NetChanges] = {}
    for key, compared, tables in _alike(run, keys, images, compares):
        items = pa.concat_tables([run[table] for table in tables]).combine_chunks()
        begins = accumulate((run[table].num_rows for table in tables[:-1]), initial=0)
        if pc.index(items.column("guid"), pa.scalar("", pa.large_string())).as_py() >= 0:
            continue  # an empty GUID may be a key or a missing one: that is checked table by table
        try:
            events = net_changes.events(items, key, images)
            each = net_changes.reduce_each(events, dict(zip(tables, begins, strict=True)), before=compared, safe=safe)
        except SluiceError:
            continue  # reduced one by one, the error names the table at fault
        if compared and not each[0].compared:
            continue  # one of them lacks old images
        result.update(zip(tables, each, strict=True))
    return result


def alone(changes: NetChanges) -> NetChanges:
    """A copy with its own rows: a slice of a larger table would be pickled with all of it."""
    return replace(
        changes,
        **{kind: rows.take(pa.array(range(rows.num_rows), pa.int64())) for kind, rows in changes.by_kind.items()},
    )


def _alike(
    run: Run, keys: Mapping[TableName, Key], images: RowImageCodec, compares: Callable[[TableName], bool]
) -> Iterator[tuple[Key, bool, list[TableName]]]:
    """Groups of tables with the same key and columns: the key, whether they are compared, and the tables."""
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
    """The columns of a table by its first change; None if it does not say them or has another key."""
    guid, content, old = (items.column(label)[0].as_py() for label in ("guid", "content", "oldcontent"))
    text = content if content is not None else old
    if not guid or not text:
        return None
    try:
        row = images.row(text)
    except SluiceError:
        return None
    return tuple(row) if row.keys() >= set(key) and of_key(guid, row, key) else None
