"""The same with a MariaDB as the slave. More seeds: `./sluice soak --slave mariadb`."""

import pytest

from tests.scenarios.faults.conftest import Results

KIND = "mariadb"
pytestmark = pytest.mark.long


def test_each_change_arrives_exactly_once_under_faults(results: Results, seed: int) -> None:
    print(results(seed))
