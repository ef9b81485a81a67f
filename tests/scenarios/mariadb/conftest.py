"""Fixtures of replications into MariaDB."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.model.connection import ConnectionInfo
from tests.scenarios.mariadb.rig import Rig


@pytest.fixture
def rig(
    database: Callable[..., ConnectionInfo],
    mariadb: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Rig]]:
    """`rig(ddl, on_conflict="reject")`: a master with these tables, and a slave with these options."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    made: list[Rig] = []

    def make(tables: str, **options: object) -> Rig:
        made.append(Rig.build(database, mariadb, redis_url, tmp_path, tables, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()
