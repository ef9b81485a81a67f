"""A stack of a test's own: servers and Airflow, with one replication, and nothing left of them afterwards."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from devstack.account import new_folder
from devstack.stack import Stack
from sluice.cli.airflow_api import ApiUnreachable
from tests import waiting
from tests.traces import nothing_runs


@contextmanager
def running_stack(
    configuration: str, before: Callable[[Stack], None] = lambda stack: None, **options: Any
) -> Iterator[Stack]:
    """All that `Stack.up` starts, not durable. `configuration`: of the replication, YAML; in it, `$FOLDER` stands for
    an empty folder around the stack's home. `before`: what is done before its start. `options`: more for `Stack`.
    """
    # Not under pytest's own folder: that is closed to the account that runs PostgreSQL.
    folder = new_folder("sluice-test-")
    replications = folder / "replications"
    replications.mkdir()
    (replications / "DEMO.yaml").write_text(configuration.replace("$FOLDER", str(folder)))
    stack = Stack(folder / "home", durable=False, replications=replications, **options)
    try:
        before(stack)
        stack.up()
        yield stack
    finally:
        stack.down()
        left = not nothing_runs(folder / "home")
        shutil.rmtree(folder)
    assert not left, "down left a process"


def until(condition: Callable[[], object], seconds: float = waiting.DEADLINE_SECONDS) -> None:
    """As that of `tests.waiting`, with longer intervals, for conditions that ask Airflow; repeats if it does not
    answer."""

    def holds() -> bool:
        with suppress(ApiUnreachable):
            return bool(condition())
        return False

    waiting.until(holds, seconds, 0.5)
