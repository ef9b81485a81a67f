"""Filtered and mapped tables from the first load on: loaded, applied, compared, repaired, loaded again."""

import pytest

from sluice.load import steps
from sluice.model.compatibility import TablesDiffer
from sluice.model.issue import Severity
from sluice.model.names import TableName
from sluice.preflight import checks
from sluice.vendors.postgres import catalog
from tests.rig.rig import Rig
from tests.scenarios.transform.conftest import MakeShop
from tests.scenarios.transform.people import PEOPLE, TABLES, Writers, assert_transformed


def columns_of(shop: Rig, table: str) -> list[tuple[str, str]]:
    shape = catalog.shape(shop.slave, TableName("public", table))
    assert shape is not None
    return [(column.name, column.type) for column in shape.columns]


def test_a_table_is_made_loaded_and_followed_as_the_configuration_says(shop: MakeShop) -> None:
    here = shop(PEOPLE, TABLES)
    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        assert columns_of(here, "people") == [
            ("id", "bigint"), ("full name", "text"), ("country", "character(2)"), ("born", "date"),
            ("salary", "numeric(10,2)"), ("notes", "jsonb"), ("origin", "text"), ("year", "integer"),
        ]  # fmt: skip
        assert_transformed(here)
        done = steps.finish(update)
        left_out = dict(done.left_out)
        assert any("by_salary" in what for what in left_out)
        assert any("by_name" in what for what in left_out)
        assert any("mail" in what for what in left_out)
        assert any("orders_person_fkey" in what and "leaves out rows" in why for what, why in left_out.items())
        # The apply may have made it before `finish` came to it.
        assert here.slave.execute("SELECT to_regclass('public.by_country') IS NOT NULL").fetchone() == (True,)
        here.await_normal_mode(running)
        for statement in (
            "UPDATE public.people SET country = 'CH' WHERE id IN (1, 4)",  # in
            "UPDATE public.people SET country = 'DE' WHERE id IN (3, 6)",  # out
            "UPDATE public.people SET mail = 'other' || id WHERE id = 9",  # nothing of the slave
            "UPDATE public.people SET \"Name\" = 'neu', born = NULL WHERE id IN (9, 10)",
            "DELETE FROM public.orders WHERE person IN (12, 13); DELETE FROM public.people WHERE id IN (12, 13)",
            "INSERT INTO public.people (\"Name\", country) VALUES ('in', 'CH'), ('out', 'DE')",
            "UPDATE public.plain SET v = v || '!' WHERE id < 10",
            "UPDATE public.people SET country = CASE country WHEN 'CH' THEN 'DE' ELSE 'CH' END WHERE id > 100",
            "BEGIN; UPDATE public.people SET country = 'CH' WHERE id = 2; "
            "UPDATE public.people SET country = 'DE' WHERE id = 2; "
            "UPDATE public.people SET country = 'CH', \"Name\" = 'twice' WHERE id = 2; COMMIT",
        ):
            here.master.execute(statement.encode())
            here.await_current()
            assert_transformed(here)
        here.master.execute("TRUNCATE public.people CASCADE")
        here.await_current()
        assert_transformed(here)


@pytest.mark.long
def test_traffic_while_blocks_load(shop: MakeShop) -> None:
    here = shop(PEOPLE, TABLES, block_rows=20, seconds=0.01)
    here.prepare(update := here.update())
    changing = [
        "UPDATE public.people SET country = CASE country WHEN 'CH' THEN 'DE' ELSE 'CH' END "
        "WHERE id = 1 + (random() * 400)::int",
        "INSERT INTO public.people (\"Name\", country, salary) VALUES ('new', 'CH', 1 + random() * 500)",
        "DELETE FROM public.people WHERE id = 101 + (random() * 300)::int",
    ]
    with here.apply(), Writers(here, changing):
        here.load_to_normal(update)
    with here.apply():
        here.await_current()
    assert_transformed(here)


def test_mistakes_are_reported_before_anything_is_changed(shop: MakeShop) -> None:
    wrong = {"where": "contry = 'CH'", "columns": {"id": {"exclude": "true"}, "nmae": {"rename": "x"}}}
    here = shop(PEOPLE, {"public.people": wrong})
    here.capture()
    issues = checks.of_slave(here.slave, here.replication, here.pair.slave, master=here.master)
    assert any("did you mean country?" in issue.why and issue.severity is Severity.ERROR for issue in issues)
    update = here.update()
    steps.begin(update, here.store)
    with pytest.raises(TablesDiffer) as raised:
        steps.create_tables(update)
    assert "did you mean country?" in str(raised.value)
