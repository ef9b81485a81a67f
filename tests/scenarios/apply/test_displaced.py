"""Safe mode when another row has a unique value: no row of the master is lost."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sluice.apply import displaced_rows
from sluice.apply.pair_sessions import PairSessions
from sluice.control.rejects import RejectStore
from sluice.database.apply import DisplacedRow
from sluice.database.conflicts import Drift, RowStays
from sluice.model.change import Action, RowChange
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.rig.rig import Rig

TABLES = """
CREATE TABLE public.p (id int PRIMARY KEY, u int UNIQUE, v text);
CREATE TABLE public.c (id int PRIMARY KEY, p int NOT NULL REFERENCES public.p ON DELETE CASCADE);
"""
ROWS = "INSERT INTO public.p SELECT g, g FROM generate_series(1, 5) g; INSERT INTO public.c SELECT id, id FROM public.p"
HAND = "UPDATE public.p SET u = 9 WHERE id = 2"
CHANGE = "UPDATE public.p SET u = 9 WHERE id = 1"


def start(pair: Rig) -> None:
    """Inserts the rows on both sides."""
    with pair.apply():
        pair.master.execute(ROWS.encode())
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("stage", [20_000, 1])
def test_a_start_after_drift_repairs_both_rows(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture, stage: int
) -> None:
    pair = rig(TABLES, stage=stage)
    start(pair)
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.slave.execute(HAND.encode())
        pair.master.execute(CHANGE.encode())
        with pytest.raises(Drift, match="the value free"):
            pair.await_current()
    with caplog.at_level(logging.WARNING, "sluice.apply"), pair.apply():
        pair.await_current()
    assert pair.differences() == {}
    assert "public.p, row id = ••• (it held a value that row id = ••• has)" in caplog.text


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [{"safe": True}, {"policy": "overwrite"}], ids=["safe_mode: true", "overwrite"])
def test_no_row_is_lost_in_permanent_safe_mode(rig: Callable[..., Rig], options: dict[str, object]) -> None:
    pair = rig(TABLES, **options)
    start(pair)
    with pair.apply():
        # Each row's value is in the hand of the next one.
        pair.slave.execute("UPDATE public.p SET u = id + 90")
        pair.slave.execute("UPDATE public.p SET u = CASE id WHEN 1 THEN 5 ELSE id - 1 END")
        pair.master.execute("UPDATE public.p SET v = 'x' WHERE id = 1")
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "later",
    [
        "DELETE FROM public.c WHERE p = 2; DELETE FROM public.p WHERE id = 2",
        "UPDATE public.p SET u = NULL WHERE id = 1; UPDATE public.p SET u = 9 WHERE id = 2",
        "DELETE FROM public.c WHERE p = 2; UPDATE public.p SET id = 20, v = 'x' WHERE id = 2",
        "UPDATE public.p SET u = 8 WHERE id = 2; INSERT INTO public.p VALUES (6, 2)",
        "TRUNCATE public.p, public.c; INSERT INTO public.p VALUES (1, 9)",
    ],
)
def test_later_changes_of_the_window_are_considered(rig: Callable[..., Rig], later: str) -> None:
    pair = rig(TABLES, safe=True)
    start(pair)
    pair.slave.execute(HAND.encode())
    pair.master.execute(f"{CHANGE}; {later}".encode())
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.long
def test_rows_that_one_slice_displaces_come_back_with_a_later_one(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, safe=True, batch=2)
    start(pair)
    pair.slave.execute("UPDATE public.p SET u = u + 50")
    pair.slave.execute("UPDATE public.p SET u = id % 5 + 1")
    pair.master.execute("UPDATE public.p SET u = u + 100")
    pair.master.execute("UPDATE public.p SET u = 6 - id")
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


@contextmanager
def set_aside(pair: Rig) -> Iterator[None]:
    """In the block the change is a reject, because of a row that somebody inserted there; the apply continues."""
    start(pair)
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.slave.execute(HAND.encode())
        pair.master.execute(CHANGE.encode())
        pair.await_current()
        yield


def asked_by_force(pair: Rig) -> tuple[RejectStatus, str]:
    """Applies the one reject by force; returns its status and the answer."""
    store = RejectStore(pair.slave, pair.pair.prefix, "public", "dr1")
    every = tuple(RejectStatus)
    (reject,) = store.read(every)
    store.move([reject.id], RejectStatus.ASKED, "anna", force=True)
    pair.await_that(lambda: store.read(every, [reject.id])[0].status is not RejectStatus.ASKED)
    found = store.read(every, [reject.id])[0]
    return found.status, found.answer or ""


@pytest.mark.long
def test_a_change_applied_by_force_takes_no_row_away(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, policy="reject")
    with set_aside(pair):
        assert asked_by_force(pair)[0] is RejectStatus.APPLIED
        assert pair.differences() == {}


@pytest.mark.long
def test_it_is_refused_if_foreign_keys_act_and_names_them(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, policy="reject", slave_role=True)
    with set_aside(pair):
        before = pair.differences()
        status, answer = asked_by_force(pair)
        assert status is RejectStatus.SET_ASIDE
        assert "row id = '2' holds a unique value that it needs" in answer
        assert pair.differences() == before


@pytest.mark.long
def test_a_start_after_drift_stops_if_a_deletion_could_cascade(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, slave_role=True, interval=30.0)
    start(pair)
    pair.slave.execute(HAND.encode())
    pair.master.execute(CHANGE.encode())
    with pair.apply(), pytest.raises(RowStays, match=r"row id = '1': the UPDATE .*row id = '2' holds .*GRANT SET ON"):
        pair.await_current()
    pair.slave.execute("UPDATE public.p SET u = 2 WHERE id = 2")
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.long
def test_a_value_that_only_the_slave_keeps_unique_stops_it_and_both_rows_stay(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.t (id int PRIMARY KEY, u int)", safe=True)
    pair.slave.execute("CREATE UNIQUE INDEX alone ON public.t (u)")
    with pair.apply():
        pair.master.execute("INSERT INTO public.t VALUES (1, 1), (2, 2)")
        pair.await_current()
        pair.master.execute("UPDATE public.t SET u = 2 WHERE id = 1")
        with pytest.raises(RowStays, match="the master has both rows"):
            pair.await_current()
    assert pair.slave.execute("SELECT * FROM public.t ORDER BY 1").fetchall() == [(1, 1), (2, 2)]
    pair.slave.execute("DROP INDEX public.alone")
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "since",
    [
        "SELECT",
        "UPDATE public.t SET v = 'later' WHERE id = 2; UPDATE public.t SET v = 'last' WHERE id = 2",
        "UPDATE public.t SET id = 3, v = 'moved' WHERE id = 2",
        "DELETE FROM public.t WHERE id = 2",
        "DELETE FROM public.t WHERE id = 2; INSERT INTO public.t VALUES (2, 'other')",
        "UPDATE public.t SET id = 3 WHERE id = 2; UPDATE public.t SET id = 2, v = 'taken' WHERE id = 1",
    ],
)
def test_a_row_is_read_as_it_was_where_the_window_ends(rig: Callable[..., Rig], since: str) -> None:
    pair = rig("CREATE TABLE public.t (id numeric PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.t VALUES (1, 'one'), (2, '<two & more>')")
    at = PostgresQueue(pair.master, pair.pair.prefix, "public").take()
    pair.master.execute(f"{since}; INSERT INTO public.t VALUES (9, 'new')".encode())
    table = TableName("public", "t")
    change = RowChange(1, table, Action.INSERT, ("id",), {"id": "1", "v": "one"}, {}, None, None)
    links = PairSessions(pair.pair)
    links.open()
    try:
        with displaced_rows.reading_master(links, at) as master:
            found = master.rows([DisplacedRow(change, (key,)) for key in ("2", "9", "1")])
    finally:
        links.close()
    assert found == [{"id": "2", "v": "<two & more>"}, None, {"id": "1", "v": "one"}]


IDENTITIES = """
CREATE TABLE public.p (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x int GENERATED ALWAYS AS IDENTITY);
CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p ON DELETE CASCADE ON UPDATE CASCADE);
"""


@pytest.mark.long
@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("column", ["id", "x"])
def test_a_referred_row_with_an_identity_stops_the_apply(rig: Callable[..., Rig], column: str, safe: bool) -> None:
    pair = rig(IDENTITIES, slave_role=True, safe=safe)
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.p DEFAULT VALUES; INSERT INTO public.p DEFAULT VALUES")
        pair.master.execute("INSERT INTO public.c VALUES (1, 1), (2, 2)")
        pair.await_current()
        if not safe:
            pair.await_normal_mode(running)
        pair.master.execute(f"UPDATE public.p SET {column} = DEFAULT WHERE id = 1".encode())
        said = r"GENERATED ALWAYS.*row id = '1' cannot be deleted and inserted.*SET GENERATED BY DEFAULT"
        with pytest.raises(RowStays, match=said):
            pair.await_current()
    assert pair.slave.execute("SELECT p FROM public.c ORDER BY 1").fetchall() == [(1,), (2,)]
    pair.slave.execute(f"ALTER TABLE public.p ALTER COLUMN {column} SET GENERATED BY DEFAULT".encode())
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


AT_THE_COMMIT = {
    "plain": "CREATE TABLE public.p (id int PRIMARY KEY, u int UNIQUE DEFERRABLE, v text)",
    "excluded": "CREATE TABLE public.p (id int PRIMARY KEY, u int, v text,"
    " EXCLUDE USING gist (int4range(u, u + 1) WITH &&) DEFERRABLE INITIALLY DEFERRED)",
    "partitioned": """
        CREATE TABLE public.p (id int, u int, v text, part int DEFAULT 1, PRIMARY KEY (id, part),
            UNIQUE (u, part) DEFERRABLE) PARTITION BY LIST (part);
        CREATE TABLE public.p1 PARTITION OF public.p DEFAULT
    """,
}
EXCHANGE = "UPDATE public.p SET u = 9 - u WHERE id IN (4, 5)"


@pytest.mark.long
@pytest.mark.parametrize("stage", [20_000, 1])
@pytest.mark.parametrize("tables", AT_THE_COMMIT)
def test_a_start_after_drift_that_only_the_commit_finds_repairs_all_rows(
    rig: Callable[..., Rig], tables: str, stage: int
) -> None:
    pair = rig(AT_THE_COMMIT[tables], slave_role=True, stage=stage)
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.p SELECT g, g FROM generate_series(1, 5) g")
        pair.await_normal_mode(running)
        # Row 2 has what row 1 gets; row 3 has what row 2 should have.
        pair.slave.execute("UPDATE public.p SET u = u + 50 WHERE id IN (2, 3)")
        pair.slave.execute("UPDATE public.p SET u = CASE id WHEN 2 THEN 9 ELSE 2 END WHERE id IN (2, 3)")
        pair.master.execute(f"{CHANGE}; {EXCHANGE}".encode())
        with pytest.raises(Drift, match=r"the commit, by .*the value free"):
            pair.await_current()
    with pair.apply():
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("safe", [False, True])
def test_a_slice_may_end_between_rows_that_exchange_a_value(rig: Callable[..., Rig], safe: bool) -> None:
    pair = rig(AT_THE_COMMIT["plain"], slave_role=True, safe=safe, batch=2)
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.p SELECT g, g FROM generate_series(1, 5) g")
        pair.await_current()
        if not safe:
            pair.await_normal_mode(running)
        pair.master.execute("UPDATE public.p SET u = 6 - u, v = 'x'")
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("stage", [20_000, 1])
@pytest.mark.parametrize("safe", [False, True])
def test_a_row_without_a_key_keeps_the_slaves_own_columns(rig: Callable[..., Rig], safe: bool, stage: int) -> None:
    pair = rig("CREATE TABLE public.t (a int, b text)", safe=safe, stage=stage)
    pair.slave.execute("ALTER TABLE public.t ADD own text")
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.t VALUES (1, 'x'), (2, NULL)")
        pair.await_current()
        if not safe:
            pair.await_normal_mode(running)
        pair.slave.execute("UPDATE public.t SET own = 'mine' || a")
        pair.master.execute("UPDATE public.t SET b = 'y'")
        pair.await_current()
    assert pair.slave.execute("SELECT * FROM public.t ORDER BY a").fetchall() == [(1, "y", "mine1"), (2, "y", "mine2")]
