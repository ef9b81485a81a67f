"""What others did to a slave is mended through its apply, under traffic."""

from collections.abc import Callable

from sluice.domain.names import TableName
from sluice.stores import redis_store
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, TableResult, resync
from tests.scenarios.apply.rig import Rig
from tests.scenarios.verify.test_compare import CHURN, FILL, T
from tests.scenarios.verify.verifying import Traffic, counts, look


def mend(pair: Rig, table: str = "t", limit: int | None = 1_000) -> TableResult:
    name = TableName("public", table)
    store = redis_store.connect(pair.redis_url)
    return resync(pair.pair, store, name, frozenset("IUD"), Action.REPAIR, limit)


def test_rows_are_mended_under_traffic_in_blocks_between_them_and_at_both_ends(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    pair.master.execute(FILL.format(rows=20_000))
    with pair.apply():
        pair.await_current()
        pair.master.execute("ANALYZE public.t")
        with Traffic(pair, CHURN, rows=100):
            pair.slave.execute("UPDATE public.t SET v = NULL, n = -1 WHERE id BETWEEN 1990 AND 2010")
            pair.slave.execute("DELETE FROM public.t WHERE id IN (1, 20000) OR id BETWEEN 5000 AND 7500")
            pair.slave.execute("INSERT INTO public.t VALUES (0, 'mine', 1), (900000, 'mine', 1), (-5, 'mine', 1)")
            result = mend(pair, limit=10_000)
            assert counts(result.finding) == {"missing": 2503, "extra": 3, "different": 21}
            assert result.repaired == 2527 and not result.refused
            assert result.outcome is Outcome.IDENTICAL
        pair.await_current()
        assert pair.differences() == {}


def test_rows_the_applications_change_all_the_time_are_mended_exactly(rig: Callable[..., Rig]) -> None:
    pair = rig(T, compare=False, safe=True)
    pair.master.execute(FILL.format(rows=200))
    with pair.apply():
        pair.await_current()
        change = "UPDATE public.t SET n = n + 1 WHERE id % 7 = {turn} % 7; SELECT 1"
        with Traffic(pair, change, rows=28, writers=1):
            for _ in range(5):
                pair.slave.execute("UPDATE public.t SET v = 'spoilt' WHERE id % 3 = 0")
                pair.slave.execute("DELETE FROM public.t WHERE id % 5 = 0")
                mend(pair)
        pair.await_current()
        assert pair.differences() == {} and look(pair, "t").outcome is Outcome.IDENTICAL


def test_a_table_without_a_key_gets_the_copies_it_lacks_and_loses_those_too_many(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.k (v text, n int, d date)")
    pair.master.execute(
        "INSERT INTO public.k SELECT 'v' || i % 100, NULL, '2020-01-01' FROM generate_series(1, 5000) i"
    )
    with pair.apply():
        pair.await_current()
        pair.slave.execute("INSERT INTO public.k VALUES ('v1', NULL, '2020-01-01'), (NULL, NULL, NULL)")
        pair.slave.execute("INSERT INTO public.k VALUES (%s, 3, NULL)", ['a,"{}\\ NULL'])
        pair.slave.execute("DELETE FROM public.k WHERE ctid IN (SELECT ctid FROM public.k WHERE v = 'v7' LIMIT 3)")
        result = mend(pair, "k")
        assert counts(result.finding) == {"missing": 3, "extra": 3}
        assert result.repaired == 4, "distinct rows"
        assert result.outcome is Outcome.IDENTICAL
        assert pair.differences() == {}


def test_a_repair_that_would_rewrite_a_table_asks_and_touches_nothing(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    with pair.apply():
        pair.master.execute(FILL.format(rows=100))
        pair.await_current()
        pair.slave.execute("UPDATE public.t SET v = 'spoilt'")
        result = mend(pair, limit=99)
        assert "100 rows would have to be repaired, and max_repair_rows is 99" in result.refused
        assert result.repaired == 0 and result.outcome is Outcome.DIFFERENT
        assert counts(look(pair, "t")) == {"different": 100}
        assert mend(pair, limit=None).outcome is Outcome.IDENTICAL


def test_unique_values_that_changed_places_are_mended(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.u (id int PRIMARY KEY, v text UNIQUE)")
    with pair.apply():
        pair.master.execute("INSERT INTO public.u VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        pair.await_current()
        pair.slave.execute("DELETE FROM public.u; INSERT INTO public.u VALUES (1, 'b'), (2, 'a'), (4, 'c')")
        assert mend(pair, "u").outcome is Outcome.IDENTICAL


def test_a_repair_that_the_slave_does_not_take_says_why_and_the_apply_goes_on(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    with pair.apply():
        pair.master.execute(FILL.format(rows=10))
        pair.await_current()
        pair.slave.execute("DELETE FROM public.t WHERE id = 3")
        pair.slave.execute("ALTER TABLE public.t ADD CONSTRAINT c CHECK (id <> 3)")
        result = mend(pair)
        assert "was not repaired" in result.refused and result.outcome is Outcome.DIFFERENT
        pair.master.execute("INSERT INTO public.t VALUES (11, 'x', 1)")
        pair.await_current()
