"""`./sluice demo`: replicates a master under live traffic to a slave, and compares both at the end.

`course.py` has the steps: the servers start, the master is made and gets traffic, the DAG `initial_update` brings the
slave to NORMAL meanwhile, the traffic stops, and every table is compared row for row.
"""

import argparse
import sys

from devstack.demo.arguments import MARIADB


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand with the options of `arguments.add_arguments`. Returns the exit status."""
    wrong = [option for option in ("chaos", "redo") if getattr(args, option)]
    wrong += ["slave mariadb"] if args.slave == MARIADB else []
    if args.master == MARIADB and wrong:
        print(f"sluice demo: --{wrong[0]} is not offered with --master mariadb", file=sys.stderr)
        return 2
    if args.redo:
        from devstack.demo.redo import RedoDemo

        return RedoDemo(args).run()
    if args.master == MARIADB:
        from devstack.demo.logged import LoggedCourse

        return LoggedCourse(args).run()
    from devstack.demo.course import Course

    return Course(args).run()
