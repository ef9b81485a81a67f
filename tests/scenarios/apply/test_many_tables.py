"""A window over many tables, most of them with the same columns: partitions of one, or tables of tenants."""

from collections.abc import Callable

import pytest

from sluice.database.conflicts import Drift
from tests.rig.rig import Rig

ALIKE = [f'public."Tenant {number}"' for number in range(30)]
OTHERS = {
    "public.wider": "(id int PRIMARY KEY, v text, more text)",
    "public.two_keys": "(a int, id int, v text, PRIMARY KEY (a, id))",
    "public.keyless": "(id int, v text)",
}
DDL = "; ".join(
    [f"CREATE TABLE {table} (id int PRIMARY KEY, v text)" for table in ALIKE]
    + [f"CREATE TABLE {table} {columns}" for table, columns in OTHERS.items()]
)
HOSTILE = """'"' || g || E'\\\\ ]]> <&> \t' || CASE WHEN g % 3 = 0 THEN '{NULL}' ELSE '' END"""


def changed(pair: Rig) -> None:
    """Makes every kind of change in each of the tables, in one transaction."""
    with pair.master.transaction():
        for place, table in enumerate(ALIKE):
            for statement in (
                f"INSERT INTO {table} SELECT g, {HOSTILE} FROM generate_series(101, 130) g",
                f"UPDATE {table} SET v = NULL WHERE id % 7 = {place % 7}",
                f"UPDATE {table} SET v = v || id WHERE id BETWEEN 40 AND 45",
                f"UPDATE {table} SET id = -id WHERE id < {place % 5}",
                f"DELETE FROM {table} WHERE id % 9 = {place % 9}",
            ):
                pair.master.execute(statement.encode())
        for table in OTHERS:
            pair.master.execute(f"UPDATE {table} SET v = v || 'x' WHERE id > 5".encode())
            pair.master.execute(f"DELETE FROM {table} WHERE id < 3".encode())


def filled(rig: Callable[..., Rig], **options: object) -> Rig:
    pair = rig(DDL, **options)
    for table in ALIKE:
        pair.master.execute(f"INSERT INTO {table} SELECT g, {HOSTILE} FROM generate_series(1, 90) g".encode())
    pair.master.execute("INSERT INTO public.wider SELECT g, 'v', 'm' FROM generate_series(1, 90) g")
    pair.master.execute("INSERT INTO public.two_keys SELECT g % 3, g, 'v' FROM generate_series(1, 90) g")
    pair.master.execute("INSERT INTO public.keyless SELECT g / 2, 'v' FROM generate_series(1, 90) g")
    return pair


@pytest.mark.long
@pytest.mark.parametrize("stage", [20_000, 100], ids=["by the apply process", "staged"])
def test_every_table_gets_its_own_changes_and_a_touched_row_is_named(rig: Callable[..., Rig], stage: int) -> None:
    pair = filled(rig, stage=stage)
    with pair.apply() as running:
        pair.await_normal_mode(running)
        changed(pair)
        pair.await_current()
        assert pair.differences() == {}
        pair.slave.execute(f"UPDATE {ALIKE[17]} SET v = 'mine' WHERE id = 77".encode())
        before = pair.rows(pair.slave, pair.tables(pair.slave)[0])
        with pair.master.transaction():
            for table in ALIKE:
                pair.master.execute(f"UPDATE {table} SET v = 'new'".encode())
        with pytest.raises(Drift) as caught:
            pair.await_current()
    assert "Tenant 17" in str(caught.value)
    assert "row id = '77': UPDATE expected" in str(caught.value)
    assert pair.rows(pair.slave, pair.tables(pair.slave)[0]) == before, "the whole window was undone"


def test_changes_come_again_in_safe_mode(rig: Callable[..., Rig]) -> None:
    pair = filled(rig)
    with pair.apply():
        pair.await_current()
        start = pair.now()
        changed(pair)
        pair.await_current()
    pair.set_back(start)
    with pair.apply():
        pair.await_current()
    # Without a key nobody can tell that a change comes again.
    assert pair.differences().keys() <= {"public.keyless"}
