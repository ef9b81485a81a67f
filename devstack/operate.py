"""`gate`, `rejects`, `verify`, `act`, `logs` and the monitor's `status` of the stack; `--airflow` names another one."""

import argparse
from functools import partial

from devstack.stack import Stack, stack_not_up
from sluice.cli import operate
from sluice.cli.airflow_api import AirflowApi


def airflow(args: argparse.Namespace) -> AirflowApi:
    """Returns the API of the stack's Airflow or of the named one. Raises `stack-not-up`."""
    if args.airflow:
        return operate.named(args)
    stack = Stack()
    if stack.status().supervisor is None:
        raise stack_not_up(stack.home.root)
    return stack.airflow.api()


gate = partial(operate.run_gate, finds=airflow)
rejects = partial(operate.run_rejects, finds=airflow)
verify = partial(operate.run_verify, finds=airflow)
act = partial(operate.run_act, finds=airflow)
logs = partial(operate.run_logs, finds=airflow)
watch = partial(operate.run_watch, finds=airflow)
