"""A master with DbResources installed."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.domain.connection import ConnectionInfo

sys.path.insert(0, str(Path(__file__).parent))

from master import Master


@pytest.fixture
def master(database: Callable[..., ConnectionInfo]) -> Master:
    """The resources of prefix DEMO_ in schema public of an empty database; its account is a superuser."""
    made = Master(database())
    made.install()
    return made
