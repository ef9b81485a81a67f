"""The same with a MariaDB as the slave. More seeds: `./sluice soak --slave mariadb`."""

from tests.scenarios.faults.conftest import Results

KIND = "mariadb"


def test_whatever_strikes_each_change_arrives_exactly_once(results: Results, seed: int) -> None:
    print(results(seed))
