"""The user exit of `test_transformed.py`."""

import pyarrow as pa
import pyarrow.compute as pc


def people(rows: pa.Table) -> pa.Table:
    """Omits the row with id 7, and marks names."""
    rows = rows.filter(pc.not_equal(rows["id"], "7"))
    mark, nothing = (pa.scalar(text, pa.large_string()) for text in ("!", ""))
    marked = pc.binary_join_element_wise(rows["name"], mark, nothing)
    return rows.set_column(rows.column_names.index("name"), "name", marked)
