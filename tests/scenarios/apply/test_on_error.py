"""A table whose changes cannot be applied is left out alone, if the configuration says so, until a load."""

import pytest

from devstack.postgres import PostgresServer
from sluice.database.conflicts import Drift
from sluice.load import steps
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.vendors.postgres.connection import quoted
from tests.errors import raises_code
from tests.rig.rig import MakePair, Rig

BAD, GOOD = TableName("public", "bad"), TableName("public", "good")


def normal(pair_of: MakePair, more: str = "", *, by_table: bool = False, role: bool = False) -> Rig:
    """A slave that is NORMAL with two tables; `more`: further DDL. `by_table`: `on_error: isolate` is only in the line
    of the tables. `role`: no account is a superuser."""
    isolate = {"on_error": "isolate"}
    pair = pair_of(
        tables={"public.*": isolate if by_table else {}},
        slave_options={} if by_table else isolate,
        block_rows=50,
        seconds=0.05,
        interval=0.1,
        role=role,
    )
    for name in ("bad", "good"):
        pair.master.execute(f"CREATE TABLE public.{name} (id int PRIMARY KEY, v text)".encode())
        pair.master.execute(f"INSERT INTO public.{name} SELECT g, 'old' FROM generate_series(1, 100) g".encode())
    if more:
        pair.master.execute(more.encode())
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
    steps.finish(first)
    return pair


def spoil(pair: Rig) -> None:
    """Changes a row on the slave, and then on the master."""
    pair.slave.execute("UPDATE public.bad SET v = 'by hand' WHERE id = 7")
    with pair.master.transaction():
        pair.master.execute("UPDATE public.bad SET v = 'new' WHERE id < 10")
        pair.master.execute("UPDATE public.good SET v = 'new' WHERE id < 10")


def fix(pair: Rig) -> None:
    update = pair.update(tables=["public.bad"])
    pair.prepare(update)
    pair.load_to_normal(update)
    pair.await_current()
    assert not pair.checkpoint.tables.not_ready
    pair.assert_equal()


def test_a_conflict_leaves_out_its_table_alone_and_a_load_mends_it(pair_of: MakePair) -> None:
    pair = normal(pair_of)
    with pair.apply() as running:
        pair.await_normal_mode(running)
        spoil(pair)
        pair.await_current()
        states = pair.checkpoint.tables
        assert states.not_ready == {BAD: TableState.INCONSISTENT} and pair.state() is SlaveState.NORMAL
        assert "row id = '7': UPDATE expected v = 'old' on the slave and found v = 'by hand'" in states.explain(BAD)
        pair.master.execute("UPDATE public.bad SET v = 'left out'")
        pair.await_current()
        pair.assert_equal([GOOD])
        assert pair.slave.execute("SELECT count(*) FROM public.bad WHERE v = 'old'").fetchone() == (99,)
        fix(pair)
    with pair.apply():
        pair.await_current()
        pair.assert_equal()


@pytest.mark.long
def test_a_table_that_is_made_again_in_one_window_and_refused_is_left_out_alone(pair_of: MakePair) -> None:
    pair = normal(pair_of)
    pair.slave.execute(
        "CREATE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('public.bad') AND attname = 'w') THEN "
        "RAISE 'refused here'; END IF; END $$"
    )
    pair.slave.execute(
        "CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.refuse()"
    )
    pair.slave.execute("ALTER EVENT TRIGGER refuse ENABLE ALWAYS")
    for _ in range(2):
        pair.master.execute("DROP TABLE public.bad")
        pair.master.execute("CREATE TABLE public.bad (id int PRIMARY KEY, w text)")
        pair.master.execute("INSERT INTO public.bad VALUES (1, 'a')")
    pair.master.execute("INSERT INTO public.good VALUES (1000, 'new')")
    with pair.apply():
        pair.await_current()
        states = pair.checkpoint.tables
        assert states.not_ready == {BAD: TableState.INCONSISTENT} and "refused here" in states.explain(BAD)
        pair.assert_equal([GOOD])
        pair.slave.execute("DROP EVENT TRIGGER refuse")
        fix(pair)


@pytest.mark.long
def test_a_definition_that_cannot_be_followed_leaves_out_its_table_alone(pair_of: MakePair) -> None:
    pair = normal(pair_of)
    pair.slave.execute("CREATE VIEW public.reads AS SELECT v FROM public.bad")
    with pair.apply():
        pair.master.execute("ALTER TABLE public.bad DROP COLUMN v")
        pair.master.execute("UPDATE public.good SET v = 'new'")
        pair.await_current()
        assert "cannot drop column v" in pair.checkpoint.tables.explain(BAD)
        pair.assert_equal([GOOD])
        pair.slave.execute("DROP VIEW public.reads")
        fix(pair)


