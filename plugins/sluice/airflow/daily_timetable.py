"""When `resync` runs: once a day for each replication, at its own time of day in its own time zone."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple, Self

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from pendulum import DateTime

from sluice.configuration.options import VerifyOptions

_DAY = timedelta(days=1)
_MOST_DAYS = 31
"""How far a scheduled run looks back for what an Airflow that was down has missed."""


class DailyTime(NamedTuple):
    """A time of day in a time zone."""

    hour: int
    minute: int
    zone: str

    @classmethod
    def of(cls, verify: VerifyOptions) -> Self:
        hour, minute = verify.at.split(":")
        return cls(int(hour), int(minute), verify.zone)

    def on(self, day: date) -> DateTime:
        """When the zone's clock shows this time, in UTC. If it skips it that day: as much later; if it shows it twice:
        the second."""
        local = pendulum.datetime(day.year, day.month, day.day, self.hour, self.minute, tz=self.zone)
        return local.in_timezone("UTC")

    def after(self, moment: datetime) -> DateTime:
        """The next time after `moment`."""
        return min(time for time in self._around(moment) if time > moment)

    def until(self, moment: datetime) -> DateTime:
        """The last time until `moment`, including it."""
        return max(time for time in self._around(moment) if time <= moment)

    def days(self, after: datetime, until: datetime) -> list[date]:
        """The days, as the zone counts them, whose time is after the one and not after the other."""
        first = max(after, until - _MOST_DAYS * _DAY).astimezone(pendulum.timezone(self.zone)).date()
        last = until.astimezone(pendulum.timezone(self.zone)).date()
        days = [first + number * _DAY for number in range(-1, (last - first).days + 2)]
        return [day for day in days if after < self.on(day) <= until]

    def _around(self, moment: datetime) -> list[DateTime]:
        day = moment.astimezone(pendulum.timezone(self.zone)).date()
        return [self.on(day + number * _DAY) for number in (-2, -1, 0, 1, 2)]

    def __str__(self) -> str:
        return f"{self.hour:02}:{self.minute:02} {self.zone}"


class DailyTimetable(Timetable):
    """A run at each of `times`. Its data interval begins where that of the run before it ended, so that a run which an
    Airflow that was down has missed is made up for by the next one."""

    def __init__(self, times: Iterable[DailyTime]):
        self._times = sorted(set(times))
        self.description = f"Every day at {self.summary}" if self._times else "Never"

    @property
    def summary(self) -> str:
        return ", ".join(str(time) for time in self._times)

    def serialize(self) -> dict[str, Any]:
        return {"times": [list(time) for time in self._times]}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Self:
        return cls(DailyTime(*time) for time in data["times"])

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if not self._times:
            return None
        now = pendulum.now("UTC")
        if last_automated_data_interval is None:
            return self._run(now, self._after(now), restriction)
        before = last_automated_data_interval.end
        # Of runs that were missed the last one stands for all.
        return self._run(before, max(self._after(before), self._until(now)), restriction)

    def _run(self, start: DateTime, end: DateTime, restriction: TimeRestriction) -> DagRunInfo | None:
        if restriction.latest is not None and restriction.latest < end:
            return None
        return DagRunInfo.interval(start, end)

    def _after(self, moment: DateTime) -> DateTime:
        return min(time.after(moment) for time in self._times)

    def _until(self, moment: DateTime) -> DateTime:
        return max(time.until(moment) for time in self._times)
