"""The statements of Rails' migrations, forward and back and forward, with rows in all of its tables between them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.scenarios.applications import any_content
from tests.scenarios.applications.replicated import Replicated, as_application

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parent / "rails_migrations.sql"
_SECTION = re.compile(r"^-- (\d+) [^\n]*\n-- up( alone)?\n(.*?)-- down( alone)?\n(.*?)(?=^-- \d|\Z)", re.M | re.S)
OWN = ("schema_migrations", "ar_internal_metadata")


@dataclass(frozen=True)
class Migration:
    version: str
    statements: dict[str, list[str]]
    """By direction."""
    alone: dict[str, bool]

    def run(self, session: psycopg.Connection[Any], direction: str) -> None:
        if self.alone[direction]:
            for statement in self.statements[direction]:
                session.execute(statement.encode())
            self._note(session, direction)
            return
        with session.transaction():
            for statement in self.statements[direction]:
                session.execute(statement.encode())
            self._note(session, direction)

    def _note(self, session: psycopg.Connection[Any], direction: str) -> None:
        if direction == "up":
            session.execute("INSERT INTO schema_migrations (version) VALUES (%s)", [self.version])
        else:
            session.execute("DELETE FROM schema_migrations WHERE version = %s", [self.version])


def migrations() -> Iterator[Migration]:
    for version, up_alone, up, down_alone, down in _SECTION.findall(SCRIPT.read_text()):
        statements = {
            direction: [line for line in text.splitlines() if line.strip()]
            for direction, text in (("up", up), ("down", down))
        }
        yield Migration(version, statements, {"up": bool(up_alone), "down": bool(down_alone)})


def test_rails_migrations_go_forward_and_back_with_rows_between(application: Callable[..., Replicated]) -> None:
    pair = application(lossy="['public.*.*']")
    first, *others = migrations()
    assert len(others) > 10
    with as_application(pair) as session:
        session.execute("SELECT pg_advisory_lock(2053462845)")  # as Rails does while it migrates
        first.run(session, "up")
        with pair.following():
            seed = written = 0
            for direction, order in (("up", others), ("down", others[::-1]), ("up", others)):
                for migration in order:
                    migration.run(session, direction)
                    pair.expect_equal(f"{migration.version} {direction}")
                    seed += 1
                    written += any_content.write(session, seed, *OWN)  # at the very beginning there is no table
                    pair.expect_equal(f"rows after {migration.version} {direction}")
    assert written > 10 * seed
