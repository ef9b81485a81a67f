"""The options of `./sluice bench`. Standard library only: help answers before anything is installed."""

import argparse

BENCHES = {
    "capture": "statements on a master with our triggers; beside the same table without any",
    "drain": "changes that wait are applied; beside PostgreSQL's logical replication",
    "load": "rows of an initial update; beside two parallel COPY pipes, or pgcopydb with every start counted",
    "throttle": "transactions on a master from which an initial update reads, held back and not; beside no load",
    "lag": "from a commit on the master until the slave shows it, under traffic; beside logical replication",
    "join": "how far the slave is behind while a table of 2,000,000 rows joins; beside the same traffic alone",
    "rest": "memory and CPU of ten pairs while nothing changes, also of one and of fifty",
    "failover": "a planned failover with reverse, under traffic on 20 tables: how long the application cannot write",
    "verify": "a large table compared with the slave's; beside reladiff, which it installs",
    "scale": "the same with few and many changes waiting, tables, row sizes, one hot row, one huge transaction",
    "mariadb": "load, drain and lag of a MariaDB slave; beside its own client, and a PostgreSQL slave",
    "redo": "output of OpenLogReplicator is typed and merged, redo logs are staged; beside plain reading and copying",
    "binlog": "a MariaDB master's log is read and recorded, its slave loaded, the lag; beside MariaDB's own programs",
    "monitor": "the monitor's overview of 500 and of 100 slaves",
    "cluster": "the same with a Spark master and two workers, one of them killed",
}
"""Each is a module of this package with `run(args) -> Report`."""

DESCRIPTION = """\
Measures Sluice on PostgreSQL servers that it starts itself, beside a reference on the same servers, each side in turn.
Prints a table, and as the last line one JSON object: name, ours, reference, ratio (above 1: better than the
reference), unit, and the same of every figure of the bench.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define them on the parser of the subcommand."""
    parser.description = DESCRIPTION
    parser.epilog = "benches:\n" + "\n".join(f"  {name:<9} {text}" for name, text in BENCHES.items())
    parser.add_argument("name", choices=BENCHES, metavar="NAME", help="one of the benches below")
    parser.add_argument("--figure", action="append", metavar="F", help="only this figure of the bench; may be repeated")
    parser.add_argument("--rounds", type=_count, default=3, metavar="N", help="runs of each side (default 3)")
    parser.add_argument("--warm-up", type=_number, default=1, metavar="N", help="runs before that (default 1)")
    parser.add_argument(
        "--scale", type=_share, default=1.0, metavar="X", help="share of the full size, e.g. 0.01 for a try (default 1)"
    )
    parser.add_argument("--side", choices=("both", "ours", "reference"), default="both", help="measure one side alone")
    parser.add_argument("--json", metavar="FILE", help="every run, the machine, versions and settings")
    parser.add_argument("--spark-master", default="local[*]", metavar="URL", help="default local[*]")
    parser.add_argument(
        "--master",
        metavar="URI",
        help="a database server of yours in place of our own; password from PGPASSWORD or the password file",
    )
    parser.add_argument("--slave", metavar="URI", help="the same of the slave")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting of both own servers")


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _number(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if share <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return share
