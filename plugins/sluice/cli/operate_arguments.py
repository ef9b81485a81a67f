"""The options of the subcommands that operate slaves. With the standard library only, as `arguments`."""

import argparse
import os

from sluice.cli.arguments import TABLES, Tables
from sluice.paths import PROGRAM

PLACE = f"""\
Uses the Airflow of --airflow, with a token in SLUICE_AIRFLOW_TOKEN or a log-in that it asks for; without --airflow that
of {PROGRAM} up. The rights are those of the logged-in person; the reason goes into Airflow's audit log.
"""

ACT_EXAMPLES = f"""\
examples:
  {PROGRAM} act                                                    all actions
  {PROGRAM} act initiate SHOP_ dr1 dr2                             two slaves at once
  {PROGRAM} act reload SHOP_ dr1                                   the tables that are not loaded
  {PROGRAM} act reload SHOP_ dr1 --tables public.orders,public.lines
  {PROGRAM} act approve SHOP_ dr1                                  shows what waits for an answer
  {PROGRAM} act hold SHOP_ dr1 --why "its disk is replaced"

"""


def arguments_of_gate(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows who keeps a slave's gate closed; closes it, so that nothing is applied; opens it again."
    _pair(parser)
    parser.add_argument("action", choices=("show", "close", "open"), nargs="?", default="show", help="default: show")
    _done(parser)


def arguments_of_rejects(parser: argparse.ArgumentParser) -> None:
    parser.description = "Lists changes that were set aside, asks the running apply to apply them, or drops them."
    _pair(parser)
    parser.add_argument("action", choices=("list", "apply", "drop"), nargs="?", default="list", help="default: list")
    parser.add_argument("ids", nargs="?", metavar="IDS", help="numbers and ranges such as 7,9-12; or all")
    parser.add_argument("--force", action="store_true", help="apply: overwrite the rows in any case")
    _done(parser)


def arguments_of_verify(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compares a slave with its master at one position, while both are in use."
    _pair(parser)
    parser.add_argument("--repair", action="store_true", help="make rows that differ equal to the master's")
    parser.add_argument("--tables", action=Tables, default=[], metavar="TABLES", help=f"{TABLES} (default: all)")
    parser.add_argument("--sample", type=int, default=0, metavar="ROWS", help="about how many rows of each; 0: all")
    _done(parser)


def arguments_of_logs(parser: argparse.ArgumentParser) -> None:
    parser.description = "Prints the log of a slave's apply."
    _pair(parser)
    parser.add_argument("--lines", type=int, default=200, metavar="N", help="number of last lines (default 200)")
    parser.add_argument("--follow", action="store_true", help="continue printing new lines")
    _airflow(parser)


def arguments_of_act(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Does the same as a button of the monitor. Without an action it lists all actions with their fields."
    )
    parser.epilog = ACT_EXAMPLES + PLACE
    parser.add_argument("action", nargs="?", metavar="ACTION", help="such as reload; without one all are listed")
    parser.add_argument("prefix", nargs="?", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument("slaves", nargs="*", metavar="SLAVE", help="its name in the configuration")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a field of the action")
    parser.add_argument("--tables", action=Tables, default=[], metavar="TABLES", help=f"{TABLES}; as --set tables=")
    _done(parser)


def _pair(parser: argparse.ArgumentParser) -> None:
    parser.epilog = PLACE
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, SHOP_ or SHOP")
    parser.add_argument("slave", metavar="SLAVE", help="its name in the configuration")


def _done(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--why", metavar="REASON", help="kept in Airflow's audit log; required by some actions")
    parser.add_argument("--no-wait", action="store_true", help="start the run, and do not wait for its end")
    _airflow(parser)


def _airflow(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--airflow", metavar="URL", default=os.environ.get("SLUICE_AIRFLOW"), help="the Airflow to use (SLUICE_AIRFLOW)"
    )
