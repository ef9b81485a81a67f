"""n8n, an application over TypeORM: its migrations forward and back, with rows in all of its tables between them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.cli.bootstrap import apt_install
from tests.scenarios.applications import any_content
from tests.scenarios.applications.replicated import Replicated, as_application, run

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parent / "n8n_migrations.cjs"
AT_ONCE = 25


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages and the program."""
    folder = tmp_path_factory.mktemp("n8n")
    if shutil.which("npm") is None:
        apt_install(["npm"], "an application of npm is tested")
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "."]
    try:
        run(["npm", "install", *options, "@n8n/db", "pg"], os.environ, folder)
    except AssertionError:  # the newest release is there before packages that it needs
        run(["npm", "install", *options, "@n8n/db@1.41.0", "pg"], os.environ, folder)
    shutil.copy(PROGRAM, folder)
    return folder


class Migrations:
    def __init__(self, folder: Path, pair: Replicated):
        self.folder = folder
        own = {"DB_TYPE": "postgresdb", "NODE_ENV": "test", "N8N_USER_FOLDER": str(self.folder / "home")}
        self.environment = pair.environment | own
        self.done = self.all = 0

    def move(self, direction: str, count: int) -> bool:
        """Runs so many migrations; whether any ran."""
        before = self.done
        printed = run(["node", PROGRAM.name, direction, str(count)], self.environment, self.folder)
        self.done, self.all = map(int, printed.splitlines()[-1].split())
        return self.done != before


def test_an_applications_migrations_go_forward_and_back_with_rows_between(
    application: Callable[..., Replicated], installed: Path
) -> None:
    pair = application()
    migrations = Migrations(installed, pair)
    migrations.move("up", 10)
    with pair.following(), as_application(pair) as session:
        seed = 0

        def moved(direction: str) -> bool:
            try:
                return migrations.move(direction, AT_ONCE)
            except AssertionError:  # it takes these rows for its own, and cannot read them
                any_content.remove(session, "migrations", "role", "scope", "role_scope")
                return migrations.move(direction, AT_ONCE)

        for direction in ("up", "down", "up"):
            while moved(direction):
                pair.expect_equal(f"{direction} to migration {migrations.done}")
                seed += 1
                any_content.write(session, seed, "migrations")
                pair.expect_equal(f"rows at migration {migrations.done}")
        assert migrations.done == migrations.all
