"""Changes made by hand on a slave, under traffic: exactly these are found and repaired."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.verify.findings import Kind, Outcome
from tests.examples import examples
from tests.rig.rig import Rig
from tests.scenarios.verify.test_repair import fix
from tests.scenarios.verify.verifying import Traffic, counts, look

STEP, ROWS = 10, 5_000
TABLES = """
CREATE TABLE public.b (id bigint PRIMARY KEY, v text, n numeric(9,2));
CREATE TABLE public.h (a text, b int, v text, PRIMARY KEY (a, b));
CREATE TABLE public.k (v text, n int);
"""
FILL = f"""
INSERT INTO public.b SELECT {STEP} * i, 'v' || i, i FROM generate_series(1, {ROWS}) i;
INSERT INTO public.h SELECT 'k' || i % 97, i, 'v' FROM generate_series(1, {ROWS}) i;
INSERT INTO public.k SELECT 'v' || i % 20, nullif(i % 3, 0) FROM generate_series(1, 2000) i;
ANALYZE
"""
CHURN = """
INSERT INTO public.b SELECT 100000000 * (1 + {writer}) + {turn} * 100 + i, 'new' FROM generate_series(1, 20) i;
UPDATE public.b SET v = v || '!' WHERE id = 100000000 * (1 + {writer}) + {turn} * 100 - 99;
DELETE FROM public.b WHERE id = 100000000 * (1 + {writer}) + {turn} * 100 - 98;
INSERT INTO public.h SELECT 'w{writer}', {turn} * 100 + i, 'new' FROM generate_series(1, 5) i;
INSERT INTO public.k VALUES ('traffic', {turn} % 7)"""
PLACES = st.sets(
    st.one_of(st.integers(1, ROWS), st.sampled_from([1, 2, ROWS - 1, ROWS]), st.integers(990, 1010)), max_size=12
)
BESIDE = st.sets(
    st.one_of(
        st.integers(-50, STEP - 1),  # before the first key
        st.integers(1, ROWS).map(lambda place: STEP * place + 3),  # between two
        st.integers(STEP * ROWS + 1, STEP * ROWS + 50),  # after the last
    ),
    max_size=8,
)
COPIES = st.dictionaries(
    st.tuples(st.sampled_from(["v0", "v1", "v19", "", "mine", None]), st.sampled_from([None, 0, 1, 2])),
    st.integers(1, 4),
    max_size=5,
)


@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck))
@given(changed=PLACES, gone=PLACES, more=BESIDE, fewer=COPIES, copies=COPIES)
def _all_is_found(
    pair: Rig, changed: set[int], gone: set[int], more: set[int], fewer: dict[object, int], copies: dict[object, int]
) -> None:
    slave, changed = pair.slave, changed - gone
    ids = {name: [STEP * place for place in places] for name, places in (("changed", changed), ("gone", gone))}
    slave.execute("UPDATE public.b SET v = NULL, n = -n WHERE id = ANY (%s)", [ids["changed"]])
    slave.execute("DELETE FROM public.b WHERE id = ANY (%s)", [ids["gone"]])
    slave.execute("INSERT INTO public.b SELECT unnest(%s::bigint[]), ''", [sorted(more)])
    slave.execute("UPDATE public.h SET v = '' WHERE b = ANY (%s) AND a LIKE 'k%%'", [sorted(changed)])
    slave.execute("DELETE FROM public.h WHERE b = ANY (%s) AND a LIKE 'k%%'", [sorted(gone)])
    slave.execute("INSERT INTO public.h SELECT 'mine', unnest(%s::bigint[]), NULL", [sorted(more)])
    balance: Counter[object] = Counter(copies)
    for (v, n), number in copies.items():  # type: ignore[misc]
        slave.execute("INSERT INTO public.k SELECT %s, %s FROM generate_series(1, %s)", [v, n, number])
    for (v, n), number in fewer.items():  # type: ignore[misc]
        found = slave.execute(
            "DELETE FROM public.k WHERE ctid = ANY (ARRAY(SELECT ctid FROM public.k WHERE v IS NOT DISTINCT FROM %s "
            "AND n IS NOT DISTINCT FROM %s::int LIMIT %s))",
            [v, n, number],
        )
        balance[(v, n)] -= found.rowcount
    for name, keys in (
        ("b", {Kind.DIFFERENT: ids["changed"], Kind.MISSING: ids["gone"], Kind.EXTRA: more}),
        ("h", {Kind.DIFFERENT: changed, Kind.MISSING: gone, Kind.EXTRA: more}),
    ):
        finding = look(pair, name)
        for kind, expected in keys.items():
            assert {int(key[-1] or "") for key in finding.found[kind].keys} == set(expected), (name, kind)
            assert finding.found[kind].count == len(set(expected))
    finding = look(pair, "k")
    expected = {
        "missing": -sum(count for count in balance.values() if count < 0),  # type: ignore[dict-item]
        "extra": sum(count for count in balance.values() if count > 0),  # type: ignore[dict-item]
    }
    assert counts(finding) == {kind: count for kind, count in expected.items() if count}
    for name in ("b", "h", "k"):
        result = fix(pair, name)
        assert result.outcome is Outcome.IDENTICAL, result.refused


@pytest.mark.long
def test_exactly_what_was_changed_by_hand_is_found_and_mended_under_traffic(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.master.execute(FILL)
    with pair.apply():
        pair.await_current()
        with Traffic(pair, CHURN, rows=28, pause=0.02):
            _all_is_found(pair)
        pair.await_current()
        assert pair.differences() == {}
