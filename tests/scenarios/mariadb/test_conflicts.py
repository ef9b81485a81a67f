"""Changes that do not match the slave's rows, and the modes in which they are applied."""

from collections.abc import Callable

import pytest

from sluice.database.conflicts import Drift
from sluice.model.reject import RejectStatus
from tests.scenarios.mariadb.rig import Rig

ITEMS = (
    "CREATE TABLE public.items (id int PRIMARY KEY, name text, code varchar(10) UNIQUE DEFERRABLE, at timestamptz); "
    "INSERT INTO public.items SELECT n, 'name ' || n, 'c' || n, '2020-01-01 00:00+00' FROM generate_series(1, 20) AS n"
)


def begun(rig: Callable[..., Rig], tables: str = ITEMS, **options: object) -> Rig:
    """A loaded pair with its indexes, after one apply."""
    pair = rig(tables, **options)
    update = pair.load()
    with pair.apply():
        pair.await_current()
        pair.finish(update)
    return pair


@pytest.mark.long
@pytest.mark.parametrize(
    ("local", "change", "expected", "found"),
    [
        ("UPDATE items SET name = 'mine' WHERE id = 3", "UPDATE public.items SET name = 'x' WHERE id = 3",
         "name = 'name 3'", "name = 'mine'"),
        ("UPDATE items SET name = NULL WHERE id = 3", "UPDATE public.items SET name = 'x' WHERE id = 3",
         "name = 'name 3'", "name = NULL"),
        ("DELETE FROM items WHERE id = 3", "UPDATE public.items SET name = 'x' WHERE id = 3", "one", "none"),
        ("DELETE FROM items WHERE id = 3", "DELETE FROM public.items WHERE id = 3", "one", "none"),
        ("INSERT INTO items VALUES (99, 'mine', NULL, NULL)", "INSERT INTO public.items (id) VALUES (99)", "none",
         "one"),
    ],
)  # fmt: skip
def test_a_local_change_stops_the_apply_and_is_reported_with_key_column_and_both_values(
    rig: Callable[..., Rig], local: str, change: str, expected: str, found: str
) -> None:
    pair = begun(rig)
    with pytest.raises(Drift) as stopped, pair.apply() as running:
        running.await_normal_mode()
        pair.slave.run(local)
        pair.master.execute(change.encode())
        pair.await_current()
    conflict = stopped.value
    assert str(conflict.table) == "public.items" and "id" in conflict.key
    assert (conflict.expected, conflict.found) == (expected, found)
    # The next one begins in safe mode, which overwrites what differs.
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.long
def test_a_change_that_does_not_fit_is_set_aside_and_the_rest_goes_on(rig: Callable[..., Rig]) -> None:
    pair = begun(rig, on_conflict="reject")
    with pair.apply() as running:
        running.await_normal_mode()
        pair.slave.run("UPDATE items SET name = 'mine' WHERE id = 3")
        pair.slave.run("DELETE FROM items WHERE id = 4")
        with pair.master.transaction():
            pair.master.execute("UPDATE public.items SET name = 'x' WHERE id IN (3, 4, 5)")
            pair.master.execute("INSERT INTO public.items VALUES (50, 'fifty', 'c50', now())")
        pair.await_current()
        kept = {reject.keys: reject for reject in pair.rejects.open()}
        assert set(kept) == {("3",), ("4",)}
        assert kept["3",].held is not None and "mine" in kept["3",].held
        assert kept["4",].held is None
        only = {row[0] for row in pair.differences()["public.items"][0]}
        assert only == {3, 4}
        # A person wants one of them applied.
        number = kept["3",].id
        with pair.slave.transaction():
            assert pair.rejects.move([number], RejectStatus.ASKED, "anna", force=True) == [number]
        pair.await_that(lambda: pair.rejects.read([RejectStatus.APPLIED], [number]) != [])
        assert {row[0] for row in pair.differences()["public.items"][0]} == {4}


@pytest.mark.long
def test_overwrite_makes_rows_what_the_master_has(rig: Callable[..., Rig]) -> None:
    pair = begun(rig, on_conflict="overwrite")
    with pair.apply():
        pair.await_current()
        pair.slave.run("UPDATE items SET name = 'mine' WHERE id = 3")
        pair.slave.run("DELETE FROM items WHERE id = 4")
        pair.master.execute("UPDATE public.items SET code = code || '!' WHERE id IN (3, 4)")
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.long
def test_unique_values_and_keys_change_places_in_one_window(rig: Callable[..., Rig]) -> None:
    pair = begun(rig)
    swap = "UPDATE public.items SET code = CASE id WHEN 1 THEN 'c2' ELSE 'c1' END WHERE id IN (1, 2)"
    with pair.apply() as running:
        running.await_normal_mode()
        pair.master.execute(swap)
        with pair.master.transaction():
            pair.master.execute("UPDATE public.items SET id = -id WHERE id IN (7, 8)")
            pair.master.execute("UPDATE public.items SET id = CASE id WHEN -7 THEN 8 ELSE 7 END WHERE id IN (-7, -8)")
            pair.master.execute("DELETE FROM public.items WHERE id = 9")
            pair.master.execute("INSERT INTO public.items VALUES (9, 'again', 'c9', NULL)")
        pair.await_current()
        assert pair.differences() == {}
        assert pair.rejects.open() == []