@pytest.mark.long
def test_a_label_that_the_account_may_not_add_leaves_out_its_table_alone(
    pair_of: MakePair, postgres: PostgresServer
) -> None:
    mood = "CREATE TYPE public.mood AS ENUM ('sad'); ALTER TABLE public.bad ADD m public.mood"
    pair = normal(pair_of, mood, role=True)
    with postgres.connect(pair.slave_info.database) as administrator:
        administrator.execute("ALTER TYPE public.mood OWNER TO CURRENT_USER")
    with pair.apply():
        pair.master.execute("ALTER TYPE public.mood ADD VALUE 'gay'")
        pair.master.execute("UPDATE public.bad SET m = 'gay'")
        pair.master.execute("UPDATE public.good SET v = 'new'")
        pair.await_current()
        why = pair.checkpoint.tables.explain(BAD)
        assert (
            "must be owner of type" in why
            and why.endswith("'gay' AFTER 'sad'")
            and "ADD VALUE IF NOT EXISTS 'gay'" in why
        )
        pair.assert_equal([GOOD])
        with postgres.connect(pair.slave_info.database) as administrator:
            administrator.execute(f"ALTER TYPE public.mood OWNER TO {quoted(pair.slave_info.user)}".encode())
        fix(pair)


@pytest.mark.long
def test_a_table_that_others_refer_to_is_left_out_alone_as_well(pair_of: MakePair) -> None:
    pair = normal(pair_of, "ALTER TABLE public.good ADD FOREIGN KEY (id) REFERENCES public.bad")
    with pair.apply() as running:
        pair.await_normal_mode(running)
        spoil(pair)
        pair.master.execute("INSERT INTO public.bad VALUES (101, 'new'); INSERT INTO public.good VALUES (101, 'new')")
        pair.await_current()
        assert pair.checkpoint.tables.not_ready == {BAD: TableState.INCONSISTENT}
        pair.assert_equal([GOOD])
        fix(pair)


@pytest.mark.long
def test_where_foreign_keys_act_a_table_that_others_refer_to_stops_the_slave(pair_of: MakePair) -> None:
    pair = normal(pair_of, "ALTER TABLE public.good ADD FOREIGN KEY (id) REFERENCES public.bad", role=True)
    with raises_code("table-not-isolated", match=r"public\.good → public\.bad"), pair.apply() as running:
        pair.await_normal_mode(running)
        spoil(pair)
        pair.await_current()
    assert not pair.checkpoint.tables.not_ready


@pytest.mark.long
def test_on_error_of_a_table_overrides_that_of_all(pair_of: MakePair) -> None:
    pair = normal(pair_of, by_table=True)
    with pair.apply() as running:
        pair.await_normal_mode(running)
        spoil(pair)
        pair.await_current()
        assert list(pair.checkpoint.tables) == [BAD]


def test_by_default_a_definition_that_is_refused_leaves_out_its_table_alone(pair_of: MakePair) -> None:
    pair = pair_of(interval=0.1)
    pair.begin("CREATE TABLE public.good (id int PRIMARY KEY, v text)")
    pair.slave.execute("CREATE VIEW public.reads AS SELECT v FROM public.good")
    with pair.apply():
        pair.master.execute("INSERT INTO public.good VALUES (1, 'a')")
        pair.master.execute("ALTER TABLE public.good ALTER v TYPE varchar(30)")
        pair.await_current()
        assert "cannot alter type of a column used by a view" in pair.checkpoint.tables.explain(GOOD)
        assert pair.state() is SlaveState.NORMAL


@pytest.mark.long
def test_a_new_table_that_the_slave_refuses_is_left_out_alone(pair_of: MakePair) -> None:
    pair = pair_of(interval=0.1)
    pair.begin("CREATE TABLE public.good (id int PRIMARY KEY, v text)")
    pair.slave.execute("CREATE VIEW public.bad AS SELECT 1 AS one")
    with pair.apply():
        pair.master.execute("CREATE TABLE public.bad (id int PRIMARY KEY, v text)")
        pair.capture_table("bad")
        pair.master.execute("INSERT INTO public.bad VALUES (1, 'a'); INSERT INTO public.good VALUES (1, 'a')")
        pair.await_current()
        assert pair.checkpoint.tables.state(BAD) is TableState.INCONSISTENT
        pair.assert_equal([GOOD])
        pair.slave.execute("DROP VIEW public.bad")
        fix(pair)


def test_by_default_a_conflict_stops_the_slave(pair_of: MakePair) -> None:
    pair = pair_of(interval=0.1)
    pair.begin("CREATE TABLE public.bad (id int PRIMARY KEY, v text); CREATE TABLE public.good (LIKE public.bad)")
    pair.master.execute("INSERT INTO public.bad SELECT g, 'old' FROM generate_series(1, 9) g")
    with pytest.raises(Drift), pair.apply() as running:
        pair.await_normal_mode(running)
        spoil(pair)
        pair.await_current()
