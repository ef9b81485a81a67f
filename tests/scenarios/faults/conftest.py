"""The servers of the fault runs, and their seeds."""

from collections.abc import Callable, Iterator

import pytest

from tests.scenarios.faults import seeds
from tests.scenarios.faults.plan import plan, plan_of_mariadb
from tests.scenarios.faults.run import Result, run
from tests.scenarios.faults.servers import Servers

Results = Callable[[int], Result]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrises a test with `seed` by the seeds of the `KIND` of its file."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", seeds.parameters(metafunc.module.KIND, metafunc.config.option.run_number))


@pytest.fixture(scope="package")
def servers() -> Iterator[Servers]:
    """A master, a slave and a Redis that tests may kill."""
    with Servers() as running:
        yield running


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The result of a seed; each is run once."""
    known: dict[int, Result] = {}
    planned = plan_of_mariadb if request.module.KIND == "mariadb" else plan

    def result(seed: int) -> Result:
        if seed not in known:
            known[seed] = run(planned(seed), servers, tmp_path_factory.mktemp(f"seed-{seed}-"))
        return known[seed]

    return result
