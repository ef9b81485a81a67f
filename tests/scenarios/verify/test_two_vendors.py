"""Master and slave of two vendors are compared, and repaired, by canonical texts.

The slave is a PostgreSQL under another vendor's name.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.coordination import redis_store
from sluice.database.digests import Method
from sluice.model.vendors import VENDORS
from sluice.verify.findings import Outcome
from sluice.verify.resync import repair
from tests.rig.rig import Rig
from tests.scenarios.verify.verifying import counts, look

TABLES = """
CREATE TABLE public.keyed (id bigint, f float8, at timestamptz, n numeric, d date, b bytea, t char(9),
    PRIMARY KEY (f, id));
CREATE TABLE public.ranged (id int PRIMARY KEY, n numeric(10,2));
CREATE TABLE public.keyless (f float8, t text);
"""
ROWS = """
INSERT INTO public.keyed SELECT i, i / 7.0, '2024-01-01'::timestamptz + i * interval '1 h 0.5 s', i / 10.0,
    '2024-01-01'::date + i, convert_to('b' || i, 'UTF8'), 't' || i FROM generate_series(1, 3000) i;
INSERT INTO public.keyed VALUES (0, 'NaN', 'infinity', 'NaN', '-infinity', '', ''),
    (0, '-Infinity', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.ranged SELECT i, i FROM generate_series(1, 5000) i;
INSERT INTO public.keyless SELECT i % 10 / 4.0, nullif('x' || i % 3, 'x0') FROM generate_series(1, 100) i;
ANALYZE;
"""


@pytest.fixture
def rig(rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setitem(VENDORS, "other", VENDORS["postgres"])
    made = rig(TABLES)
    made.pair = replace(made.pair, slave_info=replace(made.pair.slave_info, vendor="other"))
    return made


@pytest.mark.long
def test_every_difference_is_found_and_fixed(rig: Rig) -> None:
    with rig.apply():
        rig.master.execute(ROWS.encode())
        rig.await_current()
        for table in ("keyed", "ranged", "keyless"):
            same = look(rig, table)
            assert same.outcome is Outcome.IDENTICAL and same.method == str(Method.CANONICAL), (table, same.examples)
        # Values alike to a number, and not to PostgreSQL's own digest, are no difference between vendors.
        rig.slave.execute("UPDATE public.keyed SET n = n::text::numeric * 1.00 WHERE id BETWEEN 5 AND 9")
        assert look(rig, "keyed").outcome is Outcome.IDENTICAL
        rig.slave.execute(
            "UPDATE public.keyed SET f = f + 1e-12 WHERE id = 1; UPDATE public.keyed SET b = NULL WHERE id = 2;"
            "UPDATE public.keyed SET at = at + interval '1 us' WHERE id = 3; DELETE FROM public.keyed WHERE f = 'NaN';"
            "UPDATE public.ranged SET n = 0.01 WHERE id = 4999; INSERT INTO public.ranged VALUES (9999, NULL);"
            "DELETE FROM public.keyless WHERE ctid = (SELECT min(ctid) FROM public.keyless WHERE t IS NULL)"
        )
        expected = {
            "keyed": {"different": 2, "missing": 2, "extra": 1}, "ranged": {"different": 1, "extra": 1},
            "keyless": {"missing": 1},
        }  # fmt: skip
        for table, found in expected.items():
            finding = look(rig, table)
            assert counts(finding) == found, (table, finding.examples)
            repair(rig.pair, redis_store.connect(rig.redis_url), finding)
            again = look(rig, table)
            assert again.outcome is Outcome.IDENTICAL, (table, again.examples)


def test_a_slave_whose_apply_does_not_run_is_compared_where_it_stands(rig: Rig) -> None:
    with rig.apply():
        rig.master.execute(ROWS.encode())
        rig.await_current()
    rig.master.execute(
        "UPDATE public.keyed SET n = -n, f = f * 2 WHERE id IN (1, 2); DELETE FROM public.keyed WHERE id = 5"
    )
    finding = look(rig, "keyed")
    assert finding.outcome is Outcome.IDENTICAL and finding.waiting == 3, finding.examples
    rig.slave.execute("UPDATE public.keyed SET at = NULL WHERE id = 1")
    assert counts(look(rig, "keyed")) == {"different": 1}
