"""One Airflow, one browser and one Redis for all tests of the pages."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from devstack.machine import find_chromium
from devstack.redis import RedisServer
from tests.browser.rig import Monitor, serving
from tests.dags.conftest import airflow_database as airflow_database


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = find_chromium()
    assert program is not None, "there is no Chromium: ./sluice test installs it for root on Debian and Ubuntu"
    with sync_playwright() as playwright:
        # As root, which CI often is, Chromium has no sandbox of its own.
        made = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield made
        made.close()


@pytest.fixture(scope="package")
def server(
    redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory, airflow_database: None
) -> Iterator[Monitor]:
    with serving(tmp_path_factory.mktemp("monitor"), redis_server.url) as monitor:
        yield monitor


@pytest.fixture
def monitor(server: Monitor) -> Iterator[Monitor]:
    """The server, with a slave in every state."""
    leases = server.write_everything()
    yield server
    for lease in leases:
        lease.release()
