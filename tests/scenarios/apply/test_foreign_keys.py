"""Foreign keys of the slave that change rows, if the account may not disable them: no false drift, no row lost."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.database.conflicts import Drift
from sluice.vendors.postgres import sessions
from sluice.vendors.postgres.connection import connect
from tests.errors import raises_code
from tests.examples import examples
from tests.rig.applying import Applying
from tests.rig.rig import Rig

TABLES = """
CREATE TABLE public.p (id int PRIMARY KEY, code int UNIQUE, v int);
CREATE TABLE public.c (p int REFERENCES public.p ON DELETE CASCADE ON UPDATE CASCADE, n int, v int, PRIMARY KEY (p, n));
CREATE TABLE public.g (p int, n int, m int, v int, PRIMARY KEY (p, n, m),
    FOREIGN KEY (p, n) REFERENCES public.c ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE public.s (id int PRIMARY KEY, code int REFERENCES public.p (code) ON DELETE SET NULL ON UPDATE CASCADE,
    p int REFERENCES public.p ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE public.t (id int PRIMARY KEY, up int REFERENCES public.t ON DELETE SET NULL ON UPDATE CASCADE, v int);
"""
EMPTY = "DELETE FROM public.s; DELETE FROM public.p; DELETE FROM public.t"
# The rows lie in such an order that each takes the key that the one before it has just left.
ROWS = """
INSERT INTO public.p SELECT g, g, 0 FROM generate_series(6, 1, -1) g;
INSERT INTO public.c SELECT p, n, 0 FROM generate_series(4, 1, -1) p, generate_series(1, 2) n;
INSERT INTO public.g SELECT p, n, 1, 0 FROM public.c;
INSERT INTO public.s SELECT id, id, 7 - id FROM public.p;
INSERT INTO public.t SELECT g, nullif(g / 2, 0), 0 FROM generate_series(1, 6) g;
"""
STATEMENTS = (
    "UPDATE public.p SET id = id + 1",
    "UPDATE public.p SET id = id + 1, code = code + 1 WHERE id >= %(a)s",
    "UPDATE public.p SET id = %(b)s WHERE id = %(a)s",
    "UPDATE public.p SET code = %(b)s WHERE code = %(a)s",
    "UPDATE public.p SET v = v + 1 WHERE id <= %(a)s",
    "UPDATE public.c SET p = %(b)s WHERE p = %(a)s",
    "UPDATE public.c SET p = %(b)s, n = n + 2 WHERE p = %(a)s AND n = 1",
    "UPDATE public.c SET n = n + 1, v = v + 1 WHERE p = %(a)s",
    "UPDATE public.g SET v = v + 1, m = m + 1 WHERE p = %(a)s",
    "UPDATE public.s SET p = %(b)s WHERE p = %(a)s",
    "UPDATE public.s SET code = %(b)s WHERE id = %(a)s",
    "UPDATE public.t SET id = id + 10",
    "UPDATE public.t SET id = id + 10, v = v + 1 WHERE id < 10 AND id >= %(a)s",
    "UPDATE public.t SET id = %(b)s WHERE id = %(a)s",
    "UPDATE public.t SET up = %(b)s WHERE up = %(a)s",
    "WITH x AS (UPDATE public.c SET v = 9 WHERE p = %(a)s) UPDATE public.p SET id = %(b)s WHERE id = %(a)s",
    "INSERT INTO public.p VALUES (%(a)s, %(a)s + 50, 1)",
    "INSERT INTO public.c VALUES (%(a)s, %(b)s, 1)",
    "INSERT INTO public.t VALUES (%(a)s, %(b)s, 1)",
    "DELETE FROM public.p WHERE id = %(a)s",
    "DELETE FROM public.c WHERE p = %(a)s AND n = 1",
    "DELETE FROM public.t WHERE id = %(a)s",
)
NUMBERS = st.integers(1, 9)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 1), st.sampled_from(STATEMENTS), NUMBERS, NUMBERS),
        st.tuples(st.integers(0, 1), st.just("COMMIT"), NUMBERS, NUMBERS),
    ),
    min_size=1,
    max_size=14,
)


@pytest.fixture(params=["foreign keys act, strict", "foreign keys act, safe", "foreign keys are off, strict"])
def running(rig: Callable[..., Rig], request: pytest.FixtureRequest) -> Iterator[Applying]:
    pair = rig(TABLES, slave_role="act" in request.param, safe="safe" in request.param)
    with pair.apply() as running:
        if not pair.pair.slave.safe_mode:
            pair.await_normal_mode(running)
        yield running


@pytest.mark.long
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_any_interleaving_of_cascades_is_followed(
    running: Applying, steps: Sequence[tuple[int, str, int, int]]
) -> None:
    pair = running.rig
    assert isinstance(pair, Rig)
    for statement in (EMPTY, ROWS):
        with pair.master.transaction():
            pair.master.execute(statement.encode())
    pair.await_current()
    links = [connect(pair.pair.master_info, application="writer") for _ in range(2)]
    try:
        for link in links:
            link.execute("SET lock_timeout = '20ms'")
            link.commit()
        for which, statement, a, b in steps:
            play(links[which], statement, a, b)
        for link in links:
            link.commit()
    finally:
        for link in links:
            link.close()
    pair.await_current()
    assert pair.differences() == {}


def play(link: psycopg.Connection[Any], statement: str, a: int, b: int) -> None:
    """Runs a statement; one that the master's constraints or another session's locks refuse is undone alone."""
    if statement == "COMMIT":
        link.commit()
        return
    try:
        with link.transaction():
            link.execute(statement.encode(), {"a": a, "b": b} if "%(" in statement else None)
    except (psycopg.IntegrityError, psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("hand", "said"),
    [
        ("UPDATE public.c SET v = 7 WHERE p = 1 AND n = 1", "public.c, row p = '1', n = '1': UPDATE expected"),
        ("DELETE FROM public.c WHERE p = 1 AND n = 1", "public.[cg], row p = '1', n = '1'.*: UPDATE expected one"),
        ("UPDATE public.p SET id = 20 WHERE id = 1", "public.p, row id = '1': UPDATE expected one"),
        ("INSERT INTO public.p VALUES (20, 90, 0); INSERT INTO public.c VALUES (20, 1, 0)", "public.p, row id = '1'"),
        ("UPDATE public.g SET v = 7 WHERE p = 1 AND n = 2", "public.g, row p = '1', n = '2', m = '1': UPDATE expected"),
    ],
)
def test_a_local_change_is_found_behind_a_cascade(rig: Callable[..., Rig], hand: str, said: str) -> None:
    pair = rig(TABLES, slave_role=True)
    with pair.apply() as running:
        pair.master.execute(ROWS.encode())
        pair.await_normal_mode(running)
        pair.slave.execute(hand.encode())
        pair.master.execute("UPDATE public.p SET id = 20 WHERE id = 1")
        with pytest.raises(Drift, match=said):
            pair.await_current()


ALONE = "ALTER TABLE public.c ADD CONSTRAINT alone FOREIGN KEY (p) REFERENCES public.p ON DELETE CASCADE"
LOOSE = "CREATE TABLE public.p (id int PRIMARY KEY); CREATE TABLE public.c (id int PRIMARY KEY, p int)"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("when", ["before the start", "while it runs"])
def test_a_foreign_key_that_only_the_slave_has_deletes_no_row(rig: Callable[..., Rig], when: str) -> None:
    pair = rig(LOOSE, slave_role=True)
    if when == "before the start":
        pair.slave.execute(ALONE.encode())
    else:
        with pair.apply():
            pair.master.execute("INSERT INTO public.p VALUES (1); INSERT INTO public.c VALUES (1, 1)")
            pair.await_current()
            pair.slave.execute(ALONE.encode())
            pair.master.execute("DELETE FROM public.p")
            with raises_code("unknown-cascade"):
                pair.await_current()
    allow = re.escape(sessions.allow_silence(pair.slave))
    with pair.apply(), raises_code("unknown-cascade", match=f"alone of public.c: FOREIGN KEY .*{allow}"):
        pair.await_that(lambda: False)
    pair.slave.execute("ALTER TABLE public.c DROP CONSTRAINT alone")
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


def test_foreign_keys_of_the_slaves_own_tables_act(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.p (id int PRIMARY KEY)", slave_role=True)
    pair.slave.execute("CREATE TABLE public.own (p int REFERENCES public.p ON DELETE CASCADE)")
    with pair.apply():
        pair.master.execute("INSERT INTO public.p VALUES (1), (2)")
        pair.await_current()
        pair.slave.execute("INSERT INTO public.own VALUES (1), (2)")
        pair.master.execute("DELETE FROM public.p WHERE id = 1")
        pair.await_current()
    assert pair.slave.execute("SELECT p FROM public.own").fetchall() == [(2,)]
