"""`add` and `remove` with the stack's Airflow, Redis and folder; `--airflow` names another Airflow."""

import argparse
import os
from functools import partial
from pathlib import Path

from devstack.connections import Connections
from devstack.stack import Stack, stack_not_up
from sluice.airflow import applies, jobs
from sluice.airflow.job import Kind
from sluice.cli import commands
from sluice.cli import where as anywhere
from sluice.cli.console import Console
from sluice.cli.where import Where
from sluice.errors import Terminal
from sluice.model.names import Prefix

STOP_SECONDS = 90.0


def where(args: argparse.Namespace, console: Console) -> Where:
    """Returns the stack, or the Airflow that `--airflow` names. Raises `Terminal`."""
    if args.airflow is not None:
        return anywhere.where(args, console)
    stack = Stack()
    if stack.status().supervisor is None:
        raise Terminal(
            f"{stack_not_up(stack.home.root)}, or name another Airflow with --airflow (see --help).",
            code="stack-not-up",
        )
    chosen = Path(args.replications).expanduser().resolve() if args.replications else None
    if chosen and chosen not in stack.replications:
        raise Terminal(
            f"{chosen} is not in force: ./sluice up --replications {chosen} makes it so.",
            code="replications-not-in-force",
        )
    folder = chosen or stack.replications[-1]
    login = f"user {stack.airflow.user}, password: ./sluice status --secrets"
    os.environ["SLUICE_HOME"] = str(stack.home.root)
    os.environ["SLUICE_REDIS_URL"] = stack.redis_url
    return Where(folder, stack.airflow.api(), Connections(stack), stack.redis_url, login, _stop_jobs)


def _stop_jobs(prefix: Prefix, slave: str) -> None:
    """Stops the slave's jobs. A run that is marked as failed before its trigger watches the job leaves it running."""
    for kind in Kind:
        job = applies.live(str(prefix), slave) if kind is Kind.APPLY else jobs.live(kind, str(prefix), slave)
        if job is not None:
            job.stop("./sluice remove", "the replication is removed")
            job.await_end(STOP_SECONDS)


add = partial(commands.run_add, finds=where)
remove = partial(commands.run_remove, finds=where)
