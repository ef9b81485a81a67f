"""The same with a MariaDB as the slave. More seeds: `./sluice soak --slave mariadb`."""

import pytest

from tests.scenarios.faults.conftest import Results
from tests.scenarios.faults.seeds import OF_MARIADB

KIND = "mariadb"


@pytest.mark.one_in(len(OF_MARIADB))
def test_each_change_arrives_exactly_once_under_faults(results: Results, seed: int) -> None:
    print(results(seed))
