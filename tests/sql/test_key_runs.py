"""Where a condition holds along a key: in the key's own order, which is not that of its texts."""

from collections.abc import Callable

from sluice.model.connection import ConnectionInfo
from sluice.model.key_ranges import Match
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog, row_selection
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.key_order import key_order


def test_runs_of_numbers_are_in_the_order_of_numbers(database: Callable[..., ConnectionInfo]) -> None:
    with connect(database(), application="test", autocommit=True) as session:
        session.execute("CREATE TABLE public.t (a int, b bigint, PRIMARY KEY (a, b))")
        session.execute("INSERT INTO public.t SELECT n % 12, n FROM generate_series(1, 120) AS n")
        shape = catalog.shape(session, TableName("public", "t"))
        assert shape is not None
        found = list(row_selection.runs(session, key_order(session, shape), "b IN (9, 10, 99, 100, 118)", None, None))
    # Ten rows for each of twelve values of a; before 99 there are three of these and eight rows.
    assert found == [
        Match((("3", "99"), ("3", "111")), 3 * 10 + 8), Match((("4", "100"), ("4", "112")), 1 + 8),
        Match((("9", "9"), ("9", "21")), 1 + 4 * 10), Match((("10", "10"), ("10", "22")), 9),
        Match((("10", "118"), ("11", "11")), 8),
    ]  # fmt: skip
