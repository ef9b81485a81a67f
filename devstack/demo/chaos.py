"""Plans what is killed, and when. A seed determines the plan.

It has two lists of strikes, each with the pause before it: one for the load of blocks, one for the apply of changes.
The first begins with the load's driver; the second kills every kind of victim at least once.
"""

from dataclasses import dataclass
from enum import StrEnum
from random import Random


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
