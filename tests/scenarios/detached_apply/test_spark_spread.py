"""Spark's executors as a `Spread`, with a real session."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.session import SparkSpread, with_retries


@pytest.mark.parametrize(
    ("master", "meant"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://a:7077,b:7077", "spark://a:7077,b:7077"),
    ],
)
def test_a_task_that_died_runs_again_also_on_one_machine(master: str, meant: str) -> None:
    assert with_retries(master, "4") == meant


@pytest.fixture
def spread() -> Iterator[SparkSpread]:
    spread = SparkSpread("test", "local[2]")
    yield spread
    spread.stop()


def test_a_python_worker_that_is_killed_costs_its_share_and_not_the_window(spread: SparkSpread, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def task(number: int) -> int:
        if number == 1:
            try:
                begun.touch(exist_ok=False)
            except FileExistsError:
                return number
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert spread.map(task, 4) == [0, 1, 2, 3]
    assert begun.exists()
