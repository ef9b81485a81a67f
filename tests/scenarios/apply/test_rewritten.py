"""Rows that a change of a definition rewrote: their values arrive, and what comes before them is no conflict."""

from collections.abc import Callable

import pytest

from sluice.vendors.postgres.connection import connect
from tests.rig.rig import Rig

TABLES = "CREATE TABLE public.m (id int PRIMARY KEY, n int NOT NULL, q int, note text)"


@pytest.mark.one_in(4)
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
    ],
)
def test_a_writer_that_comes_before_the_comparison_conflicts_with_nothing(
    rig: Callable[..., Rig], statements: tuple[str, ...]
) -> None:
    pair = rig(TABLES)
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
