"""Rows that a change of a definition rewrote: their values arrive, and what comes before them is no conflict."""

from collections.abc import Callable

import pytest

from sluice.vendors.postgres.connection import connect
from tests.rig.rig import Rig
from tests.scenarios.apply.test_odd_definitions import comparing

TABLES = "CREATE TABLE public.m (id int PRIMARY KEY, n int NOT NULL, q int, note text)"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("told", [True, False], ids=["triggers", "comparison"])
@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE public.m ADD c int DEFAULT 7", "ALTER TABLE public.m ALTER q TYPE bigint"),
        (
            "ALTER TABLE public.m ADD c int NOT NULL DEFAULT 7",
            "ALTER TABLE public.m ALTER note TYPE date USING '2024-02-29'",
        ),
        ("ALTER TABLE public.m ALTER note TYPE int USING length(note)", "ALTER TABLE public.m ALTER note SET NOT NULL"),
        ("ALTER TABLE public.m ADD c uuid NOT NULL DEFAULT gen_random_uuid()",),
        (
            "ALTER TABLE public.m ADD c smallint NOT NULL DEFAULT 7",
            "ALTER TABLE public.m ALTER c DROP DEFAULT, ALTER c TYPE bigint",
            "INSERT INTO public.m (id, n, c) VALUES (100, 1, 9000000000)",
        ),
    ],
)
def test_a_writer_that_comes_before_the_comparison_conflicts_with_nothing(
    rig: Callable[..., Rig], statements: tuple[str, ...], told: bool
) -> None:
    pair = rig(TABLES)
    if not told:
        comparing(pair)
    pair.master.execute("INSERT INTO public.m SELECT g, g, g, 'note' FROM generate_series(1, 50) g")
    with pair.apply() as running:
        pair.await_normal_mode(running)
        with pair.master.transaction():
            for statement in statements:
                pair.master.execute(statement.encode())
        with connect(pair.master_info, application="writer") as other:
            # Its transaction does not end: the comparison of definitions cannot hold off the table's writers.
            other.execute("UPDATE public.m SET n = n + 1 WHERE id = 1")
            pair.master.execute("UPDATE public.m SET n = n + 1 WHERE id IN (2, 4)")
            pair.master.execute("DELETE FROM public.m WHERE id = 3")
            pair.await_current()
            other.commit()
        pair.master.execute("UPDATE public.m SET n = n + 1 WHERE id = 5")
        pair.master.execute("SELECT public.demo_check_structure()")
        pair.await_current()
        pair.assert_equal()
        assert not pair.checkpoint.tables.not_ready


@pytest.mark.releases
@pytest.mark.parametrize("told", [True, pytest.param(False, marks=pytest.mark.long)], ids=["triggers", "comparison"])
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE public.k ADD id bigserial PRIMARY KEY",
        "ALTER TABLE public.m DROP CONSTRAINT m_pkey, ADD u uuid DEFAULT gen_random_uuid() PRIMARY KEY",
        "ALTER TABLE public.m DROP COLUMN id, ADD u int GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    ],
)
def test_a_new_key_with_a_value_of_its_own_in_each_row_follows(
    rig: Callable[..., Rig], statement: str, told: bool
) -> None:
    pair = rig(f"{TABLES}; CREATE TABLE public.k (a int, b text)")
    if not told:
        comparing(pair)
    pair.master.execute("INSERT INTO public.m SELECT g, g, g, 'note' FROM generate_series(1, 50) g")
    pair.master.execute("INSERT INTO public.k SELECT g % 3, 'b' FROM generate_series(1, 50) g")
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.master.execute(statement.encode())
        pair.master.execute("UPDATE public.k SET b = 'c' WHERE a = 1; DELETE FROM public.k WHERE a = 2")
        pair.master.execute("UPDATE public.m SET n = n + 1 WHERE n < 9; DELETE FROM public.m WHERE n > 40")
        pair.master.execute("INSERT INTO public.k (a, b) VALUES (7, 'd')")
        pair.await_current()
        pair.master.execute("UPDATE public.m SET n = n + 1 WHERE n < 9")
        pair.master.execute("SELECT public.demo_check_structure()")
        pair.await_current()
        assert not pair.checkpoint.tables.not_ready, pair.checkpoint.tables
        pair.assert_equal()
