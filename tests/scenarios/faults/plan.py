"""What a run does, decided by its seed before anything starts: how the pair is configured, what strikes, and when.

The seed fixes every decision of the runner and of the writers. It does not fix how the threads and processes take
turns on the machine: the same seed strikes the same things at about the same moments, which repeats most failures
within a few tries, not all at the first.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple

from workload.faults.proxy import Moment


class Fault(StrEnum):
    """A kind of fault."""

    KILL_APPLY = "SIGKILL to the apply's driver"
    FREEZE_APPLY = "SIGSTOP to the apply's driver"
    END_APPLY = "SIGTERM to the apply's driver"
    KILL_JVM = "SIGKILL to Spark's Connect server"
    FREEZE_JVM = "SIGSTOP to Spark's Connect server"
    KILL_WORKER = "SIGKILL to a Python worker of Spark"
    FREEZE_WORKER = "SIGSTOP to a Python worker of Spark"
    FREEZE_DAEMON = "SIGSTOP to the process that forks Spark's Python workers"
    KILL_EXECUTOR = "SIGKILL to an executor of Spark"
    FULL_SPARK = "Spark's files may not grow beyond 64 kB, and its executors are killed"
    CRASH_SLAVE = "SIGKILL to the slave's postmaster"
    CRASH_MASTER = "SIGKILL to the master's postmaster"
    FREEZE_SLAVE = "SIGSTOP to all of the slave"
    FREEZE_MASTER = "SIGSTOP to all of the master"
    QUIT_SLAVE = "immediate shutdown of the slave"
    QUIT_MASTER = "immediate shutdown of the master"
    CRASH_BACKENDS = "SIGKILL to a backend, after which the server starts again by itself"
    TERMINATE_BACKENDS = "pg_terminate_backend for all sessions of the apply"
    KILL_REDIS = "SIGKILL to Redis"
    FLUSH_REDIS = "FLUSHALL in Redis"
    FREEZE_REDIS = "SIGSTOP to Redis"
    CUT = "connections reset"
    HALVE = "a connection cut within a message"
    STALL = "connections stalled, half open"
    SLOW = "connections slow"
    FULL_DISK = "files may not grow beyond 1 MB (RLIMIT_FSIZE: writes fail with EFBIG)"
    FULL_WAL = "files may not grow beyond 512 kB, half a segment of the write-ahead log: the server panics"
    SECOND_APPLY = "a second apply, the lease deleted for it"
    KILL_LOAD = "SIGKILL to the process that loads the slave"
    USURPED = "SIGSTOP to the apply, a second one by force, then SIGCONT to the first"


SPARK_ONLY = (Fault.KILL_WORKER, Fault.FREEZE_WORKER, Fault.KILL_JVM, Fault.FREEZE_JVM, Fault.FREEZE_DAEMON)
"""Where Spark is one server on this machine: what strikes there in each run."""
CLUSTER_ONLY = (Fault.KILL_EXECUTOR, Fault.KILL_EXECUTOR, Fault.FULL_SPARK, Fault.FULL_SPARK, Fault.KILL_JVM)
"""The same where it is a cluster: only there executors are processes, and have something to write."""
AT_COMMIT = frozenset({
    Fault.KILL_APPLY, Fault.FREEZE_APPLY, Fault.CRASH_SLAVE, Fault.QUIT_SLAVE, Fault.CRASH_MASTER, Fault.FLUSH_REDIS,
    Fault.CUT, Fault.STALL, Fault.USURPED, Fault.FREEZE_SLAVE, Fault.FREEZE_MASTER,
})  # fmt: skip
"""What may also strike around a COMMIT of the apply on the slave."""
PLACES = {
    Fault.CUT: ("master", "slave", "redis"),
    Fault.HALVE: ("master", "slave", "redis"),
    Fault.STALL: ("master", "slave", "redis"),
    Fault.SLOW: ("master", "slave", "redis"),
    Fault.CRASH_BACKENDS: ("master", "slave"),
    Fault.FULL_DISK: ("master", "slave"),
    Fault.FULL_WAL: ("master", "slave"),
    Fault.TERMINATE_BACKENDS: ("master", "slave"),
}


class Card(NamedTuple):
    """A fault, and its place."""

    fault: Fault
    place: str


@dataclass(frozen=True)
class Strike:
    """One fault, `pause` seconds after changes were applied again, or after the previous fault if it is `hasty`."""

    pause: float
    fault: Fault
    moment: Moment = Moment.NOW
    place: str = ""
    seconds: float = 0.0
    """Until it is fixed, where something has to be; infinity: never."""
    cut: bool = False
    """At a COMMIT: whether the connection is cut afterwards as well."""
    hasty: bool = False
    calm: bool = False
    """Whether nothing is written from here on that takes the checkpoint to the slave as well."""

    @property
    def _lasts(self) -> str:
        if not self.seconds:
            return ""
        return "forever" if math.isinf(self.seconds) else f"for {self.seconds:.2f} s"

    def __str__(self) -> str:
        return " ".join(
            part for part in (
                f"{'already' if self.hasty else 'then'} after {self.pause:.2f} s: {self.fault}",
                f"({self.place})" if self.place else "",
                self.moment, "and cut" if self.cut else "", self._lasts,
            ) if part
        )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The decisions of a run."""

    seed: int
    spark: bool
    """Whether real executors stage, instead of threads of the driver."""
    cluster: bool
    """Whether they are those of a cluster, separate processes."""
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
    ordinary: bool
    """Whether the account on the slave is nobody's superuser: its triggers and foreign keys act."""
    load: bool
    """Whether the slave is loaded again while faults strike, by an initial update of all its tables."""
    strikes: tuple[Strike, ...]
    mariadb: bool = False
    """Whether the slave is a MariaDB."""

    def __str__(self) -> str:
        options = (
            f"spark={self.spark} cluster={self.cluster} lazy={self.lazy} stage={self.stage} batch={self.batch}"
            f" interval={self.interval} safe={self.safe} policy={self.policy}"
            f" compare={self.compare} kept={self.kept} ordinary={self.ordinary} load={self.load}"
            f"{' mariadb' if self.mariadb else ''}"
        )
        return "\n".join([f"seed {self.seed}: {options}", *(f"  {strike}" for strike in self.strikes)])


