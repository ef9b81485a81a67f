"""Several sessions read one table at the same position, and their findings add up."""

from collections.abc import Callable

import pytest

from sluice.verify.findings import Kind, Outcome
from tests.rig.rig import Rig
from tests.scenarios.verify.test_compare import CHURN, FILL, T
from tests.scenarios.verify.verifying import Traffic, counts, look

TABLES = f"""{T};
CREATE TABLE public.k (v text, n int);
CREATE TABLE public.p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (1000);
CREATE TABLE public.p2 PARTITION OF public.p DEFAULT"""


@pytest.mark.long
@pytest.mark.parametrize("sessions", [pytest.param(2, marks=pytest.mark.long), 5])
def test_parts_of_a_table_are_read_by_several_sessions_at_one_position(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch, sessions: int
) -> None:
    monkeypatch.setattr("sluice.vendors.postgres.digest.PAGES_A_PART", 7)
    pair = rig(TABLES)
    pair.master.execute(FILL.format(rows=20_000))
    pair.master.execute("INSERT INTO public.k SELECT 'v' || i % 50, NULL FROM generate_series(1, 9000) i")
    pair.master.execute("INSERT INTO public.p SELECT i, 'v' FROM generate_series(1, 3000) i")
    with pair.apply():
        pair.await_current()
        pair.master.execute("ANALYZE public.t")
        with Traffic(pair, CHURN, rows=100):
            for _ in range(3):
                finding = look(pair, "t", sessions=sessions)
                assert finding.outcome is Outcome.IDENTICAL
                assert finding.rows_master == finding.rows_slave > 15_000
            pair.slave.execute("UPDATE public.t SET v = 'spoilt' WHERE id % 4000 = 1 AND id < 20001")
            pair.slave.execute("DELETE FROM public.t WHERE id = 500; INSERT INTO public.t VALUES (0, 'mine', 1)")
            finding = look(pair, "t", sessions=sessions)
        assert counts(finding) == {"missing": 1, "extra": 1, "different": 5}
        assert {key for (key,) in finding.found[Kind.DIFFERENT].keys} == {"1", "4001", "8001", "12001", "16001"}
        pair.slave.execute("DELETE FROM public.k WHERE ctid IN (SELECT ctid FROM public.k WHERE v = 'v7' LIMIT 3)")
        assert counts(look(pair, "k", sessions=sessions)) == {"missing": 3}
        pair.slave.execute("DELETE FROM public.p WHERE id IN (5, 2000)")
        assert counts(look(pair, "p", sessions=sessions)) == {"missing": 2}
