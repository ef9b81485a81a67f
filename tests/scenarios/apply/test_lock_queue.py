"""A queue of locks at one table of the master holds up nothing of any other one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from sluice.database.errors import LockNotAvailable
from sluice.load import steps
from sluice.model.names import TableName
from sluice.preflight import checks
from sluice.vendors.postgres.connection import connect
from sluice.verify.compare import CompareOptions
from sluice.verify.definition_gaps import MasterDefinitions
from sluice.verify.findings import Outcome
from sluice.verify.resync import compare_table
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.waiting import until

TABLES = """
CREATE TABLE public.busy (id int PRIMARY KEY, n int DEFAULT 3, g int GENERATED ALWAYS AS (n * 2) STORED,
    v text DEFAULT lower('V') CHECK (lower(v) <> 'x'));
CREATE INDEX busy_lower ON public.busy (lower(v)) WHERE n > 0;
CREATE TABLE public.free (id int PRIMARY KEY, n int)
"""
WAITING = ("ALTER TABLE public.busy ADD later int", "TRUNCATE public.busy", "DROP INDEX public.busy_lower")


@contextmanager
def queue(pair: Rig, statement: str, reads: str = "SELECT FROM public.busy") -> Iterator[None]:
    """A reader whose transaction does not end, and `statement`, which waits behind it."""
    with (
        connect(pair.master_info, application="reader") as reader,
        connect(pair.master_info, application="waiting", autocommit=True) as waiting,
    ):
        reader.execute(reads.encode())
        writer = Background(lambda: waiting.execute(statement.encode()))
        waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = %s)"
        until(lambda: pair.master.execute(waits, [waiting.info.backend_pid]).fetchone() == (True,))
        try:
            yield
            assert pair.master.execute(waits, [waiting.info.backend_pid]).fetchone() == (True,)
        finally:
            reader.rollback()
            failure = writer.end()
        assert failure is None


CHECKED = f"""
{TABLES};
CREATE TABLE public.parted (id int PRIMARY KEY, n int DEFAULT 3) PARTITION BY RANGE (id);
CREATE TABLE public.parted_1 PARTITION OF public.parted FOR VALUES FROM (0) TO (10);
CREATE TABLE public.counted (id serial PRIMARY KEY);
CREATE TABLE public.keyless (id int);
CREATE SEQUENCE public.numbers;
CREATE SCHEMA beside;
CREATE TABLE beside.other (id int);
CREATE PUBLICATION every FOR ALL TABLES
"""
LOCKED = [
    ("SELECT FROM public.busy", "ALTER TABLE public.busy ADD later int", "public.busy"),
    ("SELECT FROM public.parted_1", "TRUNCATE public.parted_1", "public.parted"),
    ("SELECT nextval('public.counted_id_seq')", "ALTER SEQUENCE public.counted_id_seq CACHE 9", "public.counted"),
    ("SELECT nextval('public.numbers')", "ALTER SEQUENCE public.numbers CACHE 9", ""),
    ("SELECT FROM beside.other", "TRUNCATE beside.other", ""),
]
"""What a reader does, what waits behind it, and the replicated table whose definition cannot be read then."""


@pytest.mark.releases
@pytest.mark.parametrize(
    ("reads", "waits", "table"), [LOCKED[0], *(pytest.param(*one, marks=pytest.mark.long) for one in LOCKED[1:])]
)
def test_a_check_beside_it_names_the_table_that_waits_and_checks_others(
    rig: Callable[..., Rig], reads: str, waits: str, table: str
) -> None:
    pair = rig(CHECKED)
    pair.slave.execute("ALTER TABLE public.free ALTER n TYPE smallint")

    def told(light: bool) -> str:
        with (
            connect(pair.master_info, application="check") as master,
            connect(pair.slave_info, application="check") as slave,
        ):
            found = checks.of_master(master, pair.replication, light=light)
            found += checks.of_slave(slave, pair.replication, pair.pair.slave, master=master, light=light)
        return " ".join(map(str, found))

    def check() -> None:
        whole, light = told(False), told(True)
        assert "public.free.n" in whole, whole
        for text in (whole, light):
            assert f"definitions of {table} that" in text if table else "definitions of" not in text, text

    with queue(pair, waits, reads):
        assert Background(check).end() is None
    assert "definitions of" not in told(False)


@pytest.mark.long
@pytest.mark.parametrize(("reads", "waits", "table"), LOCKED)
def test_a_load_that_begins_beside_it_names_the_table_that_waits(
    pair_of: MakePair, reads: str, waits: str, table: str
) -> None:
    pair = pair_of()
    pair.master.execute(CHECKED.encode())
    pair.capture()
    update = pair.update()
    steps.begin(update, pair.store)
    with queue(pair, waits, reads):
        failure = Background(lambda: steps.create_tables(update)).end()
        if table in ("public.busy", "public.counted"):  # of a partition it needs nothing
            assert isinstance(failure, LockNotAvailable) and table in str(failure), failure
        else:
            assert failure is None
    steps.create_tables(update)
    steps.plan(update, pair.store)
    assert sorted(table.name for table in pair.tables(pair.slave)) == ["busy", "counted", "free", "keyless", "parted"]


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
