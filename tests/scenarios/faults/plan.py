"""What a run does, decided by its seed before anything starts: how the pair is configured, what strikes, and when.

The seed fixes every decision of the runner and of the writers. It does not fix how the threads and processes take
turns on the machine: the same seed strikes the same things at about the same moments, which repeats most failures
within a few tries, not all at the first.
"""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.scenarios.faults.proxy import Moment


class Fault(StrEnum):
    """What strikes."""

    KILL_APPLY = "SIGKILL to the apply's driver"
    FREEZE_APPLY = "SIGSTOP to the apply's driver"
    END_APPLY = "SIGTERM to the apply's driver"
    KILL_JVM = "SIGKILL to the JVM"
    KILL_WORKER = "SIGKILL to a Python worker of Spark"
    CRASH_SLAVE = "SIGKILL to the slave's postmaster"
    CRASH_MASTER = "SIGKILL to the master's postmaster"
    QUIT_SLAVE = "immediate shutdown of the slave"
    QUIT_MASTER = "immediate shutdown of the master"
    CRASH_BACKENDS = "SIGKILL to a backend, after which the server starts anew by itself"
    TERMINATE_BACKENDS = "pg_terminate_backend for all sessions of the apply"
    KILL_REDIS = "SIGKILL to Redis"
    FLUSH_REDIS = "FLUSHALL in Redis"
    FREEZE_REDIS = "SIGSTOP to Redis"
    CUT = "connections reset"
    HALVE = "a connection cut within a message"
    STALL = "connections stalled, half open"
    SLOW = "connections slow"
    FULL_DISK = "the slave's files may not grow beyond 1 MB (RLIMIT_FSIZE: writes fail with EFBIG)"
    SECOND_APPLY = "a second apply, the lease deleted for it"
    USURPED = "SIGSTOP to the apply, a second one by force, then SIGCONT to the first"


SPARK_ONLY = frozenset({Fault.KILL_JVM, Fault.KILL_WORKER})
AT_COMMIT = frozenset({
    Fault.KILL_APPLY, Fault.FREEZE_APPLY, Fault.CRASH_SLAVE, Fault.QUIT_SLAVE, Fault.CRASH_MASTER, Fault.FLUSH_REDIS,
    Fault.CUT, Fault.STALL, Fault.USURPED,
})  # fmt: skip
"""What may also strike around a COMMIT of the apply on the slave."""
PLACES = {
    Fault.CUT: ("master", "slave", "redis"),
    Fault.HALVE: ("master", "slave", "redis"),
    Fault.STALL: ("master", "slave", "redis"),
    Fault.SLOW: ("master", "slave", "redis"),
    Fault.CRASH_BACKENDS: ("master", "slave"),
    Fault.TERMINATE_BACKENDS: ("master", "slave"),
}


@dataclass(frozen=True)
class Strike:
    """One fault, `pause` seconds after the apply came on again, or after the fault before when it is `hasty`."""

    pause: float
    fault: Fault
    moment: Moment = Moment.NOW
    place: str = ""
    seconds: float = 0.0
    """Until it is mended, where something has to be."""
    cut: bool = False
    """At a COMMIT: whether the connection is cut afterwards as well."""
    hasty: bool = False

    def __str__(self) -> str:
        return " ".join(
            part for part in (
                f"{'already' if self.hasty else 'then'} after {self.pause:.2f} s: {self.fault}",
                f"({self.place})" if self.place else "",
                self.moment, "and cut" if self.cut else "", f"for {self.seconds:.2f} s" if self.seconds else "",
            ) if part
        )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """A run."""

    seed: int
    spark: bool
    """Whether real executors stage, instead of threads of the driver."""
    lazy: bool
    """Whether half of the master's commits do not wait for the disk."""
    stage: int
    """`stage_above`: changes from which on a window is staged."""
    batch: int
    """`max_batch_changes`."""
    interval: float
    """`checkpoint_interval` in seconds: safe mode lasts two of them after a start."""
    safe: bool
    policy: str
    compare: bool
    """`compare_values`."""
    kept: str
    """`checkpoint`: slave, or redis. In Redis it lags behind the data, and what comes again is not told by it."""
    strikes: tuple[Strike, ...]

    def __str__(self) -> str:
        options = (
            f"spark={self.spark} lazy={self.lazy} stage={self.stage} batch={self.batch} interval={self.interval}"
            f" safe={self.safe} policy={self.policy}"
            f" compare={self.compare} kept={self.kept}"
        )
        return "\n".join([f"seed {self.seed}: {options}", *(f"  {strike}" for strike in self.strikes)])


SPARK_EVERY = 7
"""A session of Spark takes its time to start: one run of so many has one."""
STRIKES = (3, 5)
PAUSES = (0.0, 1.2)


def plan(seed: int) -> Plan:
    """The same for the same seed. Runs of consecutive seeds begin with different faults, until all had their turn."""
    random = Random(f"{seed} faults")
    spark = seed % SPARK_EVERY == 0
    if spark:
        faults = [Fault.KILL_WORKER, Fault.KILL_JVM]
        faults += random.sample([Fault.KILL_APPLY, Fault.CRASH_SLAVE, Fault.CUT, Fault.CRASH_MASTER], 2)
        random.shuffle(faults)
    else:
        deck = [fault for fault in Fault if fault not in SPARK_ONLY]
        faults = [deck[seed % len(deck)], *random.choices(deck, k=random.randint(*STRIKES) - 1)]
    safe = random.random() < 0.15
    return Plan(
        seed,
        spark,
        lazy=random.random() < 0.3,
        stage=300 if spark else random.choice((300, 1000, 3000)),
        batch=1_000_000 if spark else random.choice((5000, 1_000_000, 1_000_000)),
        interval=random.choice((0.1, 0.1, 1.0)),
        safe=safe,
        policy="stop" if safe else random.choice(("stop", "stop", "stop", "reject")),
        compare=random.random() < 0.7,
        kept="redis" if seed % 4 == 3 else "slave",
        strikes=tuple(_strike(random, fault) for fault in faults),
    )


def _strike(random: Random, fault: Fault) -> Strike:
    moment = Moment.NOW
    if fault in AT_COMMIT:
        moment = random.choice(list(Moment))
    place = random.choice(PLACES[fault]) if fault in PLACES else ""
    if moment is not Moment.NOW and place:
        place = "slave"
    return Strike(
        round(random.uniform(*PAUSES), 3), fault, moment, place,
        seconds=round(random.choice((0.1, 0.5, 1.0, 2.5)) * random.uniform(0.5, 1.5), 3),
        cut=moment is not Moment.NOW and random.random() < 0.4, hasty=random.random() < 0.3,
    )  # fmt: skip
