"""`gate`, `rejects`, `verify`, `act` and `logs` beside the servers: without `--airflow` that of the stack is meant."""

import argparse

from devstack.stack import Stack, StackNotUp
from sluice.cli import operate
from sluice.cli.airflow_api import AirflowApi


def airflow(args: argparse.Namespace) -> AirflowApi:
    """Raises `Terminal` where the stack is not up and no other Airflow is named."""
    if args.airflow:
        return operate.named(args)
    stack = Stack()
    if stack.status().supervisor is None:
        raise StackNotUp(stack.home.root)
    return stack.airflow.api()


def gate(args: argparse.Namespace) -> int:
    return operate.run_gate(args, airflow)


def rejects(args: argparse.Namespace) -> int:
    return operate.run_rejects(args, airflow)


def verify(args: argparse.Namespace) -> int:
    return operate.run_verify(args, airflow)


def act(args: argparse.Namespace) -> int:
    return operate.run_act(args, airflow)


def logs(args: argparse.Namespace) -> int:
    return operate.run_logs(args, airflow)


def watch(args: argparse.Namespace) -> int:
    """`status` of the monitor."""
    return operate.run_watch(args, airflow)
