"""A quiet master: loaded in blocks, restarted, cancelled, refused."""

import pytest

from initial_load.conftest import MakePair
from sluice.domain.blocks import BlockState
from sluice.domain.state import ForbiddenMove, SlaveState
from sluice.initial import steps
from sluice.initial.owner import LoadEnded
from sluice.stores.gate import Gate


def test_tables_are_made_and_loaded_in_blocks(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=70)
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute("INSERT INTO public.a SELECT g, 'row ' || g FROM generate_series(1, 1000) g")
    pair.master.execute("CREATE TABLE public.b (x int, y text)")
    pair.master.execute("INSERT INTO public.b SELECT g % 3, NULL FROM generate_series(1, 500) g")
    pair.master.execute("CREATE TABLE public.empty (id uuid PRIMARY KEY)")
    update = pair.update("first")
    pair.prepare(update)
    assert pair.state() is SlaveState.TRANSITION
    assert Gate(pair.store, update.prefix, "dr1").closures() == []
    reports = pair.load(update)
    assert sum(report.rows for report in reports) == 1500
    pair.assert_equal()
    found = pair.blocks()
    assert all(block.state is BlockState.STORED and block.marker for block in found)
    assert len([block for block in found if block.table.name == "a"]) > 2
    assert len([block for block in found if block.table.name == "b"]) == 1
    assert pair.load(update)[0].blocks == 0
    pair.declare_normal()
    done = steps.finish(update)
    assert done.left_out == []


def test_steps_may_run_again_and_another_update_waits_its_turn(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute("INSERT INTO public.a SELECT g, 'row ' || g FROM generate_series(1, 300) g")
    pair.capture()
    update, other = pair.update("first"), pair.update("second")
    assert steps.begin(update, pair.store)
    assert not steps.begin(update, pair.store)
    assert [closure.name for closure in Gate(pair.store, update.prefix, "dr1").closures()] == ["initial update"]
    with pytest.raises(ForbiddenMove, match="Cancel the initial update"):
        steps.begin(other, pair.store)
    assert len(steps.create_tables(update)) == 1
    assert steps.create_tables(update) == []
    steps.plan(update, pair.store)
    assert steps.plan(update, pair.store) == 1
    assert steps.create_tables(update) == []
    pair.load(update)
    assert not steps.begin(update, pair.store)
    assert steps.create_tables(update) == []
    assert pair.load(update)[0].rows == 0
    with pytest.raises(ForbiddenMove):
        steps.begin(other, pair.store)
    pair.assert_equal()
    pair.declare_normal()
    assert not steps.begin(update, pair.store)
    assert steps.begin(other, pair.store)
    assert pair.state() is SlaveState.INITIAL
    assert pair.blocks() == []
    with pytest.raises(LoadEnded, match="INITIAL"):
        pair.load(update)


def test_cancelled_in_every_step_and_started_anew(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute("INSERT INTO public.a SELECT g, 'row ' || g FROM generate_series(1, 300) g")
    pair.capture()
    for number, reached in enumerate(["begin", "create_tables", "plan"]):
        update = pair.update(f"update {number}")
        steps.begin(update, pair.store)
        if reached != "begin":
            steps.create_tables(update)
        if reached == "plan":
            steps.plan(update, pair.store)
        assert steps.cancel(update, pair.store)
        assert pair.state() is SlaveState.INCONSISTENT
        found = pair.checkpoint().read()
        assert found is not None and found.message == "Initial Update interrupted by the ADMIN"
        assert pair.blocks() == []
        assert Gate(pair.store, update.prefix, "dr1").closures() == []
        for step in (
            lambda update=update: steps.create_tables(update),
            lambda update=update: steps.plan(update, pair.store),
            lambda update=update: pair.load(update),
        ):
            with pytest.raises(LoadEnded, match="interrupted by the ADMIN"):
                step()
        assert not steps.cancel(update, pair.store)
    update = pair.update("last")
    pair.prepare(update)
    pair.load(update)
    pair.assert_equal()
