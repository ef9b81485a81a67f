"""The rig of the apply scenarios."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.model.connection import ConnectionInfo
from tests.scenarios.apply.rig import Rig


@pytest.fixture
def rig(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Rig]]:
    """Builds a rig from DDL: see `Rig.build`."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    made: list[Rig] = []

    def build(tables: str, **options: object) -> Rig:
        made.append(Rig.build(database, redis_url, tmp_path, tables, **options))  # type: ignore[arg-type]
        return made[-1]

    yield build
    for each in made:
        each.close()
