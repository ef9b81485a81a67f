"""The net of databases that the scenarios here work with."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.model.connection import ConnectionInfo
from tests.rig.net import Net


@pytest.fixture
def net(database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path) -> Iterator[Net]:
    """No database yet: see `Net.configure`."""
    made = Net.of(database, redis_url, tmp_path / "replications")
    yield made
    made.close()
