"""Runs the strikes of a demo's plan, and reports when a killed part is back."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from devstack.demo.accounts import PREFIX
from devstack.demo.events import Events
from devstack.process import ProcessId
from devstack.services import Services
from devstack.stack import Stack
from sluice.airflow import applies, jobs
from sluice.airflow.applies import Apply, QueryJob
from sluice.airflow.job import Kind
from sluice.errors import SluiceError
from workload.faults.drivers import driver_of
from workload.faults.striker import Striker, never

# Plans what is killed, and when. A seed determines the plan.
#
# It has two lists of strikes, each with the pause before it: one for the load of blocks, one for the apply of
# changes. The first begins with the load's driver; the second kills every kind of victim at least once.


class Victim(StrEnum):
    """A part that can be killed, as the view names it."""

    LOAD = "load driver"
    APPLY = "apply driver"
    AIRFLOW = "Airflow"
    SLAVE = "slave"
    MASTER = "master"
    REDIS = "Redis"
    SPARK = "Spark"


COMPONENTS = ("scheduler", "triggerer", "api-server", "dag-processor")
"""Components of Airflow. The victim AIRFLOW is one of them."""

LOAD_GAPS = (0.2, 2.0)
"""Seconds between two strikes while blocks load. They are few because loads are short."""
APPLY_GAPS = (1.0, 7.0)


@dataclass(frozen=True)
class Strike:
    """One kill."""

    pause: float
    """Seconds after the strike before, or after the list began."""
    victim: Victim
    detail: str = ""
    """The component if the victim is AIRFLOW, else empty."""


@dataclass(frozen=True)
class Plan:
    """All strikes of a demo."""

    load: tuple[Strike, ...]
    apply: tuple[Strike, ...]

    @property
    def seconds(self) -> float:
        """The sum of the pauses while changes are applied."""
        return sum(strike.pause for strike in self.apply)


def plan(seed: int) -> Plan:
    """Returns the plan of the seed, always the same."""
    random = Random(f"{seed} chaos")
    while_loading = [
        Victim.LOAD,
        *random.sample([Victim.MASTER, Victim.SLAVE, Victim.REDIS, Victim.AIRFLOW, Victim.APPLY, Victim.SPARK], 2),
    ]
    if random.random() < 0.5:  # the load's driver again, after other victims
        while_loading.append(Victim.LOAD)
    while_applying = [Victim.APPLY, Victim.AIRFLOW, Victim.SLAVE, Victim.MASTER, Victim.REDIS, Victim.SPARK]
    while_applying += random.choices(while_applying, k=2)
    random.shuffle(while_applying)
    return Plan(_strikes(random, while_loading, LOAD_GAPS), _strikes(random, while_applying, APPLY_GAPS))


def _strikes(random: Random, victims: list[Victim], gaps: tuple[float, float]) -> tuple[Strike, ...]:
    return tuple(Strike(round(random.uniform(*gaps), 3), victim, _detail(random, victim)) for victim in victims)


def _detail(random: Random, victim: Victim) -> str:
    return random.choice(COMPONENTS) if victim is Victim.AIRFLOW else ""


START = 30.0
"""Seconds to wait for a driver that is starting."""
RECOVERY = 120.0
"""Seconds in which a killed part must be back."""


class Killer:
    """Kills parts of a stack. `slaves` returns those that replicate now."""

    def __init__(
        self,
        stack: Stack,
        slaves: Callable[[], Sequence[str]],
        loaded: Callable[[str], bool],
        follows: Callable[[str, float], bool],
        seed: int,
        events: Events,
    ) -> None:
        """`loaded(slave)`: whether its load has ended, so that its driver need not come back. `follows(slave, time)`:
        whether it shows a change that was committed on the master after that time of `time.monotonic`.
        """
        self.stack, self.events = stack, events
        self._slaves, self._loaded, self._follows = slaves, loaded, follows
        self._random = Random(f"{seed} hand")
        self._striker = Striker(pause=0.05)
        self.problems: list[str] = []

    @property
    def kills(self) -> int:
        return self._striker.hits

    def run(self, strikes: Sequence[Strike], going_on: Callable[[], bool]) -> None:
        """Runs the strikes in order while `going_on`, and returns when all killed parts are back or `RECOVERY` is over.

        `problems` then names the parts that are not back.
        """
        for strike in strikes:
            if self._striker.wait(strike.pause, lambda: not going_on()):
                break
            self.strike(strike)
        self._striker.settle()

    def strike(self, strike: Strike) -> None:
        """Kills one part. It waits until a part that is already down is back."""
        slave = self._random.choice(list(self._slaves()))
        match strike.victim:
            case Victim.LOAD:
                self._strike_job(Kind.LOAD, slave)
            case Victim.APPLY:
                self._strike_job(Kind.APPLY, slave)
            case Victim.AIRFLOW:
                self._strike_service(f"airflow-{strike.detail}")
            case Victim.SLAVE:
                self._strike_service(Services.service_of(slave))
            case Victim.MASTER:
                self._strike_service("master")
            case Victim.REDIS:
                self._strike_service("redis")
            case Victim.SPARK:
                self._strike_service("spark")

    def _strike_service(self, service: str) -> None:
        def kill() -> Callable[[], bool] | None:
            try:
                killed = self.stack.kill(service)
            except SluiceError:  # it is not up yet
                return None
            return lambda: self._runs(service, killed)

        self._kill(service, kill)

    def _runs(self, service: str, after: ProcessId) -> bool:
        try:
            return self.stack.runs(service, after)
        except SluiceError:  # the supervisor does not run
            return False

    def _strike_job(self, kind: Kind, slave: str) -> None:
        def kill() -> Callable[[], bool] | None:
            job = applies.live(PREFIX, slave) if kind is Kind.APPLY else jobs.live(kind, PREFIX, slave)
            driver = process_of(job) if job is not None else None
            if job is None or driver is None:
                return None
            at = time.monotonic()
            driver.send(signal.SIGKILL)
            return lambda: self._job_is_back(kind, slave, job.id, at)

        over = (lambda: self._loaded(slave)) if kind is Kind.LOAD else never
        self._kill(f"{kind} job of {slave}", kill, over)

    def _job_is_back(self, kind: Kind, slave: str, killed: str, at: float) -> bool:
        """Whether another load runs or the load has ended; for an apply, whether changes arrive again."""
        if kind is Kind.APPLY:
            return self._follows(slave, at)
        job = jobs.live(kind, PREFIX, slave)
        return (job is not None and job.id != killed) or self._loaded(slave)

    def _kill(self, name: str, kill: Callable[[], Callable[[], bool] | None], over: Callable[[], bool] = never) -> None:
        """`kill()` returns a function that tells whether the part is back, or None when there was nothing to kill.

        `over()`: whether there will be nothing to kill any more.
        """
        if not self._striker.wait(RECOVERY, lambda: not self._striker.is_down(name)):
            return
        is_back = self._striker.hit(kill, START, over)
        if is_back is None:
            self.events.say(f"{name}: nothing to kill, it does not run")
            return
        self.events.say(f"kill -9 {name}", "kill")
        self._striker.watch(name, is_back, RECOVERY, lambda seconds, back: self._recovered(name, seconds, back))

    def _recovered(self, name: str, seconds: float, back: bool) -> None:
        if back:
            self.events.say(f"{name} is back after {seconds:.1f} s", "good")
            return
        self.events.say(f"{name} is not back after {seconds:.0f} s", "bad")
        self.problems.append(f"{name} was killed, and is not back after {seconds:.0f} s")


def process_of(job: Apply) -> ProcessId | None:
    """The process that does the work of a job: its driver, or the Python worker of Spark; None while there is none."""
    if not isinstance(job, QueryJob):
        return driver_of(job.runner.pid)
    begun = job.noted.state().begun
    return ProcessId.of(begun.pid) if begun is not None else None
