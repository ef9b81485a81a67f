"""The options of `./sluice rehearse`. With the standard library only: `--help` works before anything is installed."""

import argparse

from devstack.postgres_releases import NEWEST, RELEASES

DESCRIPTION = """\
Tries migrations on throw-away servers before they touch a master: what do they do to the replication, and what does the
replication do to them?

Starts a plain PostgreSQL and a captured one with a slave, runs the scripts on both as psql would, statement by
statement, and compares results, errors, notices, times and locks; then the slave with its master. Needs no root, no
running stack, and with --schema no network. A master is only read. Everything is removed at the end.
"""
EPILOG = """\
exit status: 0 nothing found, 1 findings, 2 the rehearsal itself failed

examples:
  ./sluice rehearse --schema schema.sql migrations/*.sql
  ./sluice rehearse SHOP migrations/*.sql                  a copy of SHOP's master, its configuration
  ./sluice rehearse --master postgresql://app@db1/shop --rows 1000 migrations/*.sql
  ./sluice rehearse SHOP --command 'alembic upgrade head' --writers 4
  ./sluice rehearse --schema schema.sql --postgres 16 --html report.html migrations/0042_add_status.sql
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "given",
        nargs="*",
        metavar="[PREFIX] SCRIPT",
        help="a replication, if it is one's master; scripts for psql, in order",
    )
    parser.add_argument(
        "--schema",
        action="append",
        default=[],
        metavar="FILE",
        help="makes the master's tables (and rows, if it has any), run by psql; may be repeated",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="copies the definitions of that database, which is only read; PGPASSWORD or ~/.pgpass has the password",
    )
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="copies N rows of each table of the master, and those that their foreign keys name (default: none)",
    )
    parser.add_argument(
        "--made-up",
        type=int,
        default=100,
        metavar="N",
        help="rows that empty tables get without --rows (default 100; 0 for none)",
    )
    parser.add_argument(
        "--postgres",
        type=int,
        choices=RELEASES,
        metavar="RELEASE",
        help=f"release of the servers, {RELEASES[0]} to {RELEASES[-1]} (default: the master's, else {NEWEST})",
    )
    parser.add_argument(
        "--slave",
        choices=("postgres", "mariadb"),
        default="postgres",
        help="the slave's server, without a PREFIX (default postgres)",
    )
    parser.add_argument("--database", metavar="NAME", help="name of the database (default rehearsal)")
    parser.add_argument("--user", default="postgres", metavar="ROLE", help="role that runs scripts (default postgres)")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="a setting of the servers")
    parser.add_argument("--single-transaction", action="store_true", help="each script is one transaction")
    parser.add_argument(
        "--no-event-triggers",
        dest="event_triggers",
        action="store_false",
        help="definitions are found by comparison, as on a master without event triggers",
    )
    parser.add_argument("--wait", type=float, default=60.0, metavar="SECONDS",
                        help="most seconds until a slave follows, or a statement gets a lock (default 60)")  # fmt: skip
    parser.add_argument(
        "--command",
        dest="command_line",
        metavar="COMMAND",
        help="runs that, e.g. 'alembic upgrade head', on both; DATABASE_URL and PGHOST to PGDATABASE name the database",
    )
    parser.add_argument("--folder", metavar="DIR", help="runs its *.sql in order, each as a whole, and compares output")
    parser.add_argument("--writers", type=int, default=0, metavar="N", help="sessions that write meanwhile (default 0)")
    parser.add_argument("--writes", metavar="FILE", help="statements that writers run, instead of made-up ones")
    parser.add_argument("--html", metavar="FILE", help="write the report as a page there")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON there")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the report with the PREFIX in the state folder (SLUICE_HOME), for the monitor",
    )
    parser.add_argument("--quiet", action="store_true", help="print findings only")
