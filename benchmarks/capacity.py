"""What many pairs need, on paper: `python -m benchmarks.capacity --pairs 500 --changes 100000 --terabytes 10 --days 2`.

This computes from the measured costs of one pair; it runs nothing. All pairs are alike: each has its own master and
slave and an equal share of the changes, in transactions of one row.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Costs:
    """Of one pair: cores are seconds of CPU in a second, of an AMD EPYC.

    Measured by `benchmarks.pair_costs` on docker-compose.yaml as the difference between a pair at rest and a pair with
    157 transactions of one row a second, for 60 s each, while other work kept the machine busy. Memory, the watcher and
    Spark Connect are the difference between no pair and one at rest, measured before.
    """

    apply_rest: float = 0.0166
    """Cores of its Python worker while nothing changes."""
    apply_turn: float = 0.0042
    """CPU seconds of a turn of the apply with a few changes: 0.31 cores at 157 changes/s."""
    turn_pause: float = 0.010
    """The seconds that an apply waits after a short window."""
    apply_change: float = 1.5e-6
    """CPU seconds of the apply for each change of a large window: half of what `bench drain` needs."""
    apply_memory: float = 0.15
    """GB of its Python worker, its share of what workers have together counted once."""
    master_rest: float = 0.0288
    master_change: float = 0.0011
    """CPU seconds of the master for a transaction of one row: the application's own work, its capture, its reading."""
    slave_turn: float = 0.00072
    redis_rest: float = 28.0
    """Requests a second of an apply and its watcher to Redis while nothing changes."""
    redis_turn: float = 1.6
    """Requests of a turn with changes."""
    redis_request: float = 0.00009
    """CPU seconds of Redis for a request over TLS, its health check included. It answers with one thread."""
    watcher: float = 0.0045
    """Cores of the triggerer for the watcher of one pair."""
    connect: float = 0.003
    """Cores of Spark Connect for a pair."""
    master_sessions: int = 2
    item_bytes: float = 320.0
    """Bytes of a change in ITEMS with its index: rows of 53 and 109 bytes, 326 and 315."""
    load_bytes: float = 31e6
    """Bytes a second of one loader with one core for both databases and itself: `bench load`, 800,000 rows/s of 79
    bytes with two."""


@dataclass(frozen=True)
class Shape:
    """What is asked for."""

    pairs: int
    changes: float
    """A second, of all pairs."""
    terabytes: float
    """To load, of all pairs."""
    days: float
    """In which they are loaded."""


@dataclass(frozen=True)
class Need:
    """What a part needs, beside what one unit of it gives."""

    part: str
    needs: float
    unit: str
    one: float
    """What is there with docker-compose.yaml on a machine of 32 cores and 64 GB."""
    moved_by: tuple[str, str]
    """Settings or measures that move the bound."""

    @property
    def times(self) -> float:
        """How many of what is there: above 1 it is a bound."""
        return self.needs / self.one


def turns(costs: Costs, changes: float) -> float:
    """Turns a second of an apply with so many changes a second. It waits after each as long as it took, or the shortest
    pause; with few changes there are no more turns than changes."""
    if changes <= 0:
        return 0.0
    length = costs.apply_turn
    for _ in range(50):  # a turn takes longer for the changes that came since the last one
        period = length + max(costs.turn_pause, length)
        length = costs.apply_turn + costs.apply_change * changes * period
    return min(1 / (length + max(costs.turn_pause, length)), changes)


def needs(shape: Shape, costs: Costs) -> list[Need]:
    """What each part needs, the first bound first."""
    each = shape.changes / shape.pairs
    turned = turns(costs, each)
    apply = costs.apply_rest + turned * costs.apply_turn + each * costs.apply_change
    redis = costs.redis_rest + turned * costs.redis_turn
    loaders = shape.terabytes * 1e12 / (shape.days * 86_400) / costs.load_bytes
    found = [
        Need("CPU of applies", shape.pairs * apply, "cores", 32,
             ("number of Spark workers", "one pair with the tables of several: a turn costs the same")),
        Need("slots of Spark", shape.pairs + loaders, "slots", 64,
             ("SPARK_WORKER_CORES", "number of Spark workers")),
        Need("memory of applies", shape.pairs * costs.apply_memory, "GB", 64,
             ("number of Spark workers", "one pair with the tables of several")),
        Need("Redis", shape.pairs * redis * costs.redis_request, "cores", 1,
             ("a Redis for each group of prefixes", "apply.poll_interval, for pairs at rest")),
        Need("triggerer", shape.pairs * costs.watcher, "cores", 1,
             ("number of triggerers", "AIRFLOW__TRIGGERER__CAPACITY, from 1,000")),
        Need("Spark Connect", shape.pairs * costs.connect, "cores", 1,
             ("an endpoint for each Airflow", "SPARK_CONNECT_MEMORY")),
        Need("one master", costs.master_rest + each * costs.master_change, "cores", 1,
             ("transactions of many rows", "actions of single tables")),
        Need("one slave", turned * costs.slave_turn, "cores", 1,
             ("fewer indexes", "one pair with the tables of several")),
        Need("sessions of a master of ten pairs", 10 * costs.master_sessions, "sessions", 100,
             ("max_connections", "PgBouncer with pool_mode = session")),
        Need("ITEMS of a master whose slave is away for a day", each * costs.item_bytes * 86_400 / 1e9, "GB", 100,
             ("items_limit", "actions of single tables")),
        Need("loaders", loaders, "loaders", 4, ("initial.parallel", "--days")),
    ]  # fmt: skip
    return sorted(found, key=lambda need: -need.times)


def show(found: Sequence[Need], console: Console) -> None:
    table = Table("bound", "needs", "of one machine", "moved by")
    for need in found:
        table.add_row(need.part, f"{need.needs:,.3g} {need.unit}", f"{need.times:,.2f}", "; ".join(need.moved_by))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--changes", type=float, default=100_000, help="a second, of all pairs")
    parser.add_argument("--terabytes", type=float, default=10, help="to load, of all pairs")
    parser.add_argument("--days", type=float, default=2, help="in which they are loaded")
    options = parser.parse_args()
    shape = Shape(options.pairs, options.changes, options.terabytes, options.days)
    show(needs(shape, Costs()), Console(width=150))


if __name__ == "__main__":
    main()
