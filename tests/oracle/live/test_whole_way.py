"""From a PostgreSQL master's first row to an Oracle slave that is verified."""

from collections.abc import Callable

import pytest

from sluice.coordination import redis_store
from sluice.database.errors import UniqueViolation
from sluice.errors import Terminal
from sluice.verify.findings import Kind, Outcome
from sluice.verify.resync import repair
from tests.oracle.live.rig import OracleRig

TABLES = """
CREATE TYPE public.mood AS ENUM ('sad', 'so so', 'it''s "fine"');
CREATE TABLE public.orders (
    id bigint PRIMARY KEY, customer int, note text, amount numeric(12,2), rate double precision,
    paid boolean, at timestamptz, local timestamp(3), day date, hour time, body bytea, extra jsonb, plain json,
    token uuid, bits bit(5), name varchar(40), code char(6), feeling public.mood, span interval, host inet
);
CREATE INDEX ON public.orders (customer, day);
CREATE TABLE public.lines (
    order_id bigint, line smallint, item varchar(20) NOT NULL UNIQUE DEFERRABLE, PRIMARY KEY (order_id, line)
);
CREATE TABLE public.parents (id int PRIMARY KEY, v text);
CREATE TABLE public.children (id int PRIMARY KEY, parent int REFERENCES public.parents);
CREATE TABLE public.log (at timestamptz, text text, n numeric(20,5));
"""
FILL = """
INSERT INTO public.orders SELECT n, n % 7,
    CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN 'NULL' WHEN 2 THEN '' ELSE E'a,"b"\\n\\\\ é 😀 ' || n END,
    n / 3.0, n / 7.0::float8, n % 2 = 0,
    timestamptz '2020-01-01 00:00:00.5+00' + n * interval '1.25 min',
    timestamp '2020-02-29 12:00' + n * interval '1 s', date '2020-01-01' + n, time '00:00' + n * interval '1 s',
    CASE WHEN n % 6 > 0 THEN decode(lpad(to_hex(n), 8, '0'), 'hex') ELSE '' END,
    jsonb_build_object('n', n, 'x', 1.10), '{"b": 1,  "a": 2}',
    gen_random_uuid(), (n % 32)::bit(5), 'name ' || n, 'c' || n % 10, 'it''s "fine"', n * interval '1 day 2.5 s',
    '10.0.0.1' FROM generate_series(1, 900) AS n;
INSERT INTO public.lines SELECT n, 1, 'item ' || n FROM generate_series(1, 300) AS n;
INSERT INTO public.parents SELECT n, 'p' FROM generate_series(1, 20) AS n;
INSERT INTO public.children SELECT n, n % 20 + 1 FROM generate_series(1, 60) AS n;
INSERT INTO public.log SELECT now(), 'x', n % 3 FROM generate_series(1, 20) AS n;
"""
CHANGES = """
DELETE FROM public.orders WHERE id IN (-5, -6);
UPDATE public.orders SET note = note || '!', rate = -rate, paid = NOT paid, at = at + interval '1 us' WHERE id % 5 = 0;
DELETE FROM public.orders WHERE id % 11 = 0;
UPDATE public.orders SET id = id + 100000 WHERE id % 13 = 0;
UPDATE public.orders SET note = '', body = '' WHERE id % 17 = 0;
UPDATE public.orders SET note = NULL, body = NULL WHERE id % 19 = 0;
DELETE FROM public.orders WHERE note = '' AND id % 7 = 0;
INSERT INTO public.orders (id, note) VALUES (-5, 'new'), (-6, NULL);
UPDATE public.lines SET item = CASE item WHEN 'item 1' THEN 'item 2' ELSE 'item 1' END
    WHERE item IN ('item 1', 'item 2');
UPDATE public.lines SET line = line + 1;
DELETE FROM public.children WHERE parent = 3;
DELETE FROM public.parents WHERE id = 3;
INSERT INTO public.parents VALUES (3, 'again');
INSERT INTO public.children VALUES (3000, 3);
DELETE FROM public.children WHERE id = 3000;
DELETE FROM public.log WHERE ctid IN (SELECT ctid FROM public.log WHERE n = 1 LIMIT 2);
UPDATE public.log SET text = 'y' WHERE n = 2;
INSERT INTO public.log VALUES (NULL, NULL, NULL), (NULL, '', NULL), (NULL, '', NULL);
DELETE FROM public.log WHERE ctid = (SELECT ctid FROM public.log WHERE text = '' LIMIT 1);
"""

