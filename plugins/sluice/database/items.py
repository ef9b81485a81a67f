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
