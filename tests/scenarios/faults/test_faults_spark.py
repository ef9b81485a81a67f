"""As `test_faults.py`, where Spark's executors stage, and its processes are struck too."""

from tests.scenarios.faults.conftest import Results

KIND = "spark"


def test_whatever_strikes_each_change_arrives_exactly_once(results: Results, seed: int) -> None:
    print(results(seed))
