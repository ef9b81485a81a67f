"""A window as a table."""

import pyarrow as pa

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

_UNORDERED = {b"unordered": b"true"}


def marked_unordered(items: pa.Table) -> pa.Table:
    """The window, marked: its changes may be in another order than they happened, but the last one of each key."""
    return items.replace_schema_metadata(_UNORDERED)


def unordered(items: pa.Table) -> bool:
    """Whether the window is marked so."""
    return bool(items.schema.metadata == _UNORDERED)
