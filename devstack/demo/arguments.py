"""The options of `./sluice demo`. Standard library alone: `--help` answers before anything is installed."""

import argparse
from dataclasses import dataclass

from devstack.postgres_releases import NEWEST, RELEASES

DESCRIPTION = """\
Replicates a PostgreSQL master, under live traffic, to a slave, PostgreSQL or MariaDB: everything on this machine, by
real parts.

1. Starts PostgreSQL, Redis and Airflow, and makes the master: pgbench's tables, a table with every type and its
   extremes, tables with odd names, tables with foreign keys and without keys.
2. Starts traffic on all of them.
3. Triggers the DAG initial_update and shows its progress until the slave's state is NORMAL.
4. Lets the traffic go on, stops it, waits until the slave is current, and compares every table row for row.

Exit status: 0 all tables equal, 1 not equal or failed, 2 misused, 130 interrupted.
Without --once everything stays up afterwards, replicating; './sluice down' ends it. The databases named 'demo' of
the state folder (SLUICE_HOME) are made anew each time.
"""

EXAMPLES = """\
examples:
  ./sluice demo --once                            the proof, and nothing left behind
  ./sluice demo --once --chaos --seed 7           with everything killed at random moments, the same ones each time
  ./sluice demo --once --rate 10000 --seconds 60  ten thousand row changes a second for a minute
  ./sluice demo --once --postgres 14              the same with a PostgreSQL 14 on both sides
  ./sluice demo --slaves 3                        two more slaves join while the first replicates
  ./sluice demo --once --redo                     from redo logs of an Oracle master; --seed alone counts besides
  ./sluice demo --once --slave mariadb            into a MariaDB; with --slaves 2 into a PostgreSQL beside it, too
"""


@dataclass(frozen=True)
class Range:
    """Limits of a number, said in the message of whoever passes them."""

    least: int
    most: int
    what: str

    def __call__(self, text: str) -> int:
        try:
            number = int(text.replace(",", "").replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no {self.what}: a number, {self.least} to {self.most}"
            ) from None
        if not self.least <= number <= self.most:
            raise argparse.ArgumentTypeError(f"{text} {self.what}: {self.least} to {self.most} are possible")
        return number


PORT = Range(1, 65535, "port")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define them on the parser of the subcommand."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("--once", action="store_true", help="stop everything at the end, whatever the end is")
    parser.add_argument(
        "--seconds",
        type=Range(1, 7 * 86400, "seconds"),
        default=30,
        metavar="S",
        help="how long the traffic goes on once the slave is NORMAL (default 30)",
    )
    parser.add_argument(
        "--scale",
        type=Range(1, 10_000, "scale"),
        metavar="N",
        help="size of pgbench's tables, in 100,000 accounts (default 10; 30 with --chaos)",
    )
    parser.add_argument(
        "--rate",
        type=Range(10, 100_000, "row changes a second"),
        default=1000,
        metavar="R",
        help="row changes a second, of all writers together (default 1000)",
    )
    parser.add_argument(
        "--slaves", type=Range(1, 9, "slaves"), default=1, metavar="N", help="dr1, and dr2 to drN while it replicates"
    )
    parser.add_argument(
        "--slave",
        choices=("postgres", "mariadb"),
        default="postgres",
        help="what the first slave is (default postgres); others are PostgreSQL. The master then writes nothing that"
        " a MariaDB cannot hold",
    )
    parser.add_argument(
        "--chaos", action="store_true", help="kill drivers, Airflow, slave, master and Redis at random moments"
    )
    parser.add_argument(
        "--seed",
        type=Range(0, 2**31, "seed"),
        metavar="S",
        help="repeats the traffic's and the kills' choices of a run",
    )
    parser.add_argument(
        "--postgres",
        type=int,
        choices=RELEASES,
        metavar="RELEASE",
        help=f"PostgreSQL's release of master and slaves, {RELEASES[0]} to {RELEASES[-1]} (default {NEWEST})",
    )
    parser.add_argument(
        "--redo",
        action="store_true",
        help="instead: recorded redo of two threads of an Oracle master, over proxy and merge, into a PostgreSQL",
    )
    parser.add_argument("--plain", action="store_true", help="lines of a log instead of the live view")
    parser.add_argument("--airflow-port", type=PORT, metavar="PORT", help="port of Airflow's pages and API")
    parser.add_argument("--master-port", type=PORT, metavar="PORT", help="port of the master database")
    parser.add_argument("--redis-port", type=PORT, metavar="PORT", help="port of Redis")
