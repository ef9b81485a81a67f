"""Queries on the master and its slave at one position, under traffic."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from sluice.database.broadcasts import Query
from sluice.errors import Terminal
from sluice.model.broadcast import AnswerState, Broadcast
from sluice.operate import broadcast
from sluice.operate.broadcast import NotOffered
from sluice.vendors.postgres import queries
from sluice.vendors.postgres.connection import connect
from tests.errors import raises_code
from tests.rig.rig import Rig

TABLES = 'CREATE TABLE public."T; --" (id int PRIMARY KEY, v text); CREATE TABLE public.n (id int)'
COUNT = 'SELECT count(*), sum(id), \'100 %\' AS "a %s" FROM public."T; --"'


def asking(rig: Rig) -> Rig:
    """The replication with `broadcast: true`, in its file as well."""
    with rig.replication.source.open("a") as file:
        file.write("broadcast: true\n")
    return rig.with_options(broadcast=True)


@contextmanager
def writing(rig: Rig) -> Iterator[None]:
    """Two writers, whose transactions overlap."""
    stop = threading.Event()

    def write(number: int) -> None:
        with connect(rig.master_info, application="writer", autocommit=True) as writer:
            while not stop.is_set():
                number += 2
                with writer.transaction():
                    writer.execute(f"INSERT INTO public.\"T; --\" VALUES ({number}, 'x')".encode())
                    stop.wait(0.005)

    writers = [threading.Thread(target=write, args=(number,), daemon=True) for number in (0, 1)]
    for each in writers:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in writers:
            each.join()


def ask(rig: Rig, statement: str = COUNT, **options: object) -> int:
    return broadcast.ask(rig.replication, rig.master_info, Query(statement, "anna", **options))  # type: ignore[arg-type]


def answered(rig: Rig, id_: int) -> Broadcast:
    return broadcast.await_answers(rig.replication, rig.master_info, id_, 60)


@pytest.mark.long
def test_a_slave_answers_what_the_master_did_while_rows_come(rig: Callable[..., Rig]) -> None:
    pair = asking(rig(TABLES))
    with pair.apply(), writing(pair):
        asked = [ask(pair) for _ in range(20)]
        found = [answered(pair, id_) for id_ in asked]
    assert [one.state("dr1") for one in found] == [AnswerState.EQUAL] * 20
    assert found[-1].master is not None and found[-1].master.columns == ("count", "sum", "a %s")
    assert found[0].master != found[-1].master, "nothing was written meanwhile"
    assert found[-1].slaves["dr1"] == found[-1].master
    assert [one.id for one in broadcast.recent(pair.replication, pair.master_info)] == asked[::-1]


def test_a_waiting_query_is_answered_at_its_position_by_a_later_or_restarted_apply(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = asking(rig(TABLES))
    insert = "INSERT INTO public.\"T; --\" SELECT g, 'x' FROM generate_series({}, {}) g"
    pair.master.execute(insert.format(1, 10).encode())
    first = ask(pair)
    pair.master.execute(insert.format(11, 20).encode())
    second = ask(pair)
    pair.master.execute(insert.format(21, 30).encode())
    run = queries.run

    def dying(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(queries, "run", run)
        run(*arguments, **options)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(queries, "run", dying)
    with pytest.raises(KeyboardInterrupt), pair.apply():
        pair.await_that(lambda: False)
    assert answered_now(pair, first) == AnswerState.WAITING
    with pair.apply():
        found = [answered(pair, id_) for id_ in (first, second)]
        pair.await_current()
    assert [one.state("dr1") for one in found] == [AnswerState.EQUAL] * 2
    assert [one.slaves["dr1"].rows[0][0] for one in found if one.slaves["dr1"]] == ["10", "20"]
    assert pair.differences() == {}


def answered_now(rig: Rig, id_: int) -> AnswerState:
    return broadcast.read(rig.replication, rig.master_info, id_).state("dr1")


@pytest.mark.long
def test_a_slave_that_differs_or_fails_says_so_and_goes_on(rig: Callable[..., Rig]) -> None:
    pair = asking(rig(TABLES))
    pair.slave.execute('INSERT INTO public.n VALUES (1); ALTER TABLE public."T; --" DROP COLUMN v')
    with pair.apply():
        different, failed = ask(pair, "TABLE public.n"), ask(pair, 'SELECT v FROM public."T; --"')
        assert answered(pair, different).state("dr1") is AnswerState.DIFFERENT
        found = answered(pair, failed)
        assert found.state("dr1") is AnswerState.FAILED
        assert found.slaves["dr1"] is not None and "v" in found.slaves["dr1"].error
        slow = ask(pair, "SELECT pg_sleep(0)", seconds=0.5)
        assert answered(pair, slow).state("dr1") is AnswerState.EQUAL
        pair.await_current()


REFUSED = [
    "DELETE FROM public.n",
    "SELECT 1; DROP TABLE public.n",
    "WITH gone AS (DELETE FROM public.n RETURNING id) SELECT * FROM gone",
    "SELECT 1; COMMIT; DROP TABLE public.n",
    "SELECT * FROM public.n FOR UPDATE",
    "SELECT nextval('public.demo_seq')",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "SELECT public.hidden_write()",
    "COMMIT",
    "DO $$ BEGIN DELETE FROM public.n; END $$",
    "COPY public.n TO STDOUT",
    "SELECT generate_series(1, 10001)",
    "SELECT $1",
    "nonsense",
    "",
]


def test_statements_that_write_or_are_no_queries_are_refused_before_any_slave_is_asked(rig: Callable[..., Rig]) -> None:
    pair = asking(rig(TABLES))
    pair.master.execute(
        "INSERT INTO public.n VALUES (1); CREATE FUNCTION public.hidden_write() RETURNS void LANGUAGE sql "
        "AS 'DELETE FROM public.n'"
    )
    taken = []
    for statement in REFUSED:
        with suppress(Terminal):
            ask(pair, statement)
            taken.append(statement)
    assert taken == []
    assert broadcast.recent(pair.replication, pair.master_info) == []
    assert pair.master.execute("SELECT count(*) FROM public.n").fetchone() == (1,)


def test_queries_need_the_configuration_and_hide_masked_columns(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, mask="public.n.id")
    with pytest.raises(NotOffered, match="broadcast: true"):
        ask(pair)
    pair = asking(pair)
    pair.master.execute("INSERT INTO public.n VALUES (4711)")
    asked = ask(pair, "TABLE public.n")
    found = broadcast.read(pair.replication, pair.master_info, asked).master
    assert found is not None and found.count == 1 and "4711" not in found.text()
    with raises_code("broadcast-refused") as refused:
        ask(pair, "SELECT ('x' || id)::int FROM public.n")
    assert "4711" not in str(refused.value)


@pytest.mark.long
def test_a_slave_that_was_loaded_since_reports_that_it_passed_the_position(rig: Callable[..., Rig]) -> None:
    pair = asking(rig(TABLES))
    pair.master.execute("INSERT INTO public.\"T; --\" VALUES (1, 'x')")
    asked = ask(pair)
    pair.master.execute("INSERT INTO public.\"T; --\" VALUES (2, 'x')")
    pair.slave.execute("INSERT INTO public.\"T; --\" VALUES (1, 'x'), (2, 'x')")
    pair.set_back(pair.now())
    with pair.apply():
        found = answered(pair, asked).slaves["dr1"]
    assert found is not None and "had passed" in found.error
