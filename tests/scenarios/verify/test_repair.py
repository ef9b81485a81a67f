"""Local changes of a slave are repaired through its apply, under traffic."""

from collections.abc import Callable

import pytest

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, TableResult, resync
from tests.rig.rig import Rig
from tests.scenarios.verify.test_compare import CHURN, FILL, T
from tests.scenarios.verify.verifying import Traffic, by_hand, counts, look


def fix(pair: Rig, table: str = "t", limit: int | None = 1_000) -> TableResult:
    name = TableName("public", table)
    store = redis_store.connect(pair.redis_url)
    return resync(pair.pair, store, name, CompareOptions(), Action.REPAIR, limit)


@pytest.mark.long
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
            result = fix(pair, limit=10_000)
            assert counts(result.finding) == {"missing": 2503, "extra": 3, "different": 21}
            assert result.repaired == 2527 and not result.refused
            assert result.outcome is Outcome.IDENTICAL
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.long
def test_rows_the_applications_change_all_the_time_are_mended_exactly(rig: Callable[..., Rig]) -> None:
    pair = rig(T, compare=False, safe=True)
    pair.master.execute(FILL.format(rows=200))
    with pair.apply():
        pair.await_current()
        change = "UPDATE public.t SET n = n + 1 WHERE id % 7 = {turn} % 7; SELECT 1"
        with Traffic(pair, change, rows=28, writers=1):
            for _ in range(5):
                by_hand(pair, "UPDATE public.t SET v = 'spoilt' WHERE id % 3 = 0")
                by_hand(pair, "DELETE FROM public.t WHERE id % 5 = 0")
                fix(pair)
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
        result = fix(pair, "k")
        assert counts(result.finding) == {"missing": 3, "extra": 3}
        assert result.repaired == 4, "distinct rows"
        assert result.outcome is Outcome.IDENTICAL
        assert pair.differences() == {}


