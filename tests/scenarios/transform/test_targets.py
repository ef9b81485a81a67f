"""Tables that a slave has in other schemas and under other names: loaded, followed, compared, fixed."""

import random
from pathlib import Path
from typing import Any

import pytest

from sluice.cli import status
from sluice.load import steps
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.model.compatibility import TablesDiffer
from sluice.model.location import S3Access
from sluice.model.names import TableName
from sluice.preflight import checks
from sluice.vendors.postgres import catalog
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, resync
from tests.rig.rig import Rig
from tests.scenarios.initial_files.carrying import exported, location, moved
from tests.scenarios.initial_load.test_parts_alone import HEAP, ORDERS, PARENTS, act, load_at_random
from tests.scenarios.transform.conftest import MakeShop

ODD = 'Shop "x"'
SHOP = """
CREATE SCHEMA sales;
CREATE TYPE public.mood AS ENUM ('sad', 'fine');
CREATE TABLE public.people (id bigserial PRIMARY KEY, name text UNIQUE, mood public.mood, age int CHECK (age >= 0));
CREATE INDEX by_mood ON public.people (mood);
COMMENT ON TABLE public.people IS 'all of them';
CREATE TABLE sales.orders (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, person bigint REFERENCES public.people, total numeric);
CREATE TABLE sales."Log; --" (line text, n int);
CREATE TABLE public.plain (id int PRIMARY KEY, person bigint REFERENCES public.people);
INSERT INTO public.people (name, mood, age) SELECT E'n"]]>\\n' || g, 'fine', g FROM generate_series(1, 300) g;
INSERT INTO sales.orders (person, total) SELECT g, g / 3.0 FROM generate_series(1, 200) g;
INSERT INTO sales."Log; --" SELECT NULLIF('l' || g % 5, 'l0'), g FROM generate_series(1, 50) g;
INSERT INTO public.plain SELECT g, g FROM generate_series(1, 60) g;
"""
TABLES = {
    "public.*": {},
    "public.people": {"target": {"schema": ODD, "name": "select"}},
    "sales.*": {"target": {"schema": "archive"}},
}
SELECT = '"Shop ""x""".select'
PEOPLE, PLAIN, FOLK = (TableName("public", name) for name in ("people", "plain", "folk"))
PLACES = {
    PEOPLE: TableName(ODD, "select"),
    TableName("sales", "orders"): TableName("archive", "orders"),
    TableName("sales", "Log; --"): TableName("archive", "Log; --"),
    PLAIN: PLAIN,
}
CHANGES = (
    "UPDATE public.people SET age = age + 1, mood = 'sad' WHERE id % 7 = 0",
    "UPDATE public.people SET id = id + 5000 WHERE id > 290",
    "BEGIN; UPDATE public.people SET name = 'x' WHERE id = 1; UPDATE public.people SET name = E'n\"]]>\\n1' "
    "WHERE id = 2; UPDATE public.people SET name = E'n\"]]>\\n2' WHERE id = 1; COMMIT",
    'INSERT INTO sales.orders (person, total) VALUES (3, NULL); UPDATE sales."Log; --" SET n = -n WHERE n < 9',
    "DELETE FROM public.plain WHERE id > 40; INSERT INTO public.people (name) VALUES ('new')",
    "TRUNCATE sales.orders; INSERT INTO sales.orders (person) VALUES (8)",
)


