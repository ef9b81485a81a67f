"""Nothing is lost and nothing applied twice, whatever strikes, whenever; twenty seeds of it. More: `./sluice soak`."""

from pathlib import Path

import pytest

from tests.scenarios.faults.plan import plan
from tests.scenarios.faults.run import run
from tests.scenarios.faults.servers import Servers

SEEDS = range(1, 21)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_strikes_each_change_arrives_exactly_once(servers: Servers, seed: int, tmp_path: Path) -> None:
    print(run(plan(seed), servers, tmp_path))
