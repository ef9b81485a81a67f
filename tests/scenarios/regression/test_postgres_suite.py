"""PostgreSQL's regression suite prints the same with capture as without, and a slave follows it, or names what it does
not follow."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from devstack.account import new_folder
from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST
from devstack.redis import RedisServer
from devstack.rehearse.course import different_lines, normal
from sluice.capture import wildcards
from sluice.model.names import TableName
from sluice.vendors.postgres.source.resources import PostgresCapture
from tests.conftest import TEST_SETTINGS
from tests.rig.applying import Applying
from tests.rig.rig import Rig, rows_of
from tests.scenarios.regression import suite

PARTS = 12
OWN = ("demo_", "sluice")
"""Texts in names of Sluice's objects."""
SETTINGS = {**TEST_SETTINGS, "max_prepared_transactions": "2", "max_connections": "60"}

DIFFERENT = {
    "alter_table": {
        r"alter_idx_rename_test(_parted)?_2 \| AccessShareLock": "the definition of a renamed table is read at once",
        r"alter_idx_rename_test(_parted)?_2 \| ShareRowExclusiveLock": "its triggers are made, if not yet compared",
    },
    "btree_index": {
        r"Sort|Sort Key: proname|-> Seq Scan on pg_proc|Index Only Scan using pg_proc_\w+ on pg_proc":
            "pg_proc has our functions as well, so that another plan is cheaper",
    },
    "event_trigger": {
        r"NOTICE: test_event_trigger: ddl_command_(start|end) CREATE TRIGGER": "a table that is made gets our triggers",
        r"NOTICE: END: command_tag=(CREATE|GRANT|REVOKE)[\w ]* type=[\w ]+ identity=(<NULL>|.*demo_.*)":
            "and a partitioned one functions of its own",
    },
    "triggers": {
        r"\w+ \| \w+ \| public \| main_table \| \d \|.*": "the place among all triggers, ours included",
        r"WARNING: The triggers that capture .* are disabled.*|HINT: Afterwards start an initial update .*":
            "ALTER TABLE … DISABLE TRIGGER USER or ALL also disables ours, which nobody else would tell",
        r"trg_clone\w* \| \d": "the number of all triggers, ours included",
        r"trgfire\w* \| [OD]": "all triggers without their names, ours included",
    },
}  # fmt: skip
"""File → what of its output may differ, as a regular expression of a whole line, and why."""


@pytest.fixture(scope="module", params=[NEWEST, 15])
def running(request: pytest.FixtureRequest) -> Iterator["Suite"]:
    with ExitStack() as stack:
        yield Suite.start(stack, request.param)


@dataclass
class Suite:
    """The suite on a plain server, and on a captured one with event triggers that a slave follows."""

    files: list[Path]
    rig: Rig
    applying: Applying
    runs: dict[str, Callable[[Path], str]]
    """How a file is run: `plain`, `captured`."""
    done: int = 0
    printed: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @classmethod
    def start(cls, stack: ExitStack, release: int) -> "Suite":
        def folder(name: str) -> Path:
            made = new_folder(f"sluice-test-suite-{name}-")
            stack.callback(shutil.rmtree, made, ignore_errors=True)
            return made

        runs = {}
        servers = {}
        files = suite.fetch(release, folder("files") / "sql")
        for name in ("plain", "captured", "slave"):
            servers[name] = server = PostgresServer(folder(name), name=name, settings=SETTINGS, release=release)
            server.start(die_with_parent=True)
            stack.callback(server.stop)
            with server.connect() as connection:
                for statement in suite.DATABASE:
                    connection.execute(statement.encode())
            runs[name] = partial(suite.run, server, files=suite.make_data(folder(f"{name}-data")))
        redis = RedisServer(folder("redis"), settings={"appendonly": "no"})
        redis.start(die_with_parent=True)
        stack.callback(redis.stop)
        rig = Rig.empty(
            lambda **_: None,  # type: ignore[arg-type, return-value]
            redis.url, folder("replications"), master=servers["captured"].info("regression"),
            slave=servers["slave"].info("regression"), schema="sluice", interval=0.5,
            slave_options={"on_error": "isolate"},
        )  # fmt: skip
        rig.master.execute("CREATE TABLE public.before_the_suite (id int PRIMARY KEY)")
        rig.capture()
        PostgresCapture(rig.master, rig.pair.prefix, "sluice").make_event_triggers()
        wildcards.note(rig.master, rig.replication)
        update = rig.update()
        rig.prepare(update)
        applying = stack.enter_context(rig.apply())
        rig.load_to_normal(update)
        rig.master.execute("DROP TABLE public.before_the_suite")
        return cls(files, rig, applying, {name: runs[name] for name in ("plain", "captured")})

    def run(self, part: int) -> list[str]:
        """Runs the suite up to the end of a part, and returns the names of the part's files."""
        size = -(-len(self.files) // PARTS)
        for file in self.files[self.done : (part + 1) * size]:
            threads = [threading.Thread(target=self._run, args=[side, file]) for side in self.runs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.done = max(self.done, (part + 1) * size)
        return [file.stem for file in self.files[part * size : (part + 1) * size]]

    def _run(self, side: str, file: Path) -> None:
        self.printed.setdefault(file.stem, {})[side] = of_the_suite(self.runs[side](file))

    def differing(self) -> list[str]:
        """The captured tables that the slave does not have as the master does, although it says nothing of them."""
        rig, states = self.rig, self.rig.checkpoint.tables
        captured = rig.master.execute(
            "SELECT schemaname, tablename FROM sluice.demo_captures WHERE mode <> 'dropped' ORDER BY 1, 2"
        ).fetchall()
        return [
            str(table)
            for table in (TableName(*name) for name in captured)
            if states.ready(table) and rows_of(rig.slave, table, rig.master) != rows_of(rig.master, table, rig.master)
        ]


def of_the_suite(text: str) -> list[str]:
    """What psql prints, without lines that name objects of ours."""
    return [line for line in normal(text, OWN) if not any(name in line for name in OWN)]


def unexplained(name: str, plain: list[str], captured: list[str]) -> list[str]:
    """The differing lines of a file for which no reason is stated."""
    lines = different_lines(plain, captured)
    allowed = "|".join(DIFFERENT.get(name, {})) or "(?!)"
    return [line for line in lines if not re.fullmatch(allowed, line[2:])]


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_the_output_is_the_same_and_the_slave_follows(running: Suite, part: int) -> None:
    names = running.run(part)
    found = {name: unexplained(name, **running.printed[name]) for name in names}
    assert {name: lines for name, lines in found.items() if lines} == {}
    running.rig.await_current()
    assert running.differing() == []
