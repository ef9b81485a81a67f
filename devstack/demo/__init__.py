"""`./sluice demo`: replicates a master under live traffic to a slave, and compares both at the end.

`course.py` has the steps: the servers start, the master is made and gets traffic, the DAG `initial_update` brings the
slave to NORMAL meanwhile, the traffic stops, and every table is compared row for row.
"""

import argparse


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand with the options of `arguments.add_arguments`. Returns the exit status."""
    if args.redo:
        from devstack.demo.redo import RedoDemo

        return RedoDemo(args).run()
    from devstack.demo.course import Course

    return Course(args).run()
