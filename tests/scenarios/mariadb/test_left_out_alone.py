"""What a MariaDB slave refuses of one table leaves out that table alone, with the reason; all others continue."""

from collections.abc import Callable, Sequence

import pytest

from sluice.database.conflicts import ValueUnfit
from sluice.model.change import Action
from sluice.model.names import TableName
from sluice.model.table_state import TableState
from tests.scenarios.mariadb.rig import Rig
from tests.scenarios.mariadb.test_conflicts import begun

TABLES = (
    "CREATE TABLE public.one (id int PRIMARY KEY, v text, twice int GENERATED ALWAYS AS (id * 2) STORED); "
    "CREATE TABLE public.other (id int PRIMARY KEY, v text); "
    "INSERT INTO public.one VALUES (1, 'x'); INSERT INTO public.other VALUES (1, 'x')"
)
ONE, OTHER = TableName("public", "one"), TableName("public", "other")
ROW = ["INSERT INTO public.one VALUES (1000, 'abcdef')"]
REFUSED = {
    "a value": (["ALTER TABLE one MODIFY id tinyint"], ROW, "Out of range"),
    "a check": (["ALTER TABLE one ADD CONSTRAINT low CHECK (id < 10)"], ROW, "low"),
    "a trigger": (
        ["CREATE TRIGGER refuses BEFORE INSERT ON one FOR EACH ROW SIGNAL SQLSTATE '45000' "
         "SET MESSAGE_TEXT = 'not here', MYSQL_ERRNO = 54321"],
        ROW, "not here",
    ),
    "a trigger without its table": (
        ["CREATE TRIGGER refuses BEFORE INSERT ON one FOR EACH ROW INSERT INTO no_such_table VALUES (1)"],
        ROW, "no_such_table",
    ),
    "a trigger that may not": (
        ["CREATE TRIGGER refuses BEFORE INSERT ON one FOR EACH ROW INSERT INTO mysql.func VALUES ()"], ROW, "denied",
    ),
    "a table that is gone": (["DROP TABLE one"], ROW, "does not exist"),
    "an ALTER": ([], ['ALTER TABLE public.one ADD COLUMN "ID" int'], "Duplicate column name"),
    "a column that would lose something": ([], ["ALTER TABLE public.one ADD tags text[]"], "lossy_columns"),
    "a column that was computed": ([], ["ALTER TABLE public.one ALTER twice DROP EXPRESSION"], "was computed"),
    "a move into its own database": (
        [], ["CREATE SCHEMA elsewhere", "ALTER TABLE public.one SET SCHEMA elsewhere"], "denied",
    ),
}  # fmt: skip
"""The slave's statements, the master's, and a part of the reason."""


@pytest.mark.long
@pytest.mark.parametrize("kind", REFUSED)
def test_one_table_is_left_out_with_the_reason_and_the_other_goes_on(rig: Callable[..., Rig], kind: str) -> None:
    here, there, reason = REFUSED[kind]
    pair = begun(rig, TABLES, on_error="isolate")
    for statement in here:
        pair.slave.run(statement)
    left_out(pair, there, reason)


@pytest.mark.parametrize("kind", ["an ALTER", "a column that would lose something"])
def test_a_refused_definition_leaves_out_its_table_by_default(rig: Callable[..., Rig], kind: str) -> None:
    _, there, reason = REFUSED[kind]
    left_out(begun(rig, TABLES), there, reason)


@pytest.mark.long
def test_a_table_that_cannot_be_created_keeps_no_other_from_being_made(rig: Callable[..., Rig]) -> None:
    pair = begun(rig, TABLES)
    with pair.apply() as running:
        running.await_normal_mode()
        pair.master.execute('CREATE TABLE public.twice ("Id" int PRIMARY KEY, id int)')
        for name in ("t😀", "t "):
            pair.master.execute(f'CREATE TABLE public."{name}" (id int PRIMARY KEY)'.encode())
        pair.master.execute("CREATE TABLE public.later (id int PRIMARY KEY)")
        pair.capture()
        pair.master.execute("INSERT INTO public.twice VALUES (1, 2); INSERT INTO public.later VALUES (1)")
        pair.master.execute('INSERT INTO public."t😀" VALUES (1); INSERT INTO public."t " VALUES (1)')
        pair.await_current()
        reasons = pair.checkpoint.tables.reasons
        assert {table.name for table in reasons} == {"twice", "t😀", "t "}
        assert "Duplicate column name" in reasons[TableName("public", "twice")]
        assert "a character beyond U+FFFF" in reasons[TableName("public", "t😀")]
        assert pair.slave_rows(TableName("public", "later")) == [(1,)]


