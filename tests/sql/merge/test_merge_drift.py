"""Changes that do not match the slave's rows are found, named and undone."""

from typing import Any

import pytest

from sluice.database.conflicts import ColumnMissing, Drift, SlaveTableMissing, ValueUnfit
from sluice.database.errors import DatabaseUnreachable
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres import connection
from tests.sql.merge.helpers import T, filled, merger, reduced, rows, same
from tests.unit.changes import History


def drifting(slave: Any, history: History, at: int, *, images: bool = False) -> Drift:
    before = rows(slave)
    with pytest.raises(Drift) as caught:
        merger(slave).merge([reduced(history, at, images=images)])
    assert rows(slave) == before, "everything is undone"
    assert caught.value.table == T
    return caught.value


@pytest.fixture
def drifted(slave: Any) -> tuple[History, int]:
    """A slave on which somebody deleted row 1, changed row 2 and inserted row 9."""
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    at = filled(history)
    merger(slave).merge([reduced(history)])
    slave.execute(
        "DELETE FROM public.t WHERE id = 1; UPDATE public.t SET v = 'mine' WHERE id = 2;"
        "INSERT INTO public.t VALUES (9, 'mine')"
    )
    slave.commit()
    history.update(("0", "v0"), ("0", "fine"))
    return history, at


def test_an_update_of_a_row_that_is_gone_is_drift(slave: Any, drifted: tuple[History, int], size: str) -> None:
    history, at = drifted
    history.update(("1", "v1"), ("1", "new"))
    error = drifting(slave, history, at)
    assert (error.key, error.action, error.expected, error.found) == ({"id": "1"}, "UPDATE", "one", "none")
    assert "public.t, row id = '1'" in str(error)


def test_a_delete_of_a_row_that_is_gone_is_drift(slave: Any, drifted: tuple[History, int], size: str) -> None:
    history, at = drifted
    history.delete("1", "v1")
    error = drifting(slave, history, at)
    assert (error.key, error.action, error.expected, error.found) == ({"id": "1"}, "DELETE", "one", "none")


def test_an_insert_of_a_row_that_is_there_is_drift(slave: Any, drifted: tuple[History, int], size: str) -> None:
    history, at = drifted
    history.insert("9", "theirs")
    history.update(("3", "v3"), ("8", "v3"))
    history.insert("3", "again")
    error = drifting(slave, history, at)
    assert (error.key, error.action, error.expected, error.found) == ({"id": "9"}, "INSERT", "none", "one")


def test_a_key_that_moves_to_where_a_row_is_is_drift(slave: Any, drifted: tuple[History, int], size: str) -> None:
    history, at = drifted
    history.update(("3", "v3"), ("9", "v3"))
    assert drifting(slave, history, at).key == {"id": "9"}


@pytest.mark.parametrize("action", ["UPDATE", "DELETE", "key"])
def test_a_row_changed_by_hand_is_drift_when_images_are_compared(
    slave: Any, drifted: tuple[History, int], size: str, action: str
) -> None:
    history, at = drifted
    if action == "DELETE":
        history.delete("2", "v2")
    else:
        history.update(("2", "v2"), ("2" if action == "UPDATE" else "22", "new"))
    error = drifting(slave, history, at, images=True)
    assert error.key == {"id": "2"}
    assert error.differing == {"v": ("mine", "v2")}
    assert (error.expected, error.found) == ("v = 'v2'", "v = 'mine'")


def test_missing_copies_of_a_keyless_row_are_drift(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (a int, p point); INSERT INTO public.t VALUES (1, '(1,2)'), (NULL, NULL)")
    history = History(T, ("a", "p"), ())
    for _ in range(2):
        history.insert("1", "(1,2)")
    history.insert(None, None)
    at = len(history.items)
    history.delete("1", "(1,2)")
    history.delete("1", "(1,2)")
    history.delete(None, None)
    error = drifting(slave, history, at)
    assert (error.key, error.found) == ({"a": "1", "p": "(1,2)"}, "one")


def test_a_trigger_that_swallows_rows_is_noticed(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text);"
        "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER no BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.no()"
    )
    history = History()
    filled(history)
    with pytest.raises(Drift, match="a trigger or rule"):
        merger(slave).merge([reduced(history)])


