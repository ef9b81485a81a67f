"""From a master's first row to a slave that is verified."""

from collections.abc import Callable

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.verify.compare import compare
from sluice.verify.findings import Outcome
from sluice.verify.pinned_sessions import at_one_position
from tests.scenarios.mariadb.rig import Rig

TABLES = """
CREATE TYPE public.mood AS ENUM ('sad', 'so so', 'it''s "fine"');
CREATE TABLE public.orders (
    id bigint PRIMARY KEY, customer int, note text, amount numeric(12,2), rate double precision, small real,
    paid boolean, at timestamptz, local timestamp(3), day date, hour time, body bytea, extra jsonb, plain json,
    token uuid, bits bit(5), name varchar(40), code char(6), feeling public.mood, span interval, host inet
);
CREATE INDEX ON public.orders (customer, day DESC);
CREATE TABLE public.lines (
    order_id bigint, line smallint, item varchar(20) NOT NULL UNIQUE DEFERRABLE, PRIMARY KEY (order_id, line)
);
CREATE TABLE public.log (at timestamptz, text text, n numeric(20,5));
"""
FILL = """
INSERT INTO public.orders SELECT n, n % 7,
    CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'NULL' ELSE E'a,"b"\\n\\\\ é 😀 '
    || n END, n / 3.0, n / 7.0::float8, n / 7.0::real, n % 2 = 0,
    timestamptz '2020-01-01 00:00:00.5+00' + n * interval '1.25 min',
    timestamp '2020-02-29 12:00' + n * interval '1 s', date '2020-01-01' + n, time '00:00' + n * interval '1 s',
    decode(lpad(to_hex(n), 8, '0'), 'hex'), jsonb_build_object('n', n, 'x', 1.10), '{"b": 1,  "a": 2}',
    gen_random_uuid(), (n % 32)::bit(5), 'name ' || n, 'c' || n % 10, 'it''s "fine"', n * interval '1 day 2.5 s',
    '10.0.0.1' FROM generate_series(1, 3000) AS n;
INSERT INTO public.lines SELECT n, 1, 'item ' || n FROM generate_series(1, 500) AS n;
INSERT INTO public.log SELECT now(), 'x', n % 3 FROM generate_series(1, 20) AS n;
"""
CHANGES = """
DELETE FROM public.orders WHERE id IN (-5, -6);
UPDATE public.orders SET note = note || '!', rate = -rate, paid = NOT paid, at = at + interval '1 us' WHERE id % 5 = 0;
DELETE FROM public.orders WHERE id % 11 = 0;
UPDATE public.orders SET id = id + 100000 WHERE id % 13 = 0;
INSERT INTO public.orders (id, note) VALUES (-5, 'new'), (-6, NULL);
UPDATE public.lines SET item = CASE item WHEN 'item 1' THEN 'item 2' ELSE 'item 1' END
    WHERE item IN ('item 1', 'item 2');
UPDATE public.lines SET line = line + 1;
DELETE FROM public.log WHERE ctid IN (SELECT ctid FROM public.log WHERE n = 1 LIMIT 2);
UPDATE public.log SET text = 'y' WHERE n = 2;
INSERT INTO public.log VALUES (NULL, NULL, NULL), (NULL, NULL, NULL);
"""


def test_loaded_applied_and_proved_equal(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.master.execute(FILL)
    update = pair.load()
    with pair.apply():
        pair.await_current()
        assert pair.differences() == {}
        done = pair.finish(update)
        assert [what for what, _ in done.left_out] == []
        for _ in range(2):
            pair.master.execute(CHANGES)
            pair.await_current()
            assert pair.differences() == {}
        with at_one_position(pair.pair, redis_store.connect(pair.redis_url)) as view:
            for table in pair.tables():
                finding = compare(view, table)
                assert finding.outcome is Outcome.IDENTICAL, finding
                assert finding.rows_master == finding.rows_slave == len(pair.master_rows(table))
    assert TableName("public", "orders") in pair.tables()
