"""`target` and `source`: an empty database of each vendor that offers to be one, in each release that tests run on."""

from collections.abc import Iterator

import pytest

from tests.vendors.contender import Contender
from tests.vendors.servers import SERVERS, SOURCE, TARGET


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--postgres")
    for part in (SOURCE, TARGET):
        if part in metafunc.fixturenames:
            cases = [
                (name, release)
                for name, server in SERVERS.items()
                if part in server.offers
                for release in ((chosen,) if chosen and name == "postgres" else server.releases)
            ]
            ids = [f"{name}{release or ''}" for name, release in cases]
            metafunc.parametrize(part, cases, indirect=True, ids=ids)


def _contender(request: pytest.FixtureRequest) -> Iterator[Contender]:
    name, release = request.param
    server = SERVERS[name]
    own = server.vendor() if server.vendor else None
    made = Contender(server.make(request, release), server.schema, server.two_phase, own, server.oracle)
    yield made
    made.close()


target = pytest.fixture(name="target")(_contender)
source = pytest.fixture(name="source")(_contender)
