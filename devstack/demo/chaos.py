"""What is killed, and when: decided by a seed before anything starts.

Two scenes, each a list of strikes with the pause before each: while blocks load, and while changes are applied. Every
kind of victim is struck at least once in the second scene, the load's driver first of all in the first one.
"""

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Victim(StrEnum):
    """What can be killed, in the words of the view."""

    LOAD = "load driver"
    APPLY = "apply driver"
    AIRFLOW = "Airflow"
    SLAVE = "slave"
    MASTER = "master"
    REDIS = "Redis"
    SPARK = "Spark"


COMPONENTS = ("scheduler", "triggerer", "api-server", "dag-processor")
"""Of Airflow; one of them is killed where the victim is AIRFLOW."""

LOAD_GAPS = (0.2, 2.0)
"""Seconds between two strikes while blocks load: loads are short."""
APPLY_GAPS = (1.0, 7.0)


@dataclass(frozen=True)
class Strike:
    """One kill: so many seconds after the one before (or after the scene began)."""

    pause: float
    victim: Victim
    detail: str = ""
    """Of AIRFLOW, the component; else empty."""


@dataclass(frozen=True)
class Plan:
    """All strikes of a demo."""

    load: tuple[Strike, ...]
    apply: tuple[Strike, ...]

    @property
    def seconds(self) -> float:
        """The least time that the second scene takes."""
        return sum(strike.pause for strike in self.apply)


def plan(seed: int) -> Plan:
    """The same plan for the same seed."""
    random = Random(f"{seed} chaos")
    while_loading = [
        Victim.LOAD,
        *random.sample([Victim.MASTER, Victim.SLAVE, Victim.REDIS, Victim.AIRFLOW, Victim.APPLY, Victim.SPARK], 2),
    ]
    if random.random() < 0.5:  # the load's driver again, after something else went
        while_loading.append(Victim.LOAD)
    while_applying = [Victim.APPLY, Victim.AIRFLOW, Victim.SLAVE, Victim.MASTER, Victim.REDIS, Victim.SPARK]
    while_applying += random.choices(while_applying, k=2)
    random.shuffle(while_applying)
    return Plan(_strikes(random, while_loading, LOAD_GAPS), _strikes(random, while_applying, APPLY_GAPS))


def _strikes(random: Random, victims: list[Victim], gaps: tuple[float, float]) -> tuple[Strike, ...]:
    return tuple(Strike(round(random.uniform(*gaps), 3), victim, _detail(random, victim)) for victim in victims)


def _detail(random: Random, victim: Victim) -> str:
    return random.choice(COMPONENTS) if victim is Victim.AIRFLOW else ""
