"""The seeds of the suite: those that change from run to run, and those of `--all`."""

import pytest

from tests.scenarios.faults.plan import Plan, plan

EVERY = range(1, 22)
"""Of `--all`: each fault strikes at least twice in them, and at every place."""
QUICK = 6
"""That of the quick tier: plain."""
ROTATING = 2
FIRST = 1000
"""Of those that change with the run's number, in `--all`; none of them is in `EVERY`."""
OF_MARIADB = range(16)
"""With a MariaDB as the slave, all of them with `--all`: each fault strikes in them, at every place."""


def kind(plan: Plan) -> str:
    """`spark`, `redis` or `plain`: each has a file of tests."""
    return "spark" if plan.spark else "redis" if plan.kept == "redis" else "plain"


def rotating(run_number: int) -> list[int]:
    """Consecutive seeds; the next run number has the next ones."""
    first = FIRST + ROTATING * run_number
    return list(range(first, first + ROTATING))


def parameters(of_kind: str, run_number: int) -> list[object]:
    """The seeds of a kind, with their marks."""
    if of_kind == "mariadb":
        return list(OF_MARIADB)
    seeds = [
        pytest.param(seed, marks=() if seed == QUICK else pytest.mark.long) for seed in (*EVERY, *rotating(run_number))
    ]
    return [parameter for parameter in seeds if kind(plan(int(str(parameter.values[0])))) == of_kind]
