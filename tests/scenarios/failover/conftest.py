"""The shop of the failover scenarios: a master with everything that a slave lacks by design, and what the DAG does.

The environment is set before anything imports Airflow, which reads it once.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HOME = Path(tempfile.mkdtemp(prefix="sluice-test-failover-"))
os.environ |= {"AIRFLOW_HOME": str(HOME), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db"}

from failover.shop import Shop  # noqa: E402
from sluice.domain.connection import ConnectionInfo  # noqa: E402


def pytest_sessionfinish() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


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
