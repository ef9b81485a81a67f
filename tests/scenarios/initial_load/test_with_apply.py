"""A load while the real apply runs: traffic, TRUNCATE, changed and dropped tables; updates one after another."""

import pytest

from sluice.coordination.gate import Gate
from sluice.load import steps
from sluice.model.slave_state import SlaveState
from tests.rig.loaders import Background
from tests.rig.rig import MakePair
from tests.scenarios.initial_load.shop import HEAP, NOTES, ORDERS, SCRATCH, disturb, make_shop
from tests.scenarios.initial_load.traffic import Traffic
from tests.waiting import until


def test_truncates_and_definitions_that_change_while_blocks_load(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=100, seconds=0.02)
    make_shop(pair)
    pair.capture()
    update = pair.update()
    pair.prepare(update)
    pair.slow_down("public.scratch", 0.001)
    more = (
        "TRUNCATE public.scratch",
        "INSERT INTO public.scratch SELECT g, 'newer' FROM generate_series(1, 200) g ON CONFLICT DO NOTHING",
    )
    with pair.apply(), Traffic(pair.master_info, [ORDERS, NOTES, SCRATCH, HEAP], writers=2):
        disturber = Background(lambda: disturb(pair, more))
        pair.load_to_normal(update)
        assert disturber.end() is None
    with pair.apply():
        pair.await_current()
    pair.assert_equal()
    assert steps.finish(update).left_out == []
    assert Gate(pair.store, update.prefix, "dr1").closures() == []


@pytest.mark.long
def test_a_second_update_of_a_running_slave_and_one_canceled_under_the_apply(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=400, seconds=0.05)
    make_shop(pair)
    first, canceled, last = pair.update("first"), pair.update("canceled"), pair.update("last")
    pair.prepare(first)
    with pair.apply(), Traffic(pair.master_info, [ORDERS, NOTES, SCRATCH, HEAP], writers=2):
        pair.load_to_normal(first)
        pair.prepare(canceled)
        until(lambda: pair.state() is SlaveState.TRANSITION)
        assert steps.cancel(canceled, pair.store)
        assert pair.state() is SlaveState.INCONSISTENT
        pair.prepare(last)
        pair.load_to_normal(last)
    with pair.apply():
        pair.await_current()
    pair.assert_equal()
