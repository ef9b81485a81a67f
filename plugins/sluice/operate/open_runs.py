"""The runs of our DAGs that are not over: they are active, wait for an answer, or failed and nothing made up for it.

Pure. `sluice.airflow.pages.airflow_runs` reads them from Airflow.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from sluice.operate import api
from sluice.operate.api import Question

PUT_ASIDE = "put aside by "
"""In the note of a failed run: a person has seen it, and nothing is left to do."""
QUEUED, RUNNING, FAILED, SUCCESS = "queued", "running", "failed", "success"
RETRIED = "up_for_retry"
WAITING = ("scheduled", "queued")
"""States of a task that waits for its turn."""


@dataclass(frozen=True)
class Task:
    """A task of a run."""

    name: str
    state: str
    """Of Airflow; empty before it is its turn."""
    since: datetime | None = None
    """When it ended, or, before that, when it began or was queued."""
    reason: str = ""
    """Why its last try failed."""


@dataclass(frozen=True)
class Run:
    """A run of one of our DAGs."""

    dag: str
    id: str
    prefix: str
    """Empty if it is for every replication."""
    slaves: tuple[str, ...]
    """Empty if it is for every slave."""
    state: str
    since: datetime | None = None
    """When it ended, or, before that, when it began or was queued."""
    action: str = ""
    tables: tuple[str, ...] = ()
    """Of a run for a part; empty for all."""
    rows: str = ""
    """The condition of a run for some rows of its tables."""
    tasks: tuple[Task, ...] = ()
    question: Question | None = None
    note: str = ""
    refused: str | None = None
    """Since when the master refuses writes, as the slave of a planned failover says: ISO 8601, empty if it takes them;
    None if the slave's database has not answered."""

    @property
    def active(self) -> bool:
        return self.state in (QUEUED, RUNNING)

    def task(self, name: str) -> Task | None:
        return next((one for one in self.tasks if one.name == name), None)

    @property
    def failure(self) -> Task | None:
        """The task that failed first, preferably one with a reason."""
        failed = [one for one in self.tasks if one.state == FAILED]
        ordered = sorted(failed, key=lambda one: (not one.reason, one.since.timestamp() if one.since else 0.0))
        return next(iter(ordered), None)

    def is_about(self, prefix: str, slave: str) -> bool:
        """Whether it concerns the slave. A comparison of several pairs asks about those that its question names."""
        if self.slaves:
            return self.prefix == prefix and slave in self.slaves
        if self.question is not None and self.question.pairs:
            return f"{prefix} → {slave}" in self.question.pairs
        return self.prefix == prefix and self.dag == api.RESYNC


@dataclass(frozen=True)
class Airflow:
    """What Airflow says at one moment."""

    runs: tuple[Run, ...] = ()
    """Those that are not over, oldest first."""
    paused: frozenset[str] = frozenset()
    """Our DAGs that are paused."""
    waiting: int = 0
    """Tasks of all DAGs in Airflow's queue."""
    scheduler: datetime | None = None
    """The last heartbeat of a scheduler; None if there never was one."""
    trouble: str = ""
    """Why Airflow could not be asked."""
    asked: bool = False
    """Whether it was asked at all: only pages of Airflow can."""

    def about(self, prefix: str, slave: str) -> list[Run]:
        """The runs that concern a slave."""
        of_several = [run for run in self._of_several if run.is_about(prefix, slave)]
        return [*self._by_pair.get((prefix, slave), ()), *of_several]

    @cached_property
    def _of_several(self) -> list[Run]:
        return [run for run in self.runs if not run.slaves]

    @cached_property
    def _by_pair(self) -> Mapping[tuple[str, str], list[Run]]:
        found: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            for slave in run.slaves:
                found.setdefault((run.prefix, slave), []).append(run)
        return found

    def of_master(self, prefix: str) -> list[Run]:
        """The runs that concern a whole replication and none of its slaves."""
        return [run for run in self.runs if run.prefix == prefix and not run.slaves and run.dag != api.RESYNC]

    @property
    def of_all(self) -> list[Run]:
        """The runs for every replication that no slave shows."""
        return [run for run in self.runs if not run.prefix and (run.question is None or not run.question.pairs)]

    def not_configured(self, pairs: Collection[tuple[str, str]]) -> list[Run]:
        """Applies whose pair no file configures."""
        return [
            run
            for run in self.runs
            if run.dag == api.APPLY and run.active and any((run.prefix, slave) not in pairs for slave in run.slaves)
        ]


NOT_ASKED = Airflow()


def not_over(runs: Iterable[Run]) -> list[Run]:
    """Of all runs those that concern a person still, oldest first. `runs`: in the order of their starts."""
    found: list[Run] = []
    later: list[Run] = []
    for run in reversed(list(runs)):
        failed = run.state == FAILED and PUT_ASIDE not in run.note
        if run.active or (failed and not any(makes_up_for(one, run) for one in later)):
            found.append(run)
        if run.active or run.state == SUCCESS or failed:
            later.append(run)
    return found[::-1]


def makes_up_for(later: Run, failed: Run) -> bool:
    """Whether a later run, successful or not, replaces a failed one: the same, or more of it."""
    if (later.dag, later.prefix) != (failed.dag, failed.prefix):
        return False
    if later.slaves and not set(failed.slaves or ("",)) <= set(later.slaves):
        return False
    if later.tables and not (failed.tables and set(failed.tables) <= set(later.tables)):
        return False
    if later.rows not in ("", failed.rows):
        return False
    if failed.dag == api.FAILOVER:
        return later.action in (failed.action, "abort")
    return later.action == failed.action or failed.dag in (api.UPDATE, api.RESYNC, api.GATE)
