"""The net of databases that the scenarios here work with."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres import row_source
from sluice.vendors.postgres.source import snapshot
from tests.rig.net import Net


@pytest.fixture
def net(database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path) -> Iterator[Net]:
    """No database yet: see `Net.configure`."""
    made = Net.of(database, redis_url, tmp_path / "replications")
    yield made
    made.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many blocks of each table were read from the master."""
    counted: Counter[str] = Counter()
    reading = snapshot.reading

    @contextmanager
    def counting(connection: Any, table: Any, *rest: Any) -> Iterator[Any]:
        with reading(connection, table, *rest) as seen:
            yield seen
        counted[table.table.name] += 1

    monkeypatch.setattr(row_source, "reading", counting)
    return counted
