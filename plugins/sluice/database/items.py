"""A window as a table."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.changes import Oversized
from sluice.model.names import TableName

ITEMS = pa.schema(
    [
        ("repl_key", pa.int64()),
        ("trans_key", pa.int64()),
        ("schema", pa.large_string()),
        ("table", pa.large_string()),
        ("guid", pa.large_string()),
        ("action", pa.large_string()),
        ("content", pa.large_string()),
        ("oldcontent", pa.large_string()),
    ]
)
"""The columns of a window."""

_UNORDERED, _OVERSIZED = b"unordered", b"oversized"


def marked(items: pa.Table, *, unordered: bool, oversized: Sequence[Oversized]) -> pa.Table:
    """The window with what is known of it. `unordered`: changes may be in another order than they happened, but the
    last one of each key. `oversized`: the changes that lack their contents."""
    metadata = {_UNORDERED: b"true"} if unordered else {}
    if oversized:
        values = [[each.repl_key, each.table.schema, each.table.name, each.bytes] for each in oversized]
        metadata[_OVERSIZED] = json.dumps(values).encode()
    return items.replace_schema_metadata(metadata or None)


def unordered(items: pa.Table) -> bool:
    """Whether the window is marked so."""
    return _UNORDERED in (items.schema.metadata or {})


def oversized(items: pa.Table) -> list[Oversized]:
    """The changes of the window that lack their contents."""
    values = json.loads((items.schema.metadata or {}).get(_OVERSIZED, b"[]"))
    return [Oversized(key, TableName(schema, name), size) for key, schema, name, size in values]


def one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()  # which copies
    return array


def key_texts(key: Sequence[pa.Array]) -> pa.Array:
    """The keys of rows as texts, as `sluice.model.guid.key_text`; `key`: the texts of each column."""
    if len(key) == 1:
        return key[0]
    pieces: list[pa.Array | pa.Scalar] = []
    for texts in key:
        pieces += [pc.utf8_length(texts).cast(pa.large_string()), pa.scalar(":", pa.large_string()), texts]
    return pc.binary_join_element_wise(*pieces, pa.scalar("", pa.large_string()))
