"""A seed decides what a fault run does, and the seeds of the suite cover all faults."""

from collections import Counter

from tests.scenarios.faults.plan import AT_COMMIT, PLACES, Fault, deck, plan, plan_of_mariadb
from tests.scenarios.faults.seeds import EVERY, OF_MARIADB, QUICK, kind, rotating
from workload.faults.proxy import Moment


def test_the_same_seed_gives_the_same_plan() -> None:
    assert [plan(seed) for seed in EVERY] == [plan(seed) for seed in EVERY]
    assert plan(1) != plan(2)


def test_one_known_seed_is_quick_and_new_ones_follow_each_other() -> None:
    assert kind(plan(QUICK)) == "plain" and QUICK in EVERY
    assert rotating(7)[-1] + 1 == rotating(8)[0] and rotating(0)[0] not in EVERY
    assert {kind(plan(seed)) for number in range(10) for seed in rotating(number)} == {"plain", "redis", "spark"}


def test_every_fault_strikes_in_the_seeds_of_all_tests() -> None:
    strikes = [strike for seed in EVERY for strike in plan(seed).strikes]
    times = Counter(strike.fault for strike in strikes)
    assert set(times) == set(Fault) and min(times.values()) >= 2
    assert {strike.moment for strike in strikes} == set(Moment)
    assert {(strike.fault, strike.place) for strike in strikes if strike.place} == {
        (fault, place) for fault, places in PLACES.items() for place in places
    }


def test_on_a_cluster_executors_die_and_the_disk_of_spark_is_full_twice_in_each_run() -> None:
    plans = [each for seed in range(1, 200) if (each := plan(seed)).spark]
    assert {each.cluster for each in plans} == {True, False}
    for each in plans:
        times = Counter(strike.fault for strike in each.strikes)
        assert times[Fault.KILL_EXECUTOR] == times[Fault.FULL_SPARK] == 2 * each.cluster
        assert times[Fault.KILL_JVM] == 1


def test_no_seeds_in_a_row_leave_a_fault_out() -> None:
    for first in range(1, 1000, 50):
        strikes = [strike for seed in range(first, first + 2 * len(EVERY)) for strike in plan(seed).strikes]
        assert {strike.fault for strike in strikes} == set(Fault)


def test_runs_with_the_checkpoint_in_redis_kill_applies_and_empty_redis() -> None:
    plans = [each for seed in EVERY if (each := plan(seed)).kept == "redis"]
    assert len(plans) >= 4
    for each in plans:
        faults = [strike.fault for strike in each.strikes]
        assert faults.count(Fault.KILL_APPLY) >= 2 and Fault.FLUSH_REDIS in faults
        assert each.interval >= 30.0


def test_only_what_can_strike_at_a_commit_does() -> None:
    strikes = [strike for seed in range(1000) for strike in plan(seed).strikes]
    struck = {(strike.fault, strike.moment) for strike in strikes}
    assert {fault for fault, moment in struck if moment is not Moment.NOW} == AT_COMMIT
    assert {(fault, moment) for fault in AT_COMMIT for moment in Moment} <= struck


def test_the_ways_of_staging_are_all_used_in_the_suite() -> None:
    plans = [plan(seed) for seed in EVERY]
    for option in ("spark", "lazy", "safe", "ordinary"):
        assert {getattr(each, option) for each in plans} == {True, False}
    assert {each.policy for each in plans} == {"stop", "reject", "overwrite"}
    assert len({each.batch for each in plans}) == 2


def test_with_a_mariadb_each_fault_strikes_that_it_can_meet_at_every_place() -> None:
    struck = {(strike.fault, strike.place) for seed in OF_MARIADB for strike in plan_of_mariadb(seed).strikes}
    lacking = {(fault, "slave") for fault in (Fault.CRASH_BACKENDS, Fault.FULL_DISK, Fault.FULL_WAL)}
    assert struck == {(card.fault, card.place) for card in deck()} - lacking