@pytest.mark.long
def test_a_repair_that_would_rewrite_a_table_asks_and_touches_nothing(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    with pair.apply():
        pair.master.execute(FILL.format(rows=100))
        pair.await_current()
        pair.slave.execute("UPDATE public.t SET v = 'spoilt'")
        result = fix(pair, limit=99)
        assert "a repair would change 100 rows, and max_repair_rows is 99" in result.refused
        assert result.repaired == 0 and result.outcome is Outcome.DIFFERENT
        assert counts(look(pair, "t")) == {"different": 100}
        assert fix(pair, limit=None).outcome is Outcome.IDENTICAL


@pytest.mark.long
def test_unique_values_that_changed_places_are_fixed(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.u (id int PRIMARY KEY, v text UNIQUE)")
    with pair.apply():
        pair.master.execute("INSERT INTO public.u VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        pair.await_current()
        pair.slave.execute("DELETE FROM public.u; INSERT INTO public.u VALUES (1, 'b'), (2, 'a'), (4, 'c')")
        assert fix(pair, "u").outcome is Outcome.IDENTICAL


@pytest.mark.long
def test_a_repair_that_the_slave_does_not_take_says_why_and_the_apply_goes_on(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    with pair.apply():
        pair.master.execute(FILL.format(rows=10))
        pair.await_current()
        pair.slave.execute("DELETE FROM public.t WHERE id = 3")
        pair.slave.execute("ALTER TABLE public.t ADD CONSTRAINT c CHECK (id <> 3)")
        result = fix(pair)
        assert "repaired 0 of 1 row, the others not" in result.refused and 'check constraint "c"' in result.refused
        assert result.repaired == 0 and result.outcome is Outcome.DIFFERENT
        pair.master.execute("INSERT INTO public.t VALUES (11, 'x', 1)")
        pair.await_current()


@pytest.mark.long
def test_unique_values_that_changed_places_are_mended_however_many_requests_that_takes(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.verify.resync.ROWS_A_REQUEST", 2)
    pair = rig("CREATE TABLE public.u (id int PRIMARY KEY, v int UNIQUE, w text)")
    with pair.apply():
        pair.master.execute("INSERT INTO public.u SELECT i, i, 'w' FROM generate_series(1, 10) i")
        pair.await_current()
        pair.slave.execute("UPDATE public.u SET v = v + 100; UPDATE public.u SET v = 10 - (v - 100) WHERE id < 10")
        pair.slave.execute("DELETE FROM public.u WHERE id IN (3, 10); INSERT INTO public.u VALUES (20, 10, 'mine')")
        result = fix(pair, "u")
        assert result.outcome is Outcome.IDENTICAL, result.refused
        assert pair.differences() == {}


@pytest.mark.long
def test_keys_that_are_equal_and_shown_differently_are_fixed(rig: Callable[..., Rig]) -> None:
    pair = rig(
        "CREATE EXTENSION citext SCHEMA public; CREATE TABLE public.c (k public.citext PRIMARY KEY, n int);"
        "CREATE TABLE public.d (k numeric PRIMARY KEY, n int)"
    )
    with pair.apply():
        pair.master.execute("INSERT INTO public.c VALUES ('Ann', 1), ('Bob', 2)")
        pair.master.execute("INSERT INTO public.d VALUES (1.0, 1), (2.0, 2)")
        pair.await_current()
        pair.slave.execute("UPDATE public.c SET k = 'ANN', n = 7 WHERE n = 1; UPDATE public.d SET k = 2.00 WHERE n = 2")
        for table in ("c", "d"):
            result = fix(pair, table)
            assert counts(result.finding) == {"missing": 1, "extra": 1}
            assert result.outcome is Outcome.IDENTICAL, result.refused
        assert pair.differences() == {}


@pytest.mark.long
def test_wider_types_of_the_slave_are_fixed(rig: Callable[..., Rig]) -> None:
    tables = "CREATE TABLE public.w (id int PRIMARY KEY, n numeric(10,2)); CREATE TABLE public.k (n numeric(10,2))"
    pair = rig(tables)
    pair.slave.execute("ALTER TABLE public.w ALTER id TYPE numeric(12,2), ALTER n TYPE numeric(14,4)")
    pair.slave.execute("ALTER TABLE public.k ALTER n TYPE numeric(14,4)")
    with pair.apply():
        pair.master.execute("INSERT INTO public.w SELECT i, i FROM generate_series(1, 9) i")
        pair.master.execute("INSERT INTO public.k SELECT i % 3 FROM generate_series(1, 9) i")
        pair.await_current()
        pair.slave.execute("DELETE FROM public.w WHERE id = 3; UPDATE public.w SET n = 0.0001 WHERE id = 4")
        pair.slave.execute("INSERT INTO public.w VALUES (5.01, 1)")
        pair.slave.execute("DELETE FROM public.k WHERE n = 1; INSERT INTO public.k VALUES (2), (0.0001)")
        for table, found in (("w", {"missing": 1, "extra": 1, "different": 1}), ("k", {"missing": 3, "extra": 2})):
            result = fix(pair, table)
            assert counts(result.finding) == found
            assert result.outcome is Outcome.IDENTICAL, result.refused
    same = "SELECT (SELECT count(*) FROM public.w WHERE id = n), (SELECT sum(n) FROM public.k)"
    row = pair.slave.execute(same).fetchone()
    assert row is not None and tuple(map(int, row)) == (9, 9)


OWN = """
CREATE TABLE public.p (id int PRIMARY KEY, v text UNIQUE);
CREATE TABLE public.c (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, p int REFERENCES public.p DEFERRABLE,
    n int, twice int GENERATED ALWAYS AS (n * 2) STORED, also int GENERATED ALWAYS AS IDENTITY,
    UNIQUE (n) DEFERRABLE INITIALLY DEFERRED, CHECK (n > 0));
"""


@pytest.mark.long
@pytest.mark.parametrize("slave_role", [False, True], ids=["quiet", "triggers and foreign keys act"])
def test_tables_with_keys_of_every_kind_and_triggers_are_fixed(rig: Callable[..., Rig], slave_role: bool) -> None:
    tables = OWN.replace(", also int GENERATED ALWAYS AS IDENTITY", "") if slave_role else OWN
    pair = rig(tables, slave_role=slave_role)
    pair.master.execute("INSERT INTO public.p SELECT i, 'v' || i FROM generate_series(1, 9) i")
    pair.master.execute("INSERT INTO public.c (p, n) SELECT i, i FROM generate_series(1, 9) i")
    with pair.apply():
        pair.await_current()
        pair.slave.execute("""
            CREATE FUNCTION public.fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO public.fires VALUES (TG_OP); RETURN NULL; END $$;
            CREATE TABLE public.fires (op text);
            CREATE TRIGGER fired AFTER INSERT OR UPDATE OR DELETE ON public.c
            FOR EACH ROW EXECUTE FUNCTION public.fired();
            DELETE FROM public.c WHERE id IN (2, 3); DELETE FROM public.p WHERE id = 2;
            INSERT INTO public.p VALUES (50, 'mine'); INSERT INTO public.c (id, p, n)
            OVERRIDING SYSTEM VALUE VALUES (99, 50, 70);
            UPDATE public.c SET n = 9 - n + 5 WHERE id IN (5, 9);
            UPDATE public.p SET v = 'x' WHERE id = 7; TRUNCATE public.fires""")
        if slave_role:
            # Rows wait for those of the other table, which are fixed all the same.
            first = fix(pair, "p")
            assert "0 of" not in first.refused and "foreign key" in first.refused
            assert counts(look(pair, "p")) == {"extra": 1}
        else:
            pair.slave.execute("UPDATE public.p SET v = 'v7' WHERE id = 6; UPDATE public.p SET v = 'v6' WHERE id = 7")
        for table in ("c", "p"):
            result = fix(pair, table)
            assert result.outcome is Outcome.IDENTICAL, result.refused
        fired = pair.slave.execute("SELECT count(*) FROM public.fires").fetchone()
        assert fired is not None and bool(fired[0]) == slave_role
        assert set(pair.differences()) <= {"public.fires"}
