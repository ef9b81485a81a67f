"""`./sluice remove`: takes a replication, or one of its slaves, back."""

import argparse

from sluice.cli.arguments import arguments_of_remove as add_arguments

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """0 when nothing is left of it. Raises `SluiceError`."""
    from devstack.replications import where
    from sluice.cli import remove
    from sluice.cli.console import Console

    console = Console(yes=args.yes)
    remove.run(args, console, where(args, console))
    return 0