SPARK_EVERY = 7
"""A session of Spark takes its time to start: one run of so many has one."""
REDIS_EVERY = 4
LOAD_EVERY = 5
DEALT = {(False, False): 4, (False, True): 2, (True, False): 1}
"""By kind of run: how many of its faults are dealt from a deck, so that all have their turn, at every place."""
DEALT_OF_MARIADB = 2
PAUSES = (0.0, 1.2)
SPARK_SECONDS, CLUSTER_SECONDS = 2.0, 8.0
"""Seconds that Spark is given in these runs, instead of half a minute and more (`sluice.apply.stage_driver`). In a
cluster each session's Python workers import the library themselves."""
LASTING = frozenset({Fault.FREEZE_WORKER, Fault.FREEZE_JVM, Fault.FREEZE_DAEMON})
"""What in one of two cases is not fixed until Spark's server is started again: the apply must get over it by itself."""


def plan(seed: int) -> Plan:
    """The plan of a seed. Consecutive seeds go through all faults, again and again."""
    random = Random(f"{seed} faults")
    spark, redis = _kind(seed)
    safe = random.random() < 0.15
    return Plan(
        seed,
        spark,
        cluster=_on_cluster(seed),
        lazy=random.random() < 0.3,
        stage=300 if spark else random.choice((300, 1000, 3000)),
        batch=1_000_000 if spark else random.choice((5000, 1_000_000, 1_000_000)),
        # In Redis: long enough for a lot to come again. What an apply writes there when it ends is all there is.
        interval=30.0 if redis else random.choice((0.1, 0.1, 1.0)),
        safe=safe,
        policy="stop" if safe else random.choice(("stop", "stop", "reject", "overwrite")),
        compare=random.random() < 0.7,
        kept="redis" if redis else "slave",
        ordinary=seed % REDIS_EVERY == 2 and not spark,
        load=_loads(seed),
        strikes=tuple(_strikes(random, seed)),
    )


