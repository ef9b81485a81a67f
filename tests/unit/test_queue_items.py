"""Rows of ITEMS from the master, as the apply gets them."""

import pyarrow as pa
import pytest

from sluice.database.items import ITEMS, unordered
from sluice.vendors.postgres.source.reader import taken_over

KEYS = [1, 2**32 - 1, 2**32, 2**62, 7]


def sent(keys: list[int], kind: pa.DataType) -> pa.Table:
    eight = pa.array([key.to_bytes(8, "big") for key in keys], pa.binary())
    columns = {name: pa.nulls(len(keys), pa.string()) for name in ITEMS.names}
    columns["repl_key"] = pa.array(range(len(keys)), pa.int64())
    columns["trans_key"] = (
        pa.ExtensionArray.from_storage(kind, eight) if isinstance(kind, pa.BaseExtensionType) else eight
    )
    columns["unordered"] = pa.array([key == 2**32 for key in keys], pa.bool_())
    return pa.table({**columns, "left_out": pa.nulls(len(keys), pa.int64())})


@pytest.mark.parametrize("kind", [pa.opaque(pa.binary(), "xid8", "PostgreSQL"), pa.binary()], ids=["opaque", "bytes"])
def test_a_transaction_keeps_its_number_whatever_its_size_and_its_batch(kind: pa.DataType) -> None:
    whole = sent(KEYS, kind)
    for table in (whole, whole.slice(1, 3), pa.concat_tables([whole.slice(3), whole.slice(0, 0), whole.slice(1, 2)])):
        found = taken_over(table)
        assert found.schema.equals(ITEMS), "the mark is in the metadata"
        assert unordered(found) == (2**32 in [KEYS[place] for place in table["repl_key"].to_pylist()])
        assert found["trans_key"].to_pylist() == [KEYS[place] for place in table["repl_key"].to_pylist()]


def test_without_items_the_table_is_empty_and_has_its_columns() -> None:
    assert taken_over(sent([], pa.binary())).equals(ITEMS.empty_table())
