"""The rigs of the stream scenarios."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.model.connection import ConnectionInfo
from tests.rig.rig import Rig
from tests.scenarios.stream.rig import Replay


@pytest.fixture
def replay(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, rig: Callable[..., Rig]
) -> Iterator[Callable[..., Replay]]:
    """Builds the slave of a stream, see `Replay.of`; `master`: the rig that the stream is recorded from."""
    made: list[Replay] = []

    def build(folder: Path, master: Rig, **options: object) -> Replay:
        made.append(Replay.of(folder, database(), master.master, redis_url, **options))  # type: ignore[arg-type]
        return made[-1]

    yield build
    for each in made:
        each.slave.close()
