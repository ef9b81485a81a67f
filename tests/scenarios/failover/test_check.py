"""The action `check`: what it lists, and that it changes nothing."""

from collections.abc import Callable

import pytest

from sluice.airflow.steps_failover import brief, check
from sluice.airflow.steps_housekeeping import keep_definitions
from sluice.coordination.gate import ERROR, Gate
from sluice.feed.change_read import begun
from sluice.feed.master import Master
from tests.scenarios.failover.shop import ODD, Shop


@pytest.mark.long
def test_it_lists_readiness_and_every_difference_with_its_remedy(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with shop.applying():
        shop.await_current()
        lake = Master.of(shop.replication, shop.infos["m"])
        with lake.session() as session:
            begun(lake, session, "lake", "public.orders")
        text = check.body(shop.work("check"))
    print(text)
    for line in (
        "planned: possible",
        "forced: not possible",
        "state: NORMAL",
        "apply: runs",
        "rejects: 0 open",
        "verified: never",
        "feed lake: its position stays with the former master",
        "tables that are not replicated, and stay behind: public.left_behind",
        'foreign key to the "order" of',
        'CREATE TRIGGER "Stamp it" BEFORE INSERT OR UPDATE ON public.customers',
        "CREATE OR REPLACE FUNCTION public.stamp()",
        "ALTER TABLE public.slots ENABLE ROW LEVEL SECURITY;",
        "GRANT INSERT, SELECT ON TABLE public.orders TO PUBLIC;",
        f'CREATE SEQUENCE {ODD}."Invoice No"',
        "view big_orders in public: is missing",
        'partitioning of public.visits: is missing: RANGE ("Day"): public."Visits of ""May""" FOR VALUES FROM (',
        "ALTER TABLE public.customers ALTER COLUMN id SET GENERATED ALWAYS;",
        "exclusion constraint slots_during_excl of public.slots: differs",
    ):
        assert line in text, line
    asked = brief(text)
    assert "planned: possible" in asked and "state: NORMAL" in asked
    assert any(line.startswith("function: 2; a person makes them") for line in asked)
    assert not any("CREATE" in line or "GRANT" in line or "RETURNS" in line for line in asked)
    assert "primary key" not in text and "default " not in text, "what the load brought does not differ"


@pytest.mark.long
def test_obstacles_of_a_failover_are_named(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of(lines="\n  public.orders: {target: {schema: archive, name: select}}")
    Gate(shop.store, shop.replication.prefix, "dr1").close(ERROR, "apply", "a row differs")
    text = check.body(shop.work("check"))
    assert "The slave has tables under other names (target): the application would not find them there." in text
    assert "table public.orders" not in text, "it is there, under its other name"
    assert "planned: not possible" in text
    assert "No apply runs for the slave: trigger cdc_apply." in text
    assert "The slave's gate is closed: error (apply, " in text


@pytest.mark.long
def test_definitions_are_kept_for_when_the_master_is_gone(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    assert keep_definitions.body(shop.work("check")) == "kept on dr1"
    shop.lose("m")
    text = check.body(shop.work("check"))
    assert "The master does not answer:" in text
    assert "forced: possible" in text
    assert "definitions (kept on the slave, read from the master at " in text
    assert "trigger Stamp it of public.customers: is missing" in text
