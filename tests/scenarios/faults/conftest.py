"""The servers of the fault runs."""

from collections.abc import Iterator

import pytest

from tests.scenarios.faults.servers import Servers


@pytest.fixture(scope="package")
def servers() -> Iterator[Servers]:
    """A master, a slave and a Redis that tests may kill."""
    with Servers() as running:
        yield running
