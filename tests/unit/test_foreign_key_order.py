"""Parents come before their children; cycles have no right order, but lose no table."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sluice.model.foreign_key import write_order
from sluice.model.names import TableName

NAMES = [TableName("s", name) for name in "abcdefgh"]
TABLES = st.lists(st.sampled_from(NAMES), unique=True)


@given(TABLES, st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] > pair[1])))
def test_a_parent_comes_before_its_children(tables: list[TableName], pairs: list[tuple[int, int]]) -> None:
    keys = [(NAMES[child], NAMES[parent]) for child, parent in pairs]
    found = write_order(tables, keys)
    assert sorted(found) == sorted(tables)
    for child, parent in keys:
        if child in found and parent in found:
            assert found.index(parent) < found.index(child)


@given(TABLES, st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))))
def test_cycles_lose_no_table(tables: list[TableName], keys: list[tuple[TableName, TableName]]) -> None:
    assert sorted(write_order(tables, keys)) == sorted(tables)


@given(TABLES)
def test_without_foreign_keys_the_order_stays(tables: list[TableName]) -> None:
    assert write_order(tables, []) == tables


def test_a_chain_of_thousands_of_tables() -> None:
    tables = [TableName("s", str(number)) for number in range(5000)]
    assert write_order(tables[::-1], [(b, a) for a, b in itertools.pairwise(tables)]) == tables
