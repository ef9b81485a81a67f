"""The shop of the failover scenarios: a master with everything that replication does not copy, and the DAG's steps."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.model.connection import ConnectionInfo
from tests.scenarios.failover.shop import Shop


@pytest.fixture
def shop_of(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Shop]]:
    """`shop_of()` loads the slave of a shop: see `Shop.build`."""
    made: list[Shop] = []

    def make(**options: object) -> Shop:
        made.append(Shop.build(database, redis_url, tmp_path / "replications", monkeypatch, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()
