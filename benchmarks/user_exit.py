"""The user exit of the figure `exit` of `drain`."""

import pyarrow as pa


def unchanged(rows: pa.Table) -> pa.Table:
    """The rows as they are."""
    return rows
