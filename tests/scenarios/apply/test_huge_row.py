"""One row that is larger than an apply can take: its table is left out and told, the others continue."""

import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from tests.rig.rig import Rig

TABLES = """
    CREATE TABLE public.documents (id int PRIMARY KEY, body text);
    CREATE TABLE public.orders (id int PRIMARY KEY, note text)
"""
DOCUMENTS, ORDERS = TableName("public", "documents"), TableName("public", "orders")
MB = 1 << 20


def small(rig: Rig, largest: int = MB) -> Rig:
    """With a limit, also in the file, which the apply watches."""
    file = Path(rig.replication.source)
    values = yaml.safe_load(file.read_text())
    values["apply"]["max_change_bytes"] = largest
    file.write_text(yaml.safe_dump(values))
    return rig.with_options(apply=replace(rig.replication.apply, max_change_bytes=largest))


def write(rig: Rig, number: int, body: int) -> None:
    """A transaction of both tables, `body` MB of it in one row."""
    with rig.master.transaction():
        rig.master.execute("INSERT INTO public.orders VALUES (%s, 'before')", [2 * number])
        rig.master.execute("INSERT INTO public.documents VALUES (%s, repeat('x', %s))", [number, body * MB])
        rig.master.execute("INSERT INTO public.orders VALUES (%s, 'after')", [2 * number + 1])


def expect_left_out(rig: Rig) -> None:
    assert rig.state() is SlaveState.NORMAL
    assert list(rig.checkpoint.tables) == [DOCUMENTS]
    reason = rig.checkpoint.tables.explain(DOCUMENTS)
    assert "apply.max_change_bytes" in reason and "one change, REPL_KEY" in reason
    rig.assert_equal([ORDERS])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("staged", [False, True], ids=["in the driver", "by executors"])
def test_a_row_above_the_limit_leaves_its_table_out_and_others_go_on(staged: bool, rig: Callable[..., Rig]) -> None:
    pair = small(rig(TABLES, stage=20 if staged else 20_000))
    write(pair, 1, 0)
    write(pair, 2, 3)
    if staged:
        pair.master.execute("INSERT INTO public.orders SELECT g, 'many' FROM generate_series(100, 400) g")
    with pair.apply():
        pair.await_current()
        expect_left_out(pair)
        write(pair, 3, 3)
        write(pair, 4, 0)
        pair.await_current()
    expect_left_out(pair)
    with pair.apply():
        write(pair, 5, 0)
        pair.await_current()
    expect_left_out(pair)


@pytest.mark.long
def test_old_and_new_contents_count_together(rig: Callable[..., Rig]) -> None:
    """An UPDATE and a DELETE carry what the row was."""
    pair = small(rig(TABLES), largest=5 * MB)
    with pair.apply():
        write(pair, 1, 3)
        pair.await_current()
        assert pair.differences() == {}
        pair.master.execute("UPDATE public.documents SET body = repeat('y', %s)", [3 * MB])
        write(pair, 2, 0)
        pair.await_current()
    expect_left_out(pair)


@pytest.mark.long
def test_the_memory_of_an_apply_stays_in_bounds_at_rows_near_a_gigabyte(rig: Callable[..., Rig]) -> None:
    pair = small(rig(TABLES), largest=256 * MB)
    with pair.apply():
        write(pair, 1, 1)
        pair.await_current()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        write(pair, 2, 900)
        write(pair, 3, 0)
        pair.await_current(600)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"a row of 900 MB: the process grew by {grown:.0f} MB")
    assert grown < 300
    expect_left_out(pair)
