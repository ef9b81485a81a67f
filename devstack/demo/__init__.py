"""`./sluice demo`: a replicating pair under live traffic, and the proof that the slave ends identical.

`course.py` tells it in order: the servers come up, the master is made and kept busy, the DAG `initial_update`
brings the slave to NORMAL while the traffic goes on, the traffic stops, every table is compared row for row.
"""

import argparse


def run(args: argparse.Namespace) -> int:
    """The subcommand; `args` as `arguments.add_arguments` defines them. Returns the exit status."""
    if args.redo:
        from devstack.demo.redo import RedoDemo

        return RedoDemo(args).run()
    from devstack.demo.course import Course

    return Course(args).run()
