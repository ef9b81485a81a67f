"""A queue of locks at one table of the master holds up nothing of any other one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from sluice.model.names import TableName
from sluice.vendors.postgres.connection import connect
from sluice.verify.compare import CompareOptions
from sluice.verify.definition_gaps import MasterDefinitions
from sluice.verify.findings import Outcome
from sluice.verify.resync import compare_table
from tests.rig.loaders import Background
from tests.rig.rig import Rig
from tests.waiting import until

TABLES = """
CREATE TABLE public.busy (id int PRIMARY KEY, n int DEFAULT 3, g int GENERATED ALWAYS AS (n * 2) STORED,
    v text DEFAULT lower('V') CHECK (lower(v) <> 'x'));
CREATE INDEX busy_lower ON public.busy (lower(v)) WHERE n > 0;
CREATE TABLE public.free (id int PRIMARY KEY, n int)
"""
WAITING = ("ALTER TABLE public.busy ADD later int", "TRUNCATE public.busy", "DROP INDEX public.busy_lower")


@contextmanager
def queue(pair: Rig, statement: str) -> Iterator[None]:
    """A reader of `busy` whose transaction does not end, and `statement`, which waits behind it."""
    with (
        connect(pair.master_info, application="reader") as reader,
        connect(pair.master_info, application="waiting", autocommit=True) as waiting,
    ):
        reader.execute("SELECT count(*) FROM public.busy")
        writer = Background(lambda: waiting.execute(statement.encode()))
        waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = %s)"
        until(lambda: pair.master.execute(waits, [waiting.info.backend_pid]).fetchone() == (True,))
        yield
        assert pair.master.execute(waits, [waiting.info.backend_pid]).fetchone() == (True,)
        reader.rollback()
        assert writer.end() is None


def indexed(pair: Rig, name: str) -> bool:
    return pair.slave.execute("SELECT to_regclass(%s) IS NOT NULL", [f"public.{name}"]).fetchone() == (True,)


@pytest.mark.releases
@pytest.mark.parametrize("statement", [WAITING[0], *(pytest.param(one, marks=pytest.mark.long) for one in WAITING[1:])])
def test_an_apply_that_starts_beside_it_applies_all_and_follows_definitions_of_other_tables(
    rig: Callable[..., Rig], statement: str
) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.busy (id) SELECT g FROM generate_series(1, 5) g")
    pair.master.execute("INSERT INTO public.free SELECT g, g FROM generate_series(1, 5) g")
    with queue(pair, statement), pair.apply():
        pair.await_current()
        pair.master.execute("UPDATE public.free SET n = n + 1")
        pair.await_current()
        pair.assert_equal([table for table in pair.tables(pair.slave) if table.name == "free"])
        assert pair.slave.execute("SELECT count(*) FROM public.busy").fetchone() == (5,)
        pair.master.execute("CREATE INDEX free_n ON public.free (n)")
        pair.await_that(lambda: indexed(pair, "free_n"))
    with pair.apply():
        pair.await_current()
        pair.assert_equal()


@pytest.mark.long
@pytest.mark.releases
@pytest.mark.parametrize("options", [CompareOptions(), CompareOptions(sample=3)], ids=["all rows", "a sample"])
@pytest.mark.parametrize("applied", [True, False], ids=["beside the apply", "without an apply"])
def test_a_comparison_beside_it_names_the_table_that_waits_and_compares_others(
    rig: Callable[..., Rig], applied: bool, options: CompareOptions
) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.busy (id) SELECT g FROM generate_series(1, 5) g")
    pair.master.execute("INSERT INTO public.free SELECT g, g FROM generate_series(1, 5) g")
    busy, free = TableName("public", "busy"), TableName("public", "free")
    with pair.apply():
        pair.await_current()
    with ExitStack() as stack:
        if applied:
            stack.enter_context(pair.apply())
            pair.await_that(lambda: compare_table(pair.pair, pair.store, free, options).outcome is Outcome.IDENTICAL)
        stack.enter_context(queue(pair, WAITING[0]))
        skipped = compare_table(pair.pair, pair.store, busy, options)
        assert skipped.outcome is Outcome.COULD_NOT_COMPARE and "lock" in skipped.reason, skipped.reason
        assert compare_table(pair.pair, pair.store, free, options).outcome is Outcome.IDENTICAL
        defined = MasterDefinitions.read("postgres", pair.master, [busy, free])
        assert defined.locked == {busy} and list(defined.tables) == [free]
    assert compare_table(pair.pair, pair.store, busy, options).outcome is not Outcome.DIFFERENT


@pytest.mark.long
@pytest.mark.releases
@pytest.mark.parametrize("change", ["ALTER TABLE public.busy ADD later int DEFAULT 7", "TRUNCATE public.busy"])
def test_an_index_that_waits_for_a_report_on_the_slave_keeps_no_change_of_its_table_waiting(
    rig: Callable[..., Rig], change: str
) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.busy (id) SELECT g FROM generate_series(1, 5) g")
    pair.master.execute("INSERT INTO public.free SELECT g, g FROM generate_series(1, 5) g")
    unfinished = "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid)"
    with pair.apply():
        pair.await_current()
        with connect(pair.slave_info, application="report") as report:
            report.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            report.execute("SELECT count(*) FROM public.free")
            pair.master.execute("CREATE INDEX busy_n ON public.busy (n)")
            pair.await_that(lambda: pair.slave.execute(unfinished, ["public.busy_n"]).fetchone() == (True,))
            pair.master.execute(change.encode())
            pair.master.execute("INSERT INTO public.busy (id) VALUES (6)")
            pair.await_current()
            pair.assert_equal()
            report.rollback()
        pair.await_that(lambda: indexed(pair, "busy_n"))
        pair.await_that(lambda: pair.slave.execute(unfinished, ["public.busy_n"]).fetchone() == (False,))
        pair.assert_equal()
