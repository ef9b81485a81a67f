"""The options of `./sluice demo`. It uses the standard library only, so that `--help` works before any installation."""

import argparse
from dataclasses import dataclass

from devstack.postgres_releases import NEWEST, RELEASES

DESCRIPTION = """\
Replicates a master under live traffic to a slave, each PostgreSQL or MariaDB. All servers run on this machine.

1. Starts PostgreSQL, Redis and Airflow, and makes the master: pgbench's tables, a table with every type and its
   extremes, tables with odd names, tables with foreign keys and without keys.
2. Starts traffic on all of them.
3. Triggers the DAG initial_update and shows its progress until the slave's state is NORMAL.
4. Lets the traffic continue, stops it, waits until the slave is current, and compares every table row for row.

Exit status: 0 all tables equal, 1 not equal or failed, 2 misused, 130 interrupted.
Without --once everything keeps running and replicating; './sluice down' ends it. Each demo drops and makes the
databases named 'demo' of the state folder (SLUICE_HOME).
"""

MARIADB = "mariadb"
EXAMPLES = """\
examples:
  ./sluice demo --once                            compare, then stop everything
  ./sluice demo --once --chaos --seed 7           kill every part at random moments, the same for the same seed
  ./sluice demo --once --rate 10000 --seconds 60  ten thousand row changes a second for a minute
  ./sluice demo --once --postgres 14              with PostgreSQL 14 on both sides
  ./sluice demo --slaves 3                        two more slaves join while the first replicates
  ./sluice demo --once --redo                     from redo logs of an Oracle master; of the options, --seed works too
  ./sluice demo --once --master mariadb           from the binary log of a MariaDB master; not with --chaos
  ./sluice demo --once --slave mariadb            to a MariaDB slave; with --slaves 2 to a PostgreSQL slave, too
"""


@dataclass(frozen=True)
class Range:
    """An argument type: a number between limits. The message of a refusal names them."""

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
    """Adds the options to the parser of the subcommand."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("--once", action="store_true", help="stop everything at the end, also after a failure")
    parser.add_argument(
        "--seconds",
        type=Range(1, 7 * 86400, "seconds"),
        default=15,
        metavar="S",
        help="how long traffic continues after the slave is NORMAL (default 15)",
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
        help="row changes a second of all writers together (default 1000)",
    )
    parser.add_argument(
        "--slaves",
        type=Range(1, 9, "slaves"),
        default=1,
        metavar="N",
        help="number of slaves: dr1; dr2 to drN join while it replicates",
    )
    parser.add_argument(
        "--master",
        choices=("postgres", MARIADB),
        default="postgres",
        help="the master's server (default postgres); the log of a MariaDB is recorded, and the slaves are PostgreSQL",
    )
    parser.add_argument(
        "--slave",
        choices=("postgres", MARIADB),
        default="postgres",
        help="the first slave's server (default postgres); the others are PostgreSQL. With mariadb the traffic writes"
        " no values that MariaDB cannot store",
    )
    parser.add_argument(
        "--chaos", action="store_true", help="kill drivers, Airflow, slave, master and Redis at random moments"
    )
    parser.add_argument(
        "--seed",
        type=Range(0, 2**31, "seed"),
        metavar="S",
        help="repeat the random choices of traffic and kills of a run",
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
        help="replicate recorded redo of two threads of an Oracle master, through proxy and merge, to PostgreSQL",
    )
    parser.add_argument("--plain", action="store_true", help="print lines instead of the live view")
    parser.add_argument("--airflow-port", type=PORT, metavar="PORT", help="port of Airflow's pages and API")
    parser.add_argument("--master-port", type=PORT, metavar="PORT", help="port of the master database")
    parser.add_argument("--redis-port", type=PORT, metavar="PORT", help="port of Redis")
