"""A slave, and both ways of sending rows to it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres import connection


@pytest.fixture
def info(database: Callable[..., ConnectionInfo]) -> ConnectionInfo:
    return database()


@pytest.fixture
def slave(info: ConnectionInfo) -> Iterator[Any]:
    with connection.connect(info, application="test merge") as link:
        yield link


@pytest.fixture(params=["parameters", "stage tables"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of sending rows."""
    if request.param == "stage tables":
        monkeypatch.setattr("sluice.vendors.postgres.target.merge.SMALL_ROWS", 0)
    return str(request.param)
