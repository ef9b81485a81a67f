"""The pair of databases that every scenario here begins with."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from initial_load.pair import Pair, make_pair
from sluice.model.connection import ConnectionInfo

MakePair = Callable[..., Pair]


@pytest.fixture
def pair_of(database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path) -> Iterator[MakePair]:
    """`pair_of(tables, **options)`: see `make_pair`."""
    made: list[Pair] = []

    def make(*tables: str, **options: object) -> Pair:
        made.append(make_pair(database, redis_url, tmp_path / "replications", tables or ("public.*",), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pair in made:
        pair.master.close()
        pair.slave.close()
