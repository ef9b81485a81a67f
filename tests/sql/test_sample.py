"""Rows drawn at random: each has the same chance, wherever it is and however large the table is estimated."""

from collections import Counter
from collections.abc import Callable

import pytest

from sluice.database.digests import Compared, Method
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog, digest
from sluice.vendors.postgres.connection import connect
from sluice.verify.compare import upper_bound

ROWS, WANTED, DRAWS = 4_000, 200, 150


@pytest.mark.one_in(2)
@pytest.mark.parametrize("believed", [ROWS, ROWS // 100], ids=["as large as believed", "much larger"])
def test_every_row_has_the_same_chance(database: Callable[..., ConnectionInfo], believed: int) -> None:
    with connect(database(), application="test", autocommit=True) as connection:
        connection.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
        connection.execute(f"INSERT INTO public.t SELECT i, 'v' FROM generate_series(0, {ROWS - 1}) i".encode())
        shape = catalog.shape(connection, TableName("public", "t"))
        assert shape is not None
        columns = (Compared("id", "integer"), Compared("v", "text"))
        made = digest.Digest(shape, columns, ("id",), Method.HASH, (), 1)
        seen: Counter[int] = Counter()
        checked, covered = 0, 0
        for _ in range(DRAWS):
            drawn = [int(key or 0) for (key,) in digest.drawn(connection, made, believed, WANTED)]
            assert len(drawn) == len(set(drawn))
            seen.update(number * 10 // ROWS for number in drawn)
            checked += len(drawn)
            # A tenth is wrong, all of it in one place.
            covered += upper_bound(len(drawn), sum(number < ROWS // 10 for number in drawn)) >= 0.1
    # Each tenth of the table has a tenth of the draws, within five standard deviations.
    deviation = (checked * 0.1 * 0.9) ** 0.5
    assert all(abs(seen[tenth] - checked / 10) < 5 * deviation for tenth in range(10)), seen
    # 95 % of the bounds hold at least; fewer than 85 % come up once in a hundred million times.
    assert covered >= 0.85 * DRAWS
