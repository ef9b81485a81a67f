"""The production shape, brought up once for all tests of this folder, and removed at their end."""

import faulthandler
from collections.abc import Iterator

import pytest

from devstack.account import new_folder
from devstack.home import kept
from tests.scenarios.production.docker import Daemon, lacking
from tests.scenarios.production.shape import Shape, build_stand_ins


def pytest_runtest_setup() -> None:
    """Images take minutes, and so does healing on a busy machine; the first test does the former, too."""
    faulthandler.dump_traceback_later(3 * 3600, exit=True)


@pytest.fixture(scope="session")
def shape() -> Iterator[Shape]:
    """Built, with its secrets, and up."""
    if reason := lacking():
        pytest.skip(f"the production shape needs Docker as root: {reason}")
    daemon = Daemon(kept(".docker"))
    made = Shape(daemon, new_folder("sluice-test-production-"))
    try:
        daemon.start()
        build_stand_ins(daemon)
        made.bring_up()
        yield made
    finally:
        made.remove()
        daemon.stop()
