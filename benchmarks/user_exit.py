"""What the figure `exit` of `drain` names."""

import pyarrow as pa


def unchanged(rows: pa.Table) -> pa.Table:
    """The rows as they are."""
    return rows
