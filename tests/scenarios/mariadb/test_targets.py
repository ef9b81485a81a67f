"""A MariaDB slave with tables under other names: loaded, applied, compared and repaired."""

from collections.abc import Callable

import pytest

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, resync
from tests.scenarios.mariadb.rig import Rig

SHOP = """
CREATE TABLE public.people (id bigserial PRIMARY KEY, name varchar(60) UNIQUE, age int);
CREATE INDEX by_age ON public.people (age);
CREATE TABLE public.orders (id int PRIMARY KEY, person bigint REFERENCES public.people, total numeric(10,2));
INSERT INTO public.people (name, age) SELECT 'n"' || g, g FROM generate_series(1, 200) g;
INSERT INTO public.orders SELECT g, g, g / 3.0 FROM generate_series(1, 100) g;
"""
LINES = "  public.people: {target: {name: 'Leute `\"select'}}\n"
PEOPLE = TableName("public", "people")
ON_SLAVE, ON_MASTER = (
    'SELECT id, name, age FROM `Leute ``"select` ORDER BY id',
    "SELECT * FROM public.people ORDER BY id",
)


def assert_there(pair: Rig) -> None:
    assert [tuple(row) for row in pair.slave.run(ON_SLAVE)] == pair.master.execute(ON_MASTER).fetchall()


@pytest.mark.long
def test_loaded_followed_compared_and_mended_under_another_name(rig: Callable[..., Rig]) -> None:
    pair = rig(SHOP, lines=LINES, block_rows=60)
    update = pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        pair.finish(update)
        assert_there(pair)
        for statement in (
            "UPDATE public.people SET age = -age, id = id + 1000 WHERE id > 150; DELETE FROM public.orders",
            "ALTER TABLE public.people ADD COLUMN more int; ALTER TABLE public.people DROP COLUMN more",
            "BEGIN; UPDATE public.people SET name = 'x' WHERE id = 1; UPDATE public.people SET name = 'n\"1' "
            "WHERE id = 2; UPDATE public.people SET name = 'n\"2' WHERE id = 1; COMMIT",
        ):
            pair.master.execute(statement.encode())
            pair.await_current()
            assert_there(pair)
        pair.slave.run('UPDATE `Leute ``"select` SET age = 7 WHERE id < 5')
        store = redis_store.connect(pair.redis_url)
        found = resync(pair.pair, store, PEOPLE, CompareOptions(), Action.REPAIR, 1_000)
        assert (found.repaired, found.outcome) == (4, Outcome.IDENTICAL), found.finding
        (key,) = pair.slave.run(
            "SELECT REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = DATABASE() "
            "AND TABLE_NAME = 'orders' AND REFERENCED_TABLE_NAME IS NOT NULL"
        ).fetchall()
        assert tuple(key) == ('Leute `"select',)
        pair.master.execute("ALTER TABLE public.people RENAME TO folk; INSERT INTO public.folk (name) VALUES ('z')")
        pair.await_current()
        assert pair.slave.run("SELECT count(*) FROM folk").fetchone()[0] == 201