def assert_there(shop: Rig, places: dict[TableName, TableName] = PLACES) -> None:
    for table, there in places.items():
        assert shop.rows(shop.slave, there) == shop.rows(shop.master, table), str(there)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"stage": 3}, marks=pytest.mark.long, id="staged"),
        pytest.param({"slave_options": {"on_conflict": "overwrite"}}, marks=pytest.mark.long, id="overwrite"),
        pytest.param({"slave_options": {"safe_mode": True}}, marks=pytest.mark.long, id="safe mode"),
        pytest.param({"role": True}, marks=pytest.mark.long, id="accounts of no rights"),
    ],
)
def test_loaded_followed_compared_and_mended_under_other_names(shop: MakeShop, options: dict[str, Any]) -> None:
    here = shop(SHOP, TABLES, block_rows=70, **options)
    # A table of the slave's own under the master's name stays as it is.
    here.slave.execute("CREATE TABLE public.people (mine int); INSERT INTO public.people VALUES (1)")
    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        assert not steps.finish(update).left_out
        indexes = here.slave.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'select'").fetchall()
        assert {("people_name_key",), ("by_mood",)} <= set(indexes), "made by the load, or before it by the apply"
        assert_there(here)
        names = f"public.people is {SELECT}, sales.* is archive.*"
        infos = {"m": here.master_info, "s": here.slave_info}
        told = status.slave(here.replication, "dr1", lambda conn_id, _: infos[conn_id], here.redis_url)
        assert told[0].startswith("DEMO_ → dr1: NORMAL") and f"    names of tables on the slave: {names}" in told
        if "slave_options" not in options:  # under which all is overwritten
            here.await_normal_mode(running)
        for statement in CHANGES:
            here.master.execute(statement)
            here.await_current()
            assert_there(here)
        for statement in (
            "ALTER TABLE public.people ADD COLUMN more int DEFAULT 7, DROP COLUMN age; "
            "UPDATE public.people SET more = id WHERE id < 50",
            "CREATE TABLE sales.fresh (id int PRIMARY KEY, person bigint REFERENCES public.people); "
            "INSERT INTO sales.fresh VALUES (1, 3)",
            "ALTER TYPE public.mood ADD VALUE 'glad'",
            "INSERT INTO public.people (name, mood) VALUES ('g', 'glad')",
        ):
            here.master.execute(statement.encode())
            here.await_current()
        here.capture()
        fresh = here.update(tables=["sales.fresh"])
        here.prepare(fresh)
        here.load_to_normal(fresh)
        steps.finish(fresh)
        places = {**PLACES, TableName("sales", "fresh"): TableName("archive", "fresh")}
        assert_there(here, places)
        assert foreign_keys(here) == [(child, SELECT) for child in ("archive.fresh", "archive.orders", "public.plain")]
        here.slave.execute(f"UPDATE {SELECT} SET more = -1 WHERE id < 4".encode())
        found = resync(here.pair, here.store, PEOPLE, CompareOptions(), Action.REPAIR, 1_000)
        assert (found.repaired, found.outcome) == (3, Outcome.IDENTICAL), found.finding
        assert found.finding.place == '"Shop ""x""".select'
        here.await_current()
        assert_there(here, places)
        if "role" in options:  # without event triggers a new name shows by the next reconciling alone
            return
        for before, after in (("sales.fresh", "newer"), ("public.people", "folk")):
            here.master.execute(f"ALTER TABLE {before} RENAME TO {after}".encode())
            here.await_current()
        del places[PEOPLE], places[TableName("sales", "fresh")]
        places |= {TableName("sales", "newer"): TableName("archive", "newer"), FOLK: FOLK}
        assert_there(here, places)
        here.master.execute("DROP TABLE sales.newer; INSERT INTO public.folk (name) VALUES ('last')")
        here.await_current()
        del places[TableName("sales", "newer")]
        assert_there(here, places)
        assert catalog.shape(here.slave, TableName("archive", "newer")) is None
    assert here.slave.execute("SELECT * FROM public.people").fetchall() == [(1,)]


ALONE = TableName("public", "alone")
ALONE_TOO = (
    "CREATE TABLE public.alone (id int PRIMARY KEY, n int);"
    "INSERT INTO public.alone SELECT g, g FROM generate_series(1, 9) g"
)


@pytest.mark.long
def test_conflicts_name_both_tables_and_no_place_is_used_twice(shop: MakeShop) -> None:
    lines = {**TABLES, "public.alone": {"target": {"name": "taken"}, "on_error": "isolate"}}
    here = shop(SHOP + ALONE_TOO, lines, slave_options={"on_drop": "keep"})
    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        here.await_normal_mode(running)
        here.slave.execute("UPDATE public.taken SET n = 9 WHERE id = 3")
        here.master.execute("UPDATE public.alone SET n = 4 WHERE id = 3; UPDATE public.people SET age = 1")
        here.await_that(lambda: ALONE in here.checkpoint.tables)
        reason = here.checkpoint.tables.explain(ALONE)
        assert "public.alone (public.taken on the slave), row id = '3': UPDATE expected" in reason, reason
        again = here.update(tables=["public.alone"])
        here.prepare(again)
        here.load_to_normal(again)
        here.master.execute("CREATE TABLE public.taken (id int PRIMARY KEY)")
        here.capture()
        here.master.execute("INSERT INTO public.taken VALUES (1); UPDATE public.alone SET n = 5 WHERE id = 3")
        here.await_current()
        taken = TableName("public", "taken")
        assert here.checkpoint.tables.explain(taken) == "inconsistent: public.alone has its place on the slave (target)"
        assert_there(here, {**PLACES, ALONE: taken})
        loading = here.update(tables=["public.taken"])
        with pytest.raises(TablesDiffer, match=r"public.taken has no place on the slave: public.alone has its target"):
            here.prepare(loading)
        issues = checks.of_slave(here.slave, here.replication, here.pair.slave, master=here.master)
        assert any("public.taken would be public.alone's table there" in issue.why for issue in issues)
        here.master.execute("DROP TABLE public.alone; UPDATE public.people SET age = 2")
        here.await_current()
    assert_there(here, {PEOPLE: PLACES[PEOPLE]})
    assert here.rows(here.slave, taken)


