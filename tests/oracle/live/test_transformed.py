"""An Oracle slave with a transformed table: loaded, applied, compared and repaired."""

from collections.abc import Callable
from typing import Any

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, resync
from tests.oracle.live.rig import OracleRig

PEOPLE = TableName("public", "people")
TABLES = """
CREATE TABLE public.people (
    id bigint, part varchar(10), name text, country char(2), mail text, at timestamptz, body bytea, active boolean,
    salary numeric(10,2), rate double precision, PRIMARY KEY (id, part));
CREATE TABLE public.plain (id int PRIMARY KEY, v text);
INSERT INTO public.people SELECT n, 'p' || n % 2, E'n"\\n,\\\\ é ' || n,
    CASE n % 3 WHEN 0 THEN 'CH' WHEN 1 THEN 'DE' END, 'hunter' || n,
    timestamptz '2026-01-01 10:00:00.5+00' + n * interval '1.25 min', decode(lpad(to_hex(n), 8, '0'), 'hex'),
    n % 2 = 0, n / 3.0, n / 7.0::float8 FROM generate_series(1, 300) AS n;
INSERT INTO public.plain SELECT n, 'v' || n FROM generate_series(1, 10) AS n;
"""
LINES = """
  public.people:
    where: country = 'CH' OR salary > 60
    columns:
      part: {rename: PART}
      mail: {exclude: true}
      salary: {constant: '1.50'}
      name: {expression: "upper(name) || coalesce(country, '')"}
      odd: {expression: NOT active}
      nothing: {constant: ''}
"""
CHANGES = """
UPDATE public.people SET country = 'CH' WHERE id IN (1, 4);
UPDATE public.people SET country = 'DE', at = at + interval '1 us' WHERE id IN (3, 6);
UPDATE public.people SET mail = 'other' WHERE id = 9;
UPDATE public.people SET name = 'neu', active = NOT active, body = '\\xff', salary = NULL WHERE id BETWEEN 9 AND 40;
UPDATE public.people SET id = id + 1000, part = 'x' WHERE id BETWEEN 50 AND 60;
DELETE FROM public.people WHERE id BETWEEN 100 AND 150;
INSERT INTO public.people (id, part, country) VALUES (5000, 'new', 'CH'), (5001, 'out', 'DE');
UPDATE public.plain SET v = v || '!';
"""
ON_MASTER = """
SELECT id, part, upper(name) || coalesce(country, ''), country, body, 1.5, (NOT active)::text, NULL FROM public.people
WHERE country = 'CH' OR salary > 60 ORDER BY id, part"""
ON_SLAVE = """
SELECT p."id", p."PART", p."name", p."country", p."body", p."salary", p."odd", p."nothing" FROM "people" p
ORDER BY p."id", p."PART" """


def assert_transformed(pair: OracleRig) -> None:
    def plain(row: tuple[Any, ...]) -> list[Any]:
        return [float(value) if isinstance(value, int) or hasattr(value, "quantize") else value for value in row]

    expected = [plain(row) for row in pair.master.execute(ON_MASTER.encode()).fetchall()]
    assert [plain(tuple(row)) for row in pair.slave.run(ON_SLAVE)] == expected


def test_loaded_applied_compared_and_fixed(rig: Callable[..., OracleRig]) -> None:
    pair = rig(TABLES, lines=LINES, lossy_columns='"public.*.*"')
    update = pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        assert_transformed(pair)
        pair.finish(update)
        pair.master.execute(CHANGES)
        pair.await_current()
        assert_transformed(pair)
        pair.slave.run('UPDATE "people" SET "name" = \'mine\' WHERE "id" = 9')
        pair.slave.run('DELETE FROM "people" WHERE "id" IN (12, 15)')
        pair.slave.run('INSERT INTO "people" ("id", "PART") VALUES (7777, \'mine\')')
        store = redis_store.connect(pair.redis_url)
        for _ in range(2):
            found = resync(pair.pair, store, PEOPLE, CompareOptions(), Action.REPAIR, 1_000)
            assert found.outcome is Outcome.IDENTICAL, found.finding
            pair.await_current()
            assert_transformed(pair)
        assert found.repaired == 0