def plan_of_mariadb(seed: int) -> Plan:
    """The plan of a seed with a MariaDB as the slave: threads stage, the checkpoint is on the slave, nothing is loaded
    again."""
    random = Random(f"{seed} faults of mariadb")
    safe = random.random() < 0.15
    return Plan(
        seed,
        spark=False,
        cluster=False,
        lazy=random.random() < 0.3,
        stage=random.choice((300, 1000, 3000)),
        batch=random.choice((5000, 1_000_000, 1_000_000)),
        interval=0.1,
        safe=safe,
        policy="stop" if safe else random.choice(("stop", "stop", "reject", "overwrite")),
        compare=random.random() < 0.7,
        kept="slave",
        ordinary=True,
        load=False,
        strikes=tuple(_strike(random, card) for card in dealt_of_mariadb(seed)),
        mariadb=True,
    )


def dealt_of_mariadb(seed: int) -> list[Card]:
    """The faults of such a run. A MariaDB has no processes for its sessions, and waits if its disk is full."""
    left_out = {Card(fault, "slave") for fault in (Fault.CRASH_BACKENDS, Fault.FULL_DISK, Fault.FULL_WAL)}
    cards = [card for card in deck() if card not in left_out]
    return _drawn(cards, seed * DEALT_OF_MARIADB, DEALT_OF_MARIADB)


def _kind(seed: int) -> tuple[bool, bool]:
    """Whether Spark stages, and whether the checkpoint is kept in Redis."""
    spark = seed % SPARK_EVERY == 0
    return spark, seed % REDIS_EVERY == 3 and not spark


def _on_cluster(seed: int) -> bool:
    """Every second run with Spark."""
    return seed % (2 * SPARK_EVERY) == 0


def _loads(seed: int) -> bool:
    return seed % LOAD_EVERY == LOAD_EVERY - 1 and _kind(seed) == (False, False)


def _strikes(random: Random, seed: int) -> Iterator[Strike]:
    spark, redis = _kind(seed)
    cards = dealt(seed)
    if spark:
        cards += [Card(fault, "") for fault in (CLUSTER_ONLY if _on_cluster(seed) else SPARK_ONLY)]
        random.shuffle(cards)
    if _loads(seed):
        yield Strike(0.0, Fault.KILL_LOAD, hasty=True)
    for card in cards:
        yield _strike(random, card)
    if redis:  # what was applied since it was last written there comes again: so there must be something
        yield Strike(random.uniform(1.0, 2.0), Fault.KILL_APPLY, calm=True)
        yield Strike(random.uniform(2.0, 3.0), Fault.FLUSH_REDIS)
        yield Strike(0.05, Fault.KILL_APPLY, hasty=True)


def dealt(seed: int) -> list[Card]:
    """The faults of a run, dealt from a deck that is shuffled again whenever it is used up."""
    rounds, place = divmod(seed, SPARK_EVERY * REDIS_EVERY)
    each = [DEALT[_kind(other)] for other in range(SPARK_EVERY * REDIS_EVERY)]
    return _drawn(deck(), rounds * sum(each) + sum(each[:place]), each[place])


def deck() -> list[Card]:
    """The faults of any run with a PostgreSQL as the slave."""
    left_out = (*SPARK_ONLY, *CLUSTER_ONLY, Fault.KILL_LOAD)
    return [Card(fault, place) for fault in Fault if fault not in left_out for place in PLACES.get(fault, ("",))]


def _drawn(cards: list[Card], first: int, count: int) -> list[Card]:
    """So many cards of a deck that is shuffled again whenever it is used up, from the card with number `first` on."""
    found = []
    for number in range(first, first + count):
        shuffled = Random(f"cards {number // len(cards)}").sample(cards, len(cards))
        found.append(shuffled[number % len(cards)])
    return found


def _strike(random: Random, card: Card) -> Strike:
    fault, place = card
    moment = Moment.NOW
    if fault in AT_COMMIT and place in ("", "slave"):
        moment = random.choice(list(Moment))
    seconds = random.choice((0.1, 0.5, 1.0, 2.5)) * random.uniform(0.5, 1.5)
    if fault in LASTING and random.random() < 0.5:
        seconds = math.inf
    return Strike(
        round(random.uniform(*PAUSES), 3), fault, moment, place, seconds=round(seconds, 3),
        cut=moment is not Moment.NOW and random.random() < 0.4, hasty=random.random() < 0.3,
    )  # fmt: skip
