"""Nothing is lost and nothing applied twice, whatever strikes, whenever. More seeds: `./sluice soak`.

Here the checkpoint is on the slave and threads stage; the others are in `test_faults_redis.py` and
`test_faults_spark.py`.
"""

from tests.scenarios.faults.conftest import Results

KIND = "plain"


def test_each_change_arrives_exactly_once_under_faults(results: Results, seed: int) -> None:
    print(results(seed))
