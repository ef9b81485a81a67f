"""Different rows are found and repaired."""

from collections.abc import Callable

import pytest

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.verify.compare import compare
from sluice.verify.findings import Kind, Outcome, TableFinding
from sluice.verify.pinned_sessions import at_one_position
from sluice.verify.resync import repair
from tests.scenarios.mariadb.rig import Rig

TABLES = (
    "CREATE TABLE public.items (id bigint PRIMARY KEY, name text, weight float8, at timestamptz, body bytea); "
    "CREATE TABLE public.pairs (a varchar(20), b int, c numeric(8,3), PRIMARY KEY (a, b)); "
    "CREATE TABLE public.log (a int, b text); "
    "CREATE TABLE public.games_checkpoint (id int PRIMARY KEY, position text); "
    "INSERT INTO public.items SELECT n, 'é ' || n, n / 3.0, now(), decode(lpad(to_hex(n), 8, '0'), 'hex') "
    "FROM generate_series(1, 5000) AS n; "
    "INSERT INTO public.pairs SELECT 'k' || n % 7, n, n / 8.0 FROM generate_series(1, 900) AS n; "
    "INSERT INTO public.log SELECT n % 5, 'x' FROM generate_series(1, 100) AS n; ANALYZE"
)
DAMAGE = [
    "UPDATE items SET weight = weight + 1e-9 WHERE id IN (7, 4000)",
    "UPDATE items SET name = NULL WHERE id = 8",
    "DELETE FROM items WHERE id BETWEEN 100 AND 120",
    "INSERT INTO items (id, name) VALUES (-1, 'mine'), (99999, 'mine')",
    "UPDATE pairs SET c = 1.001 WHERE b = 6",
    "DELETE FROM log WHERE a = 3 LIMIT 2",
    "INSERT INTO log VALUES (4, 'x'), (NULL, NULL)",
]


def looked_at(pair: Rig, table: str) -> TableFinding:
    with at_one_position(pair.pair, redis_store.connect(pair.redis_url), sessions=2) as view:
        return compare(view, TableName("public", table))


def test_damaged_rows_are_found_and_repaired_under_traffic(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        for statement in DAMAGE:
            pair.slave.run(statement)
        pair.master.execute("UPDATE public.items SET name = name || '!' WHERE id > 4500")
        found = {table: looked_at(pair, table) for table in ("items", "pairs", "log")}
        assert {str(kind): found["items"].found[kind].count for kind in Kind} == {
            "missing": 21, "extra": 2, "different": 3,
        }  # fmt: skip
        assert found["items"].columns == {"weight": 2, "name": 1}
        assert found["pairs"].found[Kind.DIFFERENT].count == 1
        assert found["log"].found[Kind.MISSING].count == 2 and found["log"].found[Kind.EXTRA].count == 2
        for finding in found.values():
            repair(pair.pair, redis_store.connect(pair.redis_url), finding)
        assert pair.differences() == {}
        assert {looked_at(pair, table).outcome for table in found} == {Outcome.IDENTICAL}


@pytest.mark.long
def test_a_slave_whose_apply_does_not_run_is_compared_where_it_stands(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.load()
    with pair.apply():
        pair.await_current()
    pair.master.execute("UPDATE public.items SET name = 'later', weight = 0.1, at = now() WHERE id < 50")
    pair.master.execute("DELETE FROM public.pairs WHERE b < 10")
    assert looked_at(pair, "items").outcome is Outcome.IDENTICAL
    assert looked_at(pair, "pairs").outcome is Outcome.IDENTICAL
    pair.slave.run("UPDATE items SET weight = 5 WHERE id = 3")
    assert looked_at(pair, "items").found[Kind.DIFFERENT].count == 1