LONGEST = "Long" * 15 + "est"
HOSTILE = f"""
CREATE TABLE public."Select" (
    "Level" int, "a b'c;--" varchar(40), "order" text, "a:b%(x)s" numeric(38,10), PRIMARY KEY ("Level", "a b'c;--")
);
CREATE TABLE public."{LONGEST}" ("GROUP" text, "Size" bytea);
"""
HOSTILE_FILL = f"""
INSERT INTO public."Select" SELECT n,
    CASE n % 3 WHEN 0 THEN E'x''y\\n":v0' WHEN 1 THEN 'é😀' ELSE 'NULL' END,
    CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN repeat('😀a', 20000) WHEN 2 THEN repeat('é', 2001)
        ELSE E'\\x01]]>&<' END,
    CASE WHEN n % 5 > 0 THEN -9999999999999999999999999999.0123456789 / n END FROM generate_series(1, 60) AS n;
INSERT INTO public."{LONGEST}" SELECT CASE n % 2 WHEN 0 THEN repeat('é', 2001) END, decode(repeat('00ff', 3000), 'hex')
    FROM generate_series(1, 6) AS n;
"""
HOSTILE_CHANGES = f"""
UPDATE public."Select" SET "order" = coalesce("order", '😀') || '!' WHERE "Level" % 2 = 0;
UPDATE public."Select" SET "Level" = -"Level", "a:b%(x)s" = NULL WHERE "Level" % 7 = 0;
DELETE FROM public."Select" WHERE "Level" % 11 = 0;
INSERT INTO public."Select" VALUES (1000, 'x''y', repeat('😀', 1000), 0), (1001, '"', repeat('😀', 1001), 1E-10)
    ON CONFLICT DO NOTHING;
UPDATE public."{LONGEST}" SET "GROUP" = NULL, "Size" = "Size" || 'x'
    WHERE ctid = (SELECT ctid FROM public."{LONGEST}" WHERE "GROUP" IS NOT NULL LIMIT 1);
DELETE FROM public."{LONGEST}" WHERE ctid = (SELECT ctid FROM public."{LONGEST}" WHERE "GROUP" IS NULL LIMIT 1);
"""


def equal(pair: OracleRig) -> None:
    findings = pair.compared()
    assert {str(table): finding.outcome for table, finding in findings.items()} == {
        str(table): Outcome.IDENTICAL for table in findings
    }
    assert all(finding.rows_master == finding.rows_slave for finding in findings.values())


def test_loaded_applied_and_proved_equal(rig: Callable[..., OracleRig]) -> None:
    pair = rig(TABLES, stage=500)
    pair.master.execute(FILL)
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        equal(pair)
        done = pair.finish(update)
        assert dict(done.left_out) == {}
        for _ in range(2):
            pair.master.execute(CHANGES)
            pair.await_current()
            equal(pair)
        running.await_normal_mode()
        pair.master.execute(CHANGES)
        pair.await_current()
        equal(pair)
    assert pair.column("parents", "v").count("again") == 1


@pytest.mark.long
def test_hostile_names_and_values_are_loaded_applied_and_proved_equal(rig: Callable[..., OracleRig]) -> None:
    """Reserved words, quotes, colons, names of the maximum length; texts near and above the limit of a VARCHAR2."""
    pair = rig(HOSTILE)
    pair.master.execute(HOSTILE_FILL)
    pair.load()
    with pair.apply() as running:
        pair.await_current()
        equal(pair)
        pair.master.execute(HOSTILE_CHANGES)
        pair.await_current()
        equal(pair)
        running.await_normal_mode()
        pair.master.execute(HOSTILE_CHANGES)
        pair.await_current()
        equal(pair)


