"""As `test_faults.py`, where the checkpoint is kept in Redis: changes come again, and nothing is lost or doubled."""

from tests.scenarios.faults.conftest import Results

KIND = "redis"


def test_the_slave_ends_equal_under_faults(results: Results, seed: int) -> None:
    result = results(seed)
    print(result)
    assert result.again > 0, "nothing came again, so nothing was proved"
