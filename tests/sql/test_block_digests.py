"""Digests of blocks: where blocks end, how many rows each has, and that its sum is that of its rows."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from sluice.database.digests import ROWS_A_BLOCK, Method, compared
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.postgres import catalog, column_types, digest
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.digester import PostgresDigester, TableDigest

ROWS = 70_000
BELIEVED = 500_000
"""Rows that ends are asked for, as of a larger table."""
BLOCKS = BELIEVED // ROWS_A_BLOCK
FIRST, LAST = -(2**63), 2**63 - 1


@pytest.fixture(autouse=True)
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples all pages, so that chance plays no part."""
    monkeypatch.setattr(digest, "SAMPLED_KEYS", 1_000)


@pytest.fixture
def connection(database: Callable[..., ConnectionInfo]) -> Iterator[Any]:
    with connect(database(), application="test", autocommit=True) as link:
        yield link


def filled(connection: Any, keys: str, kind: str = "bigint") -> TableShape:
    """A table of `ROWS` rows; `keys`: an expression of their number i."""
    connection.execute(f"CREATE TABLE public.t (k {kind} PRIMARY KEY, v text)".encode())
    connection.execute(f"INSERT INTO public.t SELECT {keys}, 'v' || i FROM generate_series(1, {ROWS}) i".encode())
    connection.execute("ANALYZE public.t")
    shape = catalog.shape(connection, TableName("public", "t"))
    assert shape is not None
    return shape


def digested(shape: TableShape, bounds: Sequence[str] = ()) -> TableDigest:
    columns = compared(column_types, ((column.name, column.type) for column in shape.columns))
    return PostgresDigester().table(shape, columns, ("k",), Method.HASH, tuple(bounds))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ("i * 3 - 90000", "bigint"),
        ("i", "integer"),
        ("i % 2 * 40000 + i / 2 - 10", "int"),
        (f"{2**31 - 1} - (i - 1)", "integer"),
        (f"({FIRST}) + (i - 1)", "bigint"),
        (f"{LAST} - (i - 1)", "bigint"),
    ],
)
def test_keys_that_lie_evenly_have_ends_at_even_distances(connection: Any, keys: str, kind: str) -> None:
    shape = filled(connection, keys, kind)
    ends = [int(text) for text in digest.bounds(connection, shape, BELIEVED)]
    assert BLOCKS - 10 < len(ends) < BLOCKS and len({after - before for before, after in pairwise(ends)}) == 1
    counts = [rows for _, rows, _ in digested(shape, tuple(map(str, ends))).of_blocks(connection, None)]
    assert sum(counts) == ROWS and max(counts) <= 4 * ROWS // BLOCKS


@pytest.mark.parametrize("keys", ["i::bigint * i * i", f"CASE i WHEN 1 THEN {FIRST + 1} WHEN 2 THEN {LAST} ELSE i END"])
def test_others_have_ends_where_as_many_rows_lie_between(connection: Any, keys: str) -> None:
    shape = filled(connection, keys)
    ends = digest.bounds(connection, shape, BELIEVED)
    assert [int(text) for text in ends] == sorted({int(text) for text in ends}) and len(ends) > BLOCKS // 2
    counts = [rows for _, rows, _ in digested(shape, ends).of_blocks(connection, None)]
    assert sum(counts) == ROWS and max(counts) <= 10 * ROWS // BLOCKS


@pytest.mark.parametrize("step", [1, 700])
def test_rows_outside_of_all_ends_and_on_them_are_in_the_right_block(connection: Any, step: int) -> None:
    shape = filled(connection, f"CASE i WHEN 1 THEN ({FIRST}) WHEN 2 THEN {LAST} ELSE i - 20 END")
    bounds = tuple(str(-5 + number * step) for number in range(80))
    found = {block: (rows, total) for block, rows, total in digested(shape, bounds).of_blocks(connection, None)}
    wanted = connection.execute(
        f"SELECT width_bucket(k, '{{{','.join(bounds)}}}'::bigint[]), count(*) FROM public.t GROUP BY 1".encode()
    )
    assert {block: rows for block, (rows, _) in found.items()} == dict(wanted.fetchall())
    for block in (0, 1, 79, 80):
        rows = digested(shape, bounds).of_rows(connection, [block])
        assert len(rows) == found[block][0]
        assert (sum(value for value, _ in rows) - int(found[block][1])) % 2**64 == 0


def test_a_block_may_have_more_rows_than_two_bytes_hold(connection: Any) -> None:
    shape = filled(connection, "i")
    ((block, rows, _),) = digested(shape).of_blocks(connection, None)
    assert (block, rows) == (0, ROWS)
    for last in (65_536, 65_535, 65_534):
        connection.execute(
            f"DELETE FROM public.t WHERE k > {last}; INSERT INTO public.t VALUES ({last}, '') ON CONFLICT DO NOTHING"
        )
        ((_, rows, _),) = digested(shape).of_blocks(connection, None)
        assert rows == connection.execute("SELECT count(*) FROM public.t").fetchone()[0]
    connection.execute("TRUNCATE public.t")
    assert digested(shape).of_blocks(connection, None) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("gone", ["k % 5000 > 300", "k < 100000 OR k > 100100", "k % 7 = 0", "false", "true"])
def test_blocks_with_gaps_and_any_counts_are_those_of_a_plain_grouping(connection: Any, gone: str) -> None:
    shape = filled(connection, "i * 3")
    digests = digested(shape, [str(end) for end in range(90, 3 * ROWS, 90)])
    connection.execute(f"DELETE FROM public.t WHERE {gone}".encode())
    rows = f"SELECT {digests.block()} AS b, {digests.row()} AS h FROM {digests.source}"
    plain = connection.execute(f"SELECT b, count(*), sum(h) FROM ({rows}) s GROUP BY b ORDER BY b".encode()).fetchall()
    found = digests.of_blocks(connection, None)
    assert [each[:2] for each in found] == [each[:2] for each in plain]
    assert [int(total) % 2**64 for _, _, total in found] == [int(total) % 2**64 for _, _, total in plain]
