"""The subcommands `add`, `remove` and `status`, for any machine that has the library and its configuration."""

import argparse
import json
import os
from collections.abc import Callable
from functools import partial

from sluice import config
from sluice.cli import add, operate, remove, status
from sluice.cli.connections import Connections
from sluice.cli.console import Console, quiet
from sluice.cli.initial_update import load
from sluice.cli.where import Where, airflow_of, folder_of, where
from sluice.errors import SluiceError
from sluice.operate.replication_file import named

Finds = Callable[[argparse.Namespace, Console], Where]


def run_add(args: argparse.Namespace, finds: Finds = where) -> int:
    """Adds a replication, and with --start loads it. Raises `SluiceError`."""
    console = Console(yes=args.yes, sql=args.print_sql)
    found = finds(args, console)
    with quiet():
        slaves = add.run(args, console, found)
    if slaves is None:
        return 0
    prefix, _ = named(args.name, found.folder)
    if args.start:
        load(prefix, slaves, found, console)
        return 0
    for line in add.next_steps(prefix, slaves, found):
        console.say(line)
    return 0


def run_remove(args: argparse.Namespace, finds: Finds = where) -> int:
    """Removes a replication. Raises `SluiceError`."""
    console = Console(yes=args.yes)
    with quiet():
        remove.run(args, console, finds(args, console))
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Prints the configured replications and the state of each slave. Raises `SluiceError`."""
    if args.prefix or args.watch:
        return operate.run_watch(args)
    api = airflow_of(args.airflow, Console()) if args.airflow else None
    listed = [folder_of(args)] if args.replications else config.folders()
    store_url = os.environ.get("SLUICE_REDIS_URL", "")
    try:
        survey = config.survey(*listed)
        monitor = partial(api.page, "overview.json") if api else None
        pairs = status.replications(survey, Connections(api), store_url, monitor)
    except SluiceError as error:
        survey, pairs = None, [str(error)]
    if args.json:
        values: dict[str, object] = {
            "replications": [str(folder) for folder in listed],
            "pairs": pairs,
            "verified": status.of_pairs(survey, store_url) if survey else [],
        }
        print(json.dumps(values, indent=1))
    else:
        print("\n".join([*status.folders(listed, survey), "", *pairs]))
    return 0 if survey else 1
