"""A MariaDB slave with a transformed table: loaded, applied, compared and repaired."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.coordination import redis_store
from sluice.load import steps
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.model.location import S3Access
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, resync
from tests.scenarios.initial_files.carrying import export, location, moved
from tests.scenarios.mariadb.rig import Rig

PEOPLE = """
CREATE TABLE public.people (
    id bigint, part varchar(10), name text, country char(2), mail text, at timestamptz, body bytea, active boolean,
    salary numeric(10,2), extra jsonb, rate double precision, PRIMARY KEY (id, part));
CREATE TABLE public.plain (id int PRIMARY KEY, v text);
INSERT INTO public.people SELECT n, 'p' || n % 2, E'n"\\n,\\\\ é😀 ' || n,
    CASE n % 3 WHEN 0 THEN 'CH' WHEN 1 THEN 'DE' END, 'hunter' || n,
    timestamptz '2026-01-01 10:00:00.5+00' + n * interval '1.25 min', decode(lpad(to_hex(n), 8, '0'), 'hex'),
    n % 2 = 0, n / 3.0, jsonb_build_object('n', n), n / 7.0::float8 FROM generate_series(1, 300) AS n;
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
      day: {expression: 'CAST("at" AS DATE)'}
      bytes: {expression: body}
    exit: tests.scenarios.mariadb.people_exit:people
"""
ON_MASTER = """
SELECT id, part, upper(name) || coalesce(country, '') || '!', country, at, body, active::int, 1.50,
    extra->>'n', rate, (NOT active)::int, (at AT TIME ZONE 'UTC')::date, body FROM public.people
WHERE (country = 'CH' OR salary > 60) AND id <> 7 ORDER BY id, part"""
ON_SLAVE = """
SELECT id, PART, name, country, at, body, active, salary, JSON_VALUE(extra, '$.n'), rate, odd, day, bytes
FROM people ORDER BY id, PART"""
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


def assert_transformed(pair: Rig) -> None:
    assert [tuple(row) for row in pair.slave.run(ON_SLAVE)] == pair.master.execute(ON_MASTER.encode()).fetchall()


def test_loaded_applied_compared_and_fixed(rig: Callable[..., Rig]) -> None:
    pair = rig(PEOPLE, lines=LINES)
    pair.slave.run("ALTER DATABASE CHARACTER SET latin1")
    update = pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        assert_transformed(pair)
        pair.finish(update)
        pair.master.execute(CHANGES)
        pair.await_current()
        assert_transformed(pair)
        pair.slave.run("UPDATE people SET name = 'mine', body = 'x' WHERE id = 9")
        pair.slave.run("DELETE FROM people WHERE id IN (12, 15)")
        pair.slave.run("INSERT INTO people (id, PART) VALUES (7777, 'mine')")
        store, table = redis_store.connect(pair.redis_url), TableName("public", "people")
        found = resync(pair.pair, store, table, CompareOptions(), Action.REPAIR, 1_000)
        assert (found.repaired, found.outcome) == (4, Outcome.IDENTICAL), found.finding
        pair.await_current()
        assert_transformed(pair)
        pair.master.execute("ALTER TABLE public.people ADD COLUMN more int; UPDATE public.people SET more = id")
        pair.await_current()
        assert_transformed(pair)
        (counted,) = pair.slave.run("SELECT count(*) FROM people WHERE more = id AND more IS NOT NULL").fetchone()
        assert counted == len(pair.master.execute(ON_MASTER.encode()).fetchall())


@pytest.mark.long
def test_files_bring_the_same(rig: Callable[..., Rig], tmp_path: Path) -> None:
    pair = rig(PEOPLE, lines=LINES, block_rows=70)
    update, store = pair.update(), redis_store.connect(pair.redis_url)
    steps.begin(update, store)
    steps.create_tables(update)
    steps.plan(update, store, transfer_steps.QUEUEING)
    carried = transfer_steps.folder_of(update, location(tmp_path / "out"), S3Access(), None)
    export(update, carried)
    manifest = transfer_steps.seal(update, carried)
    pair.master.execute(CHANGES)
    there = moved(carried, tmp_path / "in")
    assert transfer_steps.examine(update, there) == manifest
    steps.open_gate(update, store)
    with pair.apply():
        import_in_threads(update, there, manifest, 2)
        steps.arrive(update, store)
        pair.await_current()
        assert_transformed(pair)
