"""When `resync` runs by itself: each replication's own time of day, across changes of summer time."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pendulum
import pytest
from airflow.timetables.base import DataInterval, TimeRestriction
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.airflow.daily_timetable import DailyTime, DailyTimetable
from sluice.configuration.mistakes import Mistake
from sluice.configuration.options import VerifyOptions
from sluice.configuration.sources import read_yaml
from tests.examples import examples

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Pacific/Kiritimati",
    "Pacific/Pago_Pago",
    "Australia/Lord_Howe",  # Its summer time is half an hour.
    "America/Havana",  # Midnight is skipped there.
    "Africa/Casablanca",
]
ANY_TIME = st.builds(DailyTime, st.integers(0, 23), st.integers(0, 59), st.sampled_from(ZONES))
ANY_MOMENT = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
UNRESTRICTED = TimeRestriction(None, None, False)


def at(text: str) -> pendulum.DateTime:
    return pendulum.instance(datetime.fromisoformat(text).astimezone(UTC))


@pytest.mark.parametrize(
    ("day", "time", "moment"),
    [
        (date(2026, 1, 15), "03:00", "2026-01-15T02:00+00:00"),
        (date(2026, 7, 15), "03:00", "2026-07-15T01:00+00:00"),
        (date(2026, 3, 29), "02:30", "2026-03-29T03:30+02:00"),
        (date(2026, 10, 25), "02:30", "2026-10-25T02:30+01:00"),
    ],
    ids=["winter", "summer", "a time that the clock skips", "a time that the clock shows twice"],
)
def test_a_time_of_day_is_that_of_its_zone(day: date, time: str, moment: str) -> None:
    assert DailyTime.of(VerifyOptions(at=time, zone="Europe/Berlin")).on(day) == datetime.fromisoformat(moment)


@settings(max_examples=examples(200))
@given(
    time=ANY_TIME,
    begin=ANY_MOMENT,
    hours=st.lists(st.integers(1, 60), min_size=1, max_size=12),
)
def test_each_day_is_compared_once_whatever_the_runs(time: DailyTime, begin: datetime, hours: list[int]) -> None:
    """Runs at any times: together they cover each day exactly once."""
    moments = [begin]
    for each in hours:
        moments.append(moments[-1] + timedelta(hours=each))
    found = [day for after, until in pairwise(moments) for day in time.days(after, until)]
    assert found == time.days(begin, moments[-1])
    assert found == sorted(set(found))
    assert all((later - earlier).days == 1 for earlier, later in pairwise(found)), "none is left out"
    assert abs(len(found) - sum(hours) / 24) <= 1.1


@settings(max_examples=examples(200))
@given(time=ANY_TIME, moment=ANY_MOMENT)
def test_the_next_time_is_the_day_after_the_last_one(time: DailyTime, moment: datetime) -> None:
    last, following = time.until(moment), time.after(moment)
    assert last <= moment < following
    assert time.days(last, following) == [following.astimezone(pendulum.timezone(time.zone)).date()]


def test_runs_begin_at_the_times_of_all_replications(monkeypatch: pytest.MonkeyPatch) -> None:
    table = DailyTimetable([DailyTime(3, 0, "UTC"), DailyTime(3, 0, "Europe/Berlin"), DailyTime(3, 0, "UTC")])
    monkeypatch.setattr("pendulum.now", lambda zone: at("2026-07-15T00:30+00:00"))
    first = table.next_dagrun_info(last_automated_data_interval=None, restriction=UNRESTRICTED)
    assert first is not None
    assert first.run_after == at("2026-07-15T03:00+02:00")
    second = table.next_dagrun_info(last_automated_data_interval=first.data_interval, restriction=UNRESTRICTED)
    assert second is not None
    assert second.data_interval == DataInterval(at("2026-07-15T03:00+02:00"), at("2026-07-15T03:00+00:00"))
    assert DailyTime(3, 0, "UTC").days(*second.data_interval) == [date(2026, 7, 15)]
    assert DailyTime(3, 0, "Europe/Berlin").days(*second.data_interval) == []


def test_a_time_that_airflow_missed_is_made_up_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [DailyTime(3, 0, "UTC"), DailyTime(5, 0, "UTC")]
    last = DataInterval(at("2026-07-10T03:00+00:00"), at("2026-07-10T05:00+00:00"))
    monkeypatch.setattr("pendulum.now", lambda zone: at("2026-07-13T12:00+00:00"))
    run = DailyTimetable(times).next_dagrun_info(last_automated_data_interval=last, restriction=UNRESTRICTED)
    assert run is not None
    assert run.run_after == at("2026-07-13T05:00+00:00")
    assert [len(time.days(*run.data_interval)) for time in times] == [3, 3]


def test_without_a_replication_it_never_runs() -> None:
    assert DailyTimetable([]).next_dagrun_info(last_automated_data_interval=None, restriction=UNRESTRICTED) is None


def test_airflow_stores_it_and_reads_it_again() -> None:
    table = DailyTimetable([DailyTime(3, 0, "UTC"), DailyTime(23, 45, "Asia/Kolkata")])
    again = DailyTimetable.deserialize(table.serialize())
    assert (again.serialize(), again.summary) == (table.serialize(), "03:00 UTC, 23:45 Asia/Kolkata")
    assert again.description == "Every day at 03:00 UTC, 23:45 Asia/Kolkata"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ('at: "25:00"', "is no time of day"),
        ("at: 3", "is no time of day"),
        ("zone: Mars/Base", "is no time zone"),
        ("zone: ../../etc/passwd", "is no time zone"),
        ("zone: /etc/localtime", "is no time zone"),
    ],
)
def test_a_wrong_time_or_zone_is_refused_where_it_stands(written: str, problem: str, tmp_path: Path) -> None:
    mistakes: list[Mistake] = []
    node = read_yaml(tmp_path / "shop.yaml", f"schedule: weekly\n{written}\n", mistakes)
    VerifyOptions.from_node(node, mistakes)
    (mistake,) = mistakes
    assert problem in str(mistake)
    assert ":2" in str(mistake)