def test_a_table_that_differs_is_told_and_the_changes_beside_it_arrive(rig: Callable[..., Rig]) -> None:
    pair = begun(rig, TABLES)
    with pair.apply() as running:
        running.await_normal_mode()
        with pair.master.transaction():  # one window
            pair.master.execute("INSERT INTO public.other VALUES (2, 'before')")
            pair.master.execute(f"SELECT {pair.schema}.demo_ddl_item('DIFFER', 'public', 'one', 'nobody knows', NULL)")
            pair.master.execute("INSERT INTO public.other VALUES (3, 'between')")
            pair.master.execute("ALTER TABLE public.other ADD w int")
            pair.master.execute(f"SELECT {pair.schema}.demo_check_structure()")
            pair.master.execute("INSERT INTO public.other VALUES (4, 'after', 5)")
        pair.await_current()
        (told,) = pair.rejects.differing()
        assert told.action == Action.DIFFER and told.table == ONE and "nobody knows" in told.reason
        assert pair.slave_rows(OTHER) == pair.master_rows(OTHER) and len(pair.slave_rows(OTHER)) == 4


LOADED = {
    "a date before year 1": ("v date", "'0044-03-15 BC'"),
    "an infinite time": ("v timestamp", "'infinity'"),
    "what is no number": ("v float8", "'NaN'"),
    "a key that is too long": ("k text, v int, PRIMARY KEY (k)", "repeat('x', 5000)"),
}
"""The columns of a table, and the value of the first one that the slave cannot have."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", LOADED)
@pytest.mark.parametrize(
    ("options", "reason"),
    [({}, "cannot hold each of its values"), ({"lossy_columns": "['public.bad.*']"}, "does not fit on the slave")],
    ids=["found before", "met"],
)
def test_a_value_that_the_slave_cannot_have_leaves_out_its_table_alone_in_a_load(
    rig: Callable[..., Rig], kind: str, options: dict[str, str], reason: str
) -> None:
    columns, value = LOADED[kind]
    pair = rig(f"{TABLES}; CREATE TABLE public.bad ({columns}); INSERT INTO public.bad VALUES ({value})", **options)
    update = pair.load()
    bad = TableName("public", "bad")
    with pair.apply() as running:
        running.await_normal_mode()
        pair.finish(update)
        assert list(pair.checkpoint.tables) == [bad]
        assert pair.checkpoint.tables.state(bad) is TableState.INCONSISTENT
        assert reason in pair.checkpoint.tables.reasons[bad]
        pair.master.execute("DELETE FROM public.bad; UPDATE public.one SET v = 'y'")
        pair.await_current()
        assert pair.slave_rows(ONE) == [(1, "y")]
        # It is loaded when it has only what fits.
        again = pair.load(tables=["public.bad"])
        pair.await_that(lambda: not pair.checkpoint.tables.not_ready)
        pair.finish(again)
        assert pair.differences() == {}


def test_a_value_that_the_slave_cannot_have_ends_a_load_with_on_error_stop(rig: Callable[..., Rig]) -> None:
    columns, value = LOADED["what is no number"]
    tables = f"{TABLES}; CREATE TABLE public.bad ({columns}); INSERT INTO public.bad VALUES ({value})"
    with pytest.raises(ValueUnfit, match="does not fit on the slave"):
        rig(tables, on_error="stop", lossy_columns="['public.bad.*']").load()


def left_out(pair: Rig, statements: Sequence[str], reason: str) -> None:
    with pair.apply() as running:
        running.await_normal_mode()
        for statement in statements:
            pair.master.execute(statement.encode())
        pair.master.execute("INSERT INTO public.other VALUES (2, 'y')")
        pair.await_current()
        (table,) = list(pair.checkpoint.tables)
        assert table.name == "one" and pair.checkpoint.tables.state(table) is TableState.INCONSISTENT
        told = pair.checkpoint.tables.reasons[table]
        assert reason in told and "one" in told
        pair.master.execute("UPDATE public.other SET v = 'z'")
        pair.await_current()
        assert pair.slave_rows(OTHER) == pair.master_rows(OTHER) == [(1, "z"), (2, "z")]
