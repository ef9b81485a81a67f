"""As `test_faults.py`, where Spark's executors stage, and its processes are struck too.

Every second seed has a cluster of two workers: its executors are killed, and its disk is full, twice each.
"""

import pytest

from tests.scenarios.faults.conftest import Results

pytestmark = pytest.mark.long
KIND = "spark"


def test_each_change_arrives_exactly_once_under_faults(results: Results, seed: int) -> None:
    print(results(seed))
