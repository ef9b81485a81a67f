"""The same with a MariaDB as the slave. More seeds: `./sluice soak --slave mariadb`.

Seeds 6 and 10 failed once each; 6 found rows in the binary log before its first transaction, and a transaction twice.
Whether the slave or the reading of its log is wrong is not known yet: no seed is in the quick tests until it is.
"""

import pytest

from tests.scenarios.faults.conftest import Results

KIND = "mariadb"


@pytest.mark.long
def test_whatever_strikes_each_change_arrives_exactly_once(results: Results, seed: int) -> None:
    print(results(seed))
