"""Rigs: a master, a slave and the replication between them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rig.rig import Database, MakePair, Rig


@pytest.fixture
def rig(
    database: Database, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Rig]]:
    """Builds a rig from DDL, its slave NORMAL: see `Rig.normal`."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    made: list[Rig] = []

    def build(tables: str, **options: object) -> Rig:
        made.append(Rig.normal(database, redis_url, tmp_path, tables, **options))  # type: ignore[arg-type]
        return made[-1]

    yield build
    for each in made:
        each.close()


@pytest.fixture
def pair_of(database: Database, redis_url: str, tmp_path: Path) -> Iterator[MakePair]:
    """`pair_of(*tables, **options)` makes a rig whose slave is yet to be loaded: see `Rig.empty`. Its master has the
    resources."""
    made: list[Rig] = []

    def make(*tables: str, **options: object) -> Rig:
        options = {"tables": tables or ("public.*",), "installed": True, **options}
        made.append(Rig.empty(database, redis_url, tmp_path / "replications", **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()