# Definitions that do not fit


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        ("varchar(3)", "long", "too long"),
        ("smallint", "40000", "out of range"),
        ("public.positive", "-1", "violates check constraint"),
        ("public.mood", "angry", "invalid input value for enum"),
        ("numeric(3,1)", "1000", "numeric field overflow"),
        ("int", "\\N", "invalid input syntax"),
    ],
)
@pytest.mark.parametrize("action", ["INSERT", "UPDATE"])
def test_a_value_that_does_not_fit_is_named(
    slave: Any, size: str, type_: str, value: str, reason: str, action: str
) -> None:
    slave.execute(
        "CREATE DOMAIN public.positive AS int CHECK (VALUE > 0); CREATE TYPE public.mood AS ENUM ('fine');"
        f'CREATE TABLE public.t (id int PRIMARY KEY, "the: value" {type_}, w text);'
        "INSERT INTO public.t VALUES (1), (2)"
    )
    slave.commit()
    history = History(T, ("id", "the: value", "w"))
    history.insert("1", None, None)
    history.insert("2", None, None)
    at = len(history.items)
    history.update(("2", None, None), ("2", None, "x"))
    if action == "UPDATE":
        history.update(("1", None, None), ("1", value, None))
    else:
        history.insert("3", value, None)
    with pytest.raises(ValueUnfit, match=reason) as caught:
        merger(slave).merge([reduced(history, at)])
    if "check" not in reason or caught.value.column:
        assert (caught.value.column, caught.value.value) == ("the: value", value)
    assert "ALTER TABLE" in str(caught.value)
    assert rows(slave) == [("1", None, None), ("2", None, None)]


def test_a_null_for_a_column_that_may_have_none_is_named(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text NOT NULL)")
    history = History()
    history.insert("1", None)
    with pytest.raises(ValueUnfit, match=r"column 'v'.*not-null"):
        merger(slave).merge([reduced(history)])


def test_a_check_of_the_slave_is_named_with_its_row(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text CONSTRAINT short CHECK (length(v) < 3))")
    history = History()
    history.insert("1", "long")
    with pytest.raises(ValueUnfit, match=r'"short".*\(1, long\)'):
        merger(slave).merge([reduced(history)])


def test_a_column_that_the_slave_lacks_is_named(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, other text)")
    history = History()
    filled(history)
    with pytest.raises(ColumnMissing, match=r"has no column 'v'.*id, other.*ADD COLUMN"):
        merger(slave).merge([reduced(history)])


def test_a_table_that_the_slave_lacks_is_named(slave: Any) -> None:
    history = History()
    filled(history)
    with pytest.raises(SlaveTableMissing, match=r"public\.t does not exist"):
        merger(slave).merge([reduced(history)])


def test_a_table_altered_by_hand_is_looked_at_again(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    at = filled(history)
    apply = merger(slave)
    apply.merge([reduced(history)])
    slave.execute(
        "DROP TABLE public.t; CREATE TABLE public.t (id bigint PRIMARY KEY, v varchar(9),"
        "g text GENERATED ALWAYS AS (v) STORED)"
    )
    slave.execute("INSERT INTO public.t SELECT n, 'v' || n FROM generate_series(0, 4) n")
    slave.commit()
    history.update(("1", "v1"), ("1", "new"))
    history.insert("9", "v9")
    apply.merge([reduced(history, at)])
    same(slave, history, "id, v")
    slave.execute("ALTER TABLE public.t DROP COLUMN g, DROP COLUMN v")
    slave.commit()
    history.delete("9", "v9")
    history.update(("1", "new"), ("1", "newer"))
    with pytest.raises(ColumnMissing):
        apply.merge([reduced(history, at + 2)])


def test_a_lost_connection_is_an_outage(slave: Any, size: str, info: ConnectionInfo) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    slave.commit()
    history = History()
    filled(history)
    apply = merger(slave)
    apply.targets.load([T])
    with connection.connect(info, application="other", autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test merge'")
    with pytest.raises(DatabaseUnreachable):
        apply.merge([reduced(history)])
