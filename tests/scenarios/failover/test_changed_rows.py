"""What changed after the slave was compared is compared again before the slave is the master."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from sluice.airflow.purging import Purge
from sluice.airflow.steps_failover import failover_of
from sluice.failover import changed_rows
from sluice.model.checkpoint import IsMaster
from sluice.model.failover import Phase
from sluice.model.slave_state import SlaveState
from tests.errors import raises_code
from tests.scenarios.failover.shop import ODD, PLANNED, Shop

BEFORE = PLANNED[1:4]
CHANGES = f'''
UPDATE public.orders SET total = total + 1000 WHERE id IN (7, 8);
UPDATE {ODD}."Select" SET "Key ""1""" = 1000 WHERE "Key ""1""" = 3;
DELETE FROM public.slots WHERE id = 2;
INSERT INTO public.visits VALUES (500, '2026-05-02', 'new');
'''
ROWS = 6
"""Keys that these changes name."""
FAULTS = f'''
UPDATE public.orders SET total = 4711 WHERE id = 7;
DELETE FROM {ODD}."Select" WHERE "Key ""1""" = 1000;
INSERT INTO public.slots VALUES (2, '[900,901)');
UPDATE public.visits SET v = 'other' WHERE id = 500;
'''
FOUND = (
    r"Select\": 1 row missing, as .*'1000'.*public\.orders: 1 row different, as \{'id': '7'\}; "
    r"public\.slots: 1 row extra, as \{'id': '2'\}; public\.visits: 1 row different, as .*'2026-05-02'"
)


def change(shop: Shop) -> None:
    shop.master.execute(CHANGES.encode())
    shop.await_current()


@pytest.mark.parametrize("refusing", [False, pytest.param(True, marks=pytest.mark.long)])
def test_rows_that_differ_since_the_comparison_keep_the_slave_from_taking_over(
    shop_of: Callable[..., Shop], refusing: bool
) -> None:
    shop = shop_of()
    with shop.applying():
        shop.run("planned", BEFORE)
        change(shop)
        shop.slave.execute(FAULTS.encode())
        if refusing:  # what changes as late as that is compared by the last part of the task alone
            shop.run("planned", ["guard", "reach", "end_apply"])
        with raises_code("failover-failed" if refusing else "slave-differs", match=FOUND):
            shop.run("planned", ["switch_over"])
        if not refusing:
            shop.run("abort", ["abort"], run="abort")
        assert shop.record.phase is Phase.ABORTED and shop.checkpoint.state is SlaveState.NORMAL
        shop.master.execute(b"UPDATE public.orders SET total = 1 WHERE id = 9")
        shop.await_current()


@pytest.mark.long
def test_a_row_that_changes_while_it_is_compared_is_no_fault(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with shop.applying():
        shop.run("planned", BEFORE)
        change(shop)
    target = shop.checkpoint.position
    assert target is not None
    # The slave has none of this yet.
    shop.master.execute(
        b"UPDATE public.orders SET total = 3 WHERE id = 7; INSERT INTO public.slots VALUES (2, '[1,2)')"
    )
    shop.master.execute(b"TRUNCATE public.visits")
    shop.slave.execute(b"UPDATE public.orders SET total = 4711 WHERE id = 8")
    result = changed_rows.compare_meanwhile(failover_of(shop.work("planned")), target)
    assert result is not None and result.wrong_in_words() == ["public.orders: 1 row different, as {'id': '8'}"]
    shop.slave.execute(b"UPDATE public.orders SET total = total - 4711 + 1008 WHERE id = 8")
    result = changed_rows.compare_meanwhile(failover_of(shop.work("planned")), target)
    assert result is not None and result.wrong_in_words() == []
    assert shop.record.compared == target.text()


@pytest.mark.long
def test_what_cannot_be_compared_is_told_and_no_purge_takes_the_names_of_rows(
    shop_of: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of(more="CREATE TABLE public.lines (v text);")
    with suppress(IsMaster), shop.applying():
        shop.run("planned", BEFORE)
        change(shop)
        Purge.of(shop.work("check"), shop.sessions["m"]).run()
        said = shop.run("planned", PLANNED[4:8])["compare_changed"]
        assert said == f"changed since the comparison, and equal: {ROWS} rows"
        shop.run("abort", ["abort"], run="abort")

        shop.run("planned", BEFORE, run="run 2")
        shop.master.execute(
            b"UPDATE public.orders SET total = 1 WHERE id IN (7, 8); INSERT INTO public.lines VALUES ('x');"
            b"TRUNCATE public.visits"
        )
        shop.await_current()
        monkeypatch.setattr(changed_rows, "SECONDS", 0.0)
        said = shop.run("planned", PLANNED[4:8], run="run 2")["compare_changed"]
        assert "equal: 0 rows; not compared: " in said and "2 rows of public.orders (after 0 s)" in said, said
        assert "public.lines (it has no key)" in said and "public.visits (TRUNCATE)" in said, said
