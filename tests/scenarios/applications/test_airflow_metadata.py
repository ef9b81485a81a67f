"""Airflow's own database, over SQLAlchemy and Alembic: its migrations forward and back, with rows between them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.applications import any_content
from tests.scenarios.applications.replicated import Replicated, as_application, run

pytestmark = pytest.mark.long

OWN = ("alembic_version", "slot_pool")
"""It makes its default pool again after each migration, as the newest version knows pools, and fails."""
VERSIONS = ("2.7.0", "2.8.1", "2.9.2", "2.10.3", "3.0.0", "3.1.0", "3.2.0", "3.3.0")


def test_airflows_migrations_go_forward_and_back_with_rows_between(
    application: Callable[..., Replicated], tmp_path: Path
) -> None:
    pair = application()
    reached = pair.environment
    url = "postgresql+psycopg2://{PGUSER}:{PGPASSWORD}@{PGHOST}:{PGPORT}/{PGDATABASE}".format(**reached)
    environment = reached | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__EXTERNAL_DB_MANAGERS": "",
    }

    def airflow(*arguments: str) -> None:
        run([sys.executable, "-m", "airflow", "db", *arguments], environment, tmp_path)

    airflow("migrate", "--use-migration-files", "--to-version", VERSIONS[0])
    with pair.following(), as_application(pair) as session:
        forward = [("migrate", version) for version in VERSIONS[1:]]
        back = [("downgrade", version) for version in reversed(VERSIONS[1:-1])]
        for seed, (direction, version) in enumerate([*forward, *back, *forward]):
            yes = ["--yes"] if direction == "downgrade" else ["--use-migration-files"]
            try:
                airflow(direction, *yes, "--to-version", version)
            except AssertionError:  # it takes these rows for its own, and cannot read them
                any_content.remove(session, *OWN)
                airflow(direction, *yes, "--to-version", version)
            pair.expect_equal(f"{direction} to {version}")
            any_content.write(session, seed, *OWN)
            pair.expect_equal(f"rows at {version}")
