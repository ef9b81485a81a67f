"""`target` and `source`: an empty database of each vendor that offers to be one, in each release that tests run on."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sluice.model.vendors import VENDORS
from tests.vendors.contender import Contender
from tests.vendors.servers import SERVERS, SOURCE, TARGET


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--postgres")
    for part in (SOURCE, TARGET):
        if part in metafunc.fixturenames:
            test = metafunc.function.__name__
            cases = [
                pytest.param(
                    (name, release),
                    id=f"{name}{release or ''}",
                    marks=[
                        *([pytest.mark.xfail(reason=why, strict=True)] if (why := server.not_kept.get(test)) else []),
                        *([pytest.mark.long] if release != server.releases[0] and not chosen else []),
                    ],
                )
                for name, server in SERVERS.items()
                if part in server.offers
                for release in ((chosen,) if chosen and name == "postgres" else server.releases)
            ]
            metafunc.parametrize(part, cases, indirect=True)


def _contender(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Contender]:
    name, release = request.param
    server = SERVERS[name]
    info = server.make(request, release)
    if server.member:
        monkeypatch.setitem(VENDORS, info.vendor, replace(VENDORS[info.vendor], member=server.member))
    made = Contender(info, server.schema, server.two_phase, server.oracle)
    yield made
    made.close()


target = pytest.fixture(name="target")(_contender)
source = pytest.fixture(name="source")(_contender)
