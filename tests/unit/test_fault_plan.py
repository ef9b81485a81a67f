"""A seed decides what a fault run does, and the seeds of the suite leave no fault out."""

from tests.scenarios.faults.plan import AT_COMMIT, Fault, plan
from tests.scenarios.faults.proxy import Moment
from tests.scenarios.faults.test_faults import SEEDS


def test_the_same_seed_gives_the_same_plan() -> None:
    assert [plan(seed) for seed in SEEDS] == [plan(seed) for seed in SEEDS]
    assert plan(1) != plan(2)


def test_every_fault_strikes_in_the_seeds_of_the_suite() -> None:
    strikes = [strike for seed in SEEDS for strike in plan(seed).strikes]
    assert {strike.fault for strike in strikes} == set(Fault)
    assert {strike.moment for strike in strikes} == set(Moment)
    assert {strike.place for strike in strikes} >= {"master", "slave", "redis"}


def test_only_what_can_strike_at_a_commit_does() -> None:
    strikes = [strike for seed in range(1000) for strike in plan(seed).strikes]
    struck = {(strike.fault, strike.moment) for strike in strikes}
    assert {fault for fault, moment in struck if moment is not Moment.NOW} == AT_COMMIT
    assert {(fault, moment) for fault in AT_COMMIT for moment in Moment} <= struck


def test_the_ways_of_staging_are_all_used_in_the_suite() -> None:
    plans = [plan(seed) for seed in SEEDS]
    for option in ("spark", "lazy", "safe"):
        assert {getattr(each, option) for each in plans} == {True, False}
    assert len({each.batch for each in plans}) == 2
