"""Nothing is lost and nothing applied twice, whatever strikes, whenever; twenty seeds of it. More: `./sluice soak`."""

from collections.abc import Callable

import pytest

from tests.scenarios.faults.plan import plan
from tests.scenarios.faults.run import Result, run
from tests.scenarios.faults.servers import Servers

SEEDS = range(1, 21)

Results = Callable[[int], Result]


@pytest.fixture(scope="module")
def results(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Of a seed the result; each is run once."""
    known: dict[int, Result] = {}

    def result(seed: int) -> Result:
        if seed not in known:
            known[seed] = run(plan(seed), servers, tmp_path_factory.mktemp(f"seed-{seed}-"))
        return known[seed]

    return result


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_strikes_each_change_arrives_exactly_once(results: Results, seed: int) -> None:
    print(results(seed))


def test_where_the_checkpoint_is_kept_in_redis_changes_did_come_again(results: Results) -> None:
    again = {seed: results(seed).again for seed in SEEDS if plan(seed).kept == "redis"}
    assert sum(again.values()) > 0, f"nothing came again, so nothing was proved; {again}"