def test_an_empty_text_is_null_there_but_in_a_lob_and_tables_with_one_are_refused_unless_that_is_allowed(
    rig: Callable[..., OracleRig],
) -> None:
    ddl = "CREATE TABLE public.t (id int PRIMARY KEY, v varchar(9)); INSERT INTO public.t VALUES (1, ''), (2, 'x')"
    pair = rig(ddl)
    with pytest.raises(Terminal, match=r"public\.t\.v would be VARCHAR2.* an empty text \(row id = '1'\)"):
        pair.load()


def test_damaged_rows_are_found_and_repaired(rig: Callable[..., OracleRig]) -> None:
    pair = rig(
        "CREATE TABLE public.items (id bigint PRIMARY KEY, name text, weight float8); "
        "INSERT INTO public.items SELECT n, 'é ' || n, n / 3.0 FROM generate_series(1, 2000) AS n; ANALYZE"
    )
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        for statement in (
            'UPDATE "items" SET "weight" = 5 WHERE "id" = 7',
            'DELETE FROM "items" WHERE "id" BETWEEN 100 AND 120',
            """INSERT INTO "items" ("id", "name") VALUES (-1, 'mine')""",
        ):
            pair.slave.run(statement)
        ((_, finding),) = pair.compared().items()
        assert {str(kind): finding.found[kind].count for kind in Kind} == {"missing": 21, "extra": 1, "different": 1}
        repair(pair.pair, redis_store.connect(pair.redis_url), finding)
        equal(pair)


def test_definitions_follow_and_a_crash_between_them_and_the_data_loses_nothing(rig: Callable[..., OracleRig]) -> None:
    pair = rig("CREATE TABLE public.t (id int PRIMARY KEY, v varchar(10)); INSERT INTO public.t VALUES (1, 'a')")
    pair.load()
    with pair.apply():
        pair.await_current()
        pair.master.execute("ALTER TABLE public.t ADD COLUMN n int DEFAULT 7; INSERT INTO public.t VALUES (2, 'b', 8)")
        pair.await_current()
        assert pair.column("t", "n") == [7, 8]
        pair.master.execute("ALTER TABLE public.t RENAME COLUMN v TO w; UPDATE public.t SET w = 'c' WHERE id = 1")
        pair.await_current()
        assert pair.column("t", "w") == ["c", "b"]
        pair.master.execute("TRUNCATE public.t; INSERT INTO public.t VALUES (3, 'd', 9)")
        pair.await_current()
        equal(pair)


def test_a_conflict_is_set_aside_and_the_rest_goes_on(rig: Callable[..., OracleRig]) -> None:
    pair = rig(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t VALUES (1, 'a'), (2, 'b')",
        on_conflict="reject",
    )
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        pair.slave.run('DELETE FROM "t" WHERE "id" = 1')
        pair.master.execute("UPDATE public.t SET v = 'x' WHERE id = 1; UPDATE public.t SET v = 'y' WHERE id = 2")
        pair.await_current()
        assert pair.column("t", "v") == ["y"]
    (reject,) = pair.rejects.open()
    assert reject.table.name == "t" and reject.key == ("id",)


def test_a_statement_that_fails_names_the_server_and_leaves_the_transaction(rig: Callable[..., OracleRig]) -> None:
    pair = rig("CREATE TABLE public.t (id int PRIMARY KEY)")
    pair.load()
    session = pair.slave
    with session.transaction():
        session.run('INSERT INTO "t" ("id") VALUES (1)')
        with pytest.raises(UniqueViolation) as refused:
            session.run('INSERT INTO "t" ("id") VALUES (1)')
        assert refused.value.server == pair.pair.slave_info.server
        session.run('INSERT INTO "t" ("id") VALUES (2)')
    assert pair.column("t", "id") == [1, 2]
