"""Decisions of the demo that need no server: victims, rates, lag, merging of streams."""

import argparse
import shutil
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devstack.demo import arguments, compare, strikes
from devstack.demo.heartbeat import Beats, LagMeter, percentile
from devstack.demo.start import require_disk
from sluice.cli.initial_update import running_task
from sluice.model.connection import ConnectionInfo
from tests.errors import raises_code
from workload import pgbench, zoo
from workload.zoo import array, record

NOBODY = ConnectionInfo("postgres", "127.0.0.1", 1, "demo", "nobody", "")


@given(st.integers(0, 2**31))
def test_a_seed_always_gives_the_same_kills(seed: int) -> None:
    assert strikes.plan(seed) == strikes.plan(seed)


@given(st.integers(0, 2**31))
def test_every_kind_of_victim_is_killed(seed: int) -> None:
    plan = strikes.plan(seed)
    assert {strike.victim for strike in plan.load + plan.apply} == set(strikes.Victim)
    assert plan.load[0].victim is strikes.Victim.LOAD
    assert all(strike.detail in strikes.COMPONENTS for strike in plan.apply if strike.victim is strikes.Victim.AIRFLOW)
    assert plan.seconds < 60


@given(st.integers(10, 100_000))
def test_pgbench_comes_close_to_the_wanted_rate(changes: int) -> None:
    mix = pgbench.mix(changes)
    assert mix.plain >= 1
    assert changes <= mix.changes <= changes * pgbench.MARGIN + pgbench.BULK_CHANGES + pgbench.PLAIN_CHANGES


def test_a_beat_that_a_later_one_overtook_counts_as_arrived_with_it() -> None:
    beats = Beats()
    for number, at in ((1, 10.0), (2, 10.1), (4, 10.3), (5, 10.4)):
        beats.add(number, at)
    meter = LagMeter(NOBODY, beats)
    meter.arrived(1, 10.5)
    meter.arrived(1, 10.6)
    meter.arrived(4, 11.0)
    assert meter.lags() == pytest.approx([0.5, 0.9, 0.7])
    assert meter.lags(since=10.7) == pytest.approx([0.9, 0.7])
    assert meter.follows(10.2) and not meter.follows(10.3)
    assert beats.oldest_after(4) == 10.4
    assert beats.oldest_after(5) is None


def test_no_beat_seen_yet_is_no_lag() -> None:
    assert LagMeter(NOBODY, Beats()).now() is None


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0, 1))
def test_a_percentile_is_a_value_that_such_a_share_does_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


def test_percentiles_of_known_values() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile([], 0.5)) == (50.0, 95.0, None)


ROWS = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=20)


@given(ROWS, ROWS)
def test_two_streams_are_merged_as_two_dictionaries_would_be(left: dict[str, str], right: dict[str, str]) -> None:
    def stream(rows: dict[str, str]) -> list[tuple[str, str]]:
        return sorted(rows.items(), key=lambda row: row[0].encode("utf-8", "surrogatepass"))

    merged = list(compare._merged(iter(stream(left)), iter(stream(right))))
    assert {key: (here, there) for key, here, there in merged} == {
        key: (left.get(key), right.get(key)) for key in left.keys() | right.keys()
    }
    assert len(merged) == len(left.keys() | right.keys())


def test_literals_of_arrays_and_records_are_quoted() -> None:
    assert array(None, "NULL", 'a"b\\') == '{NULL,"NULL","a\\"b\\\\"}'
    assert record(None, "", 'a"b\\') == '(,"","a""b\\\\")'


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ([("check", -1, "success"), ("load", -1, "deferred"), ("finish", -1, None)], "load"),
        ([("check", -1, "up_for_retry")], "check (up_for_retry)"),
        ([("check", -1, "success"), ("plan", -1, "scheduled")], "plan (scheduled)"),
        ([("load", 0, "running"), ("load", 1, "running")], "load"),
        ([], ""),
    ],
)
def test_the_activity_of_a_run(states: list[tuple[str, int, str | None]], shown: str) -> None:
    assert running_task(states) == shown


@pytest.mark.parametrize(
    ("given_arguments", "complaint"),
    [
        (["--slaves", "0"], "slaves: 1 to 9"),
        (["--rate", "fast"], "is no row changes a second"),
        (["--scale", "1000000"], "scale: 1 to 10000"),
        (["--airflow-port", "70000"], "port: 1 to 65535"),
        (["--seconds", "-1"], "seconds: 1 to"),
        (["--forever"], "unrecognized arguments"),
    ],
)
def test_wrong_options_are_answered_with_what_would_be_right(
    given_arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    arguments.add_arguments(parser)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(given_arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_numbers_may_have_separators() -> None:
    parser = argparse.ArgumentParser()
    arguments.add_arguments(parser)
    assert parser.parse_args(["--rate", "10,000"]).rate == 10_000


def test_a_disk_too_small_for_the_scale_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=4 << 30))
    require_disk(tmp_path / "not" / "yet", 10, 2)
    with raises_code("disk-too-small", match="smaller --scale, or another folder with SLUICE_HOME"):
        require_disk(tmp_path, 100, 2)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "infinity", "4713-11-24 BC", "294276-12-31 23:59:59.999999"])
def test_a_value_that_other_vendors_lack_is_not_portable(value: str) -> None:
    assert not zoo.portable(value)


@given(st.integers(0, 10_000))
def test_portable_rows_have_every_column_and_only_portable_numbers_and_times(seed: int) -> None:
    columns = [f"c_{name}" for name in zoo.EXTREMES]
    for row in (zoo.row(Random(seed), columns, True), *zoo.first_rows(columns, True)):
        assert list(row) == columns
        assert all(zoo.portable(row[f"c_{name}"]) for name in zoo.TYPED_ELSEWHERE)
