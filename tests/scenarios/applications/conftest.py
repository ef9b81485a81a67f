"""Fixtures of applications that others wrote."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.connection import ConnectionInfo
from tests.scenarios.applications.replicated import SCHEMA, Replicated, replicated


@pytest.fixture(params=["by comparison", "event triggers"])
def event_triggers(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "event triggers")


@pytest.fixture(params=["postgres", "mariadb"])
def application(
    request: pytest.FixtureRequest,
    database: Callable[..., ConnectionInfo],
    mariadb: Callable[[], ConnectionInfo],
    postgres: PostgresServer,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    event_triggers: bool,
) -> Iterator[Callable[..., Replicated]]:
    """`application(lossy=…)`: an empty database for an application, with a slave of each vendor in turn."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    made: list[Replicated] = []

    def make(lossy: str = "") -> Replicated:
        arguments = (database, mariadb, redis_url, tmp_path, postgres.info)
        made.append(replicated(request.param, *arguments, lossy=lossy))
        if not event_triggers:  # which a superuser's installation has made
            with postgres.connect(made[-1].application.database) as administrator:
                administrator.execute(
                    sql_files.render("postgres", "event_triggers_remove", prefix="demo_", schema=SCHEMA)
                )
        return made[-1]

    yield make
    for each in made:
        each.rig.close()