@pytest.mark.long
def test_a_table_gets_a_name_whose_place_on_the_slave_is_that_of_another_one(shop: MakeShop) -> None:
    moves = ALONE_TOO.replace("alone", "t")
    here = shop(f"{moves}; {ALONE_TOO}", {"public.*": {}, "public.alone": {"target": {"name": "taken"}}})
    here.prepare(update := here.update())
    with here.apply():
        here.load_to_normal(update)
        here.master.execute("ALTER TABLE public.t RENAME TO taken")
        here.master.execute("UPDATE public.taken SET n = 0; UPDATE public.alone SET n = 7")
        here.await_current()
        taken = TableName("public", "taken")
        assert here.checkpoint.tables.explain(taken) == "inconsistent: public.alone has its place on the slave (target)"
        assert_there(here, {ALONE: taken})
        # What happens to it later does nothing to the other one, which is there.
        here.master.execute("DROP TABLE public.taken; UPDATE public.alone SET n = 8")
        here.await_current()
        assert not here.checkpoint.tables.not_ready
        assert_there(here, {ALONE: taken})


def foreign_keys(shop: Rig) -> list[tuple[str, str]]:
    named = "format('%s.%s', {0}.relnamespace::regnamespace, {0}.relname)"
    return shop.slave.execute(
        f"SELECT {named.format('c')}, {named.format('p')} FROM pg_constraint k JOIN pg_class c ON c.oid = conrelid "
        "JOIN pg_class p ON p.oid = confrelid WHERE contype = 'f' AND convalidated ORDER BY 1".encode()
    ).fetchall()


@pytest.mark.long
def test_files_bring_them_to_a_machine_that_knows_no_configuration(shop: MakeShop, tmp_path: Path) -> None:
    here = shop(SHOP, TABLES, block_rows=70)
    update = here.update()
    carried, manifest = exported(here, update, location(tmp_path / "out"))
    there = moved(carried, tmp_path / "in")
    for statement in CHANGES:
        here.master.execute(statement.encode())
    found, target = transfer_steps.found_for(there.location, S3Access(), None, here.slave_info, None)
    import_in_threads(target, found, transfer_steps.examine(target, found), 2)
    steps.open_gate(update, here.store)
    with here.apply():
        here.await_normal()
        here.await_current()
    steps.finish(update)
    assert_there(here)
    assert manifest.slaves[0].places


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_parts_under_traffic_killed_and_canceled_end_equal(shop: MakeShop, seed: int) -> None:
    chance = random.Random(seed)
    places = {PARENTS: TableName("x", "p"), ORDERS: TableName("y", ORDERS.name), HEAP: TableName("public", "Heap 2")}
    lines = {str(table): {"target": {"schema": to.schema, "name": to.name}} for table, to in places.items()}
    kept = chance.choice(["slave", "redis"])
    if kept == "redis":  # where tables need a key
        del places[HEAP], lines[str(HEAP)]
    ddl = (
        "CREATE TABLE public.parents (id int PRIMARY KEY, v text); CREATE TABLE public.heap (n int, v text);"
        "CREATE TABLE public.orders (id int PRIMARY KEY, v text, parent int REFERENCES public.parents)"
    )
    here = shop(ddl, lines, block_rows=100, seconds=0.05, slave_options={"checkpoint": kept, "on_drop": "drop"})
    for table in places:
        here.master.execute(f"INSERT INTO {table} SELECT g, 'old' FROM generate_series(1, 600) g".encode())
    here.prepare(first := here.update("first"))
    with here.apply():
        here.load_to_normal(first)
    steps.finish(first)
    for _ in range(2):
        with here.apply():
            for _ in range(3):
                act(here, chance, [table.name for table in places])
                load_at_random(here, chance, [table.name for table in places])
    with here.apply():
        if left := list(here.checkpoint.tables):
            update = here.update(tables=[str(table) for table in left])
            here.prepare(update)
            here.load_to_normal(update)
        here.await_current()
    for table, there in places.items():
        assert here.rows(here.slave, there) == here.rows(here.master, table), str(there)