@pytest.mark.long
def test_the_example_of_the_safe_mode_comes_twice_to_the_same_end(rig: Callable[..., Rig]) -> None:
    """The example of TiDB DM's documentation: an INSERT, an UPDATE of a value, an UPDATE of the key."""
    table = "CREATE TABLE public.dummytbl (id int PRIMARY KEY, int_value int, str_value text)"
    pair = begun(rig, table + "; INSERT INTO public.dummytbl VALUES (888, 888888, 'abc888')")
    before = pair.checkpoint.position
    assert before is not None
    pair.master.execute("INSERT INTO public.dummytbl (id, int_value, str_value) VALUES (123, 999, 'abc')")
    pair.master.execute("UPDATE public.dummytbl SET int_value = 888999 WHERE int_value = 999")
    pair.master.execute("UPDATE public.dummytbl SET id = 999 WHERE id = 888")
    for _ in range(2):
        with pair.apply():
            pair.await_current()
        assert pair.differences() == {}
        with pair.slave.transaction():
            pair.store.start_at(before)
    assert sorted(pair.slave.run("SELECT * FROM dummytbl").fetchall()) == [
        (123, 888999, "abc"),
        (999, 888888, "abc888"),
    ]


@pytest.mark.long
def test_a_row_displaced_in_safe_mode_comes_back_as_the_master_has_it(rig: Callable[..., Rig]) -> None:
    pair = begun(rig)
    pair.slave.run("UPDATE items SET code = 'taken' WHERE id = 3")
    pair.master.execute("UPDATE public.items SET code = 'taken' WHERE id = 5")
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.long
def test_copies_of_rows_without_a_key_go_one_by_one(rig: Callable[..., Rig]) -> None:
    pair = begun(rig, "CREATE TABLE public.log (a int, b text); INSERT INTO public.log SELECT n % 3, NULL FROM "
                      "generate_series(1, 12) AS n")  # fmt: skip
    with pair.apply() as running:
        running.await_normal_mode()
        pair.master.execute("DELETE FROM public.log WHERE ctid = (SELECT min(ctid) FROM public.log WHERE a = 1)")
        pair.master.execute("UPDATE public.log SET b = 'x' WHERE ctid = (SELECT min(ctid) FROM public.log WHERE a = 2)")
        pair.master.execute("INSERT INTO public.log VALUES (NULL, NULL), (NULL, NULL)")
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.long
def test_columns_that_only_the_slave_has_keep_their_values(rig: Callable[..., Rig]) -> None:
    pair = begun(rig)
    pair.slave.run("ALTER TABLE items ADD COLUMN own varchar(20)")
    pair.slave.run("UPDATE items SET own = 'kept'")
    pair.master.execute("UPDATE public.items SET name = 'x' WHERE id < 5")
    pair.master.execute("UPDATE public.items SET id = 100 WHERE id = 6")
    with pair.apply() as running:  # in safe mode
        running.await_normal_mode()
        pair.master.execute("UPDATE public.items SET name = 'y' WHERE id > 5")
        pair.master.execute("UPDATE public.items SET id = 101 WHERE id = 7")
        pair.await_current()
    assert pair.differences() == {}
    assert pair.slave.run("SELECT COUNT(*) FROM items WHERE own = 'kept'").fetchall() == [(20,)]


@pytest.mark.long
def test_large_windows_are_staged_by_executors(rig: Callable[..., Rig]) -> None:
    pair = rig(ITEMS, stage=100)
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        for _ in range(2):
            pair.master.execute("UPDATE public.items SET name = name || '!', code = NULL")
            pair.master.execute(
                "INSERT INTO public.items SELECT n, 'new', 'd' || n FROM generate_series(1000, 3000) AS n "
                "ON CONFLICT (id) DO UPDATE SET name = 'changed', at = now()"
            )
            pair.master.execute("DELETE FROM public.items WHERE id % 10 = 1")
            pair.await_current()
            assert pair.differences() == {}
        assert running.executor.staged >= 2
    assert pair.slave.run("SHOW TABLES LIKE 'demo_stage%'").fetchall() == []
