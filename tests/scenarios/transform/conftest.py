"""Rigs whose slave has transformed tables."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig.rig import Database, Rig

MakeShop = Callable[..., Rig]


@pytest.fixture
def shop(database: Database, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeShop]:
    """`shop(ddl, tables, **options)`: runs the DDL on the master only; `tables` is that of the configuration."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path / "replications"))
    made: list[Rig] = []

    def make(ddl: str, tables: dict[str, Any], **options: Any) -> Rig:
        rig = Rig.empty(database, redis_url, tmp_path / "replications", tables, interval=0.1, **options)
        made.append(rig)
        rig.master.execute(ddl.encode())
        return rig

    yield make
    for each in made:
        each.close()
