"""`./sluice add`: a replication of one's own databases."""

import argparse

from sluice.cli.arguments import arguments_of_add as add_arguments

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """0 when all is written, and with --start loaded. Raises `SluiceError`."""
    from devstack.replications import start, where
    from sluice.cli import add
    from sluice.cli.console import Console

    console = Console(yes=args.yes, sql=args.print_sql)
    place = where(args, console)
    slaves = add.run(args, console, place)
    if slaves is None:
        return 0
    prefix, _ = add.named(args.name, place.folder)
    if args.start:
        return start(prefix, slaves, place, console)
    for line in add.next_steps(prefix, slaves, place):
        console.say(line)
    return 0
