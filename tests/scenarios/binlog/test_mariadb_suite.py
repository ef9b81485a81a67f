"""MariaDB's own tests run on a master whose binary log is recorded; its slave follows, or names what it cannot follow.

Debian's packages `mariadb-test` and `mariadb-test-data` have the tests, in the language of `mariadb-test`; they are
fetched at the time of the test. Each drops at its end what it made, so it is cut before one of its last DROPs:
then there is something to compare. Those for two servers run on one, without the commands that wait for a replica.
Tables are InnoDB's, whatever engine a test names.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pymysql
import pytest

from devstack.account import new_folder, service_account
from devstack.mariadb import MariaDBServer, ensure_installed, quoted
from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.slave_state import SlaveState
from sluice.verify.findings import Outcome
from tests.scenarios.binlog.beside import Beside
from tests.scenarios.binlog.master import SETTINGS, Master

pytestmark = pytest.mark.long

PACKAGES = ("mariadb-test", "mariadb-test-data")
SUITES = (
    "main", "suite/engines/*/t", "suite/rpl/t", "suite/binlog/t", "suite/innodb/t", "suite/parts/t", "suite/vcol/t",
    "suite/gcol/t", "suite/versioning/t", "suite/sql_sequence/t", "suite/compat/*/t", "suite/jp/t",
    "plugin/type_*/mysql-test/*",
)  # fmt: skip
PARTS, FILES = 6, 10
"""How many tests a run takes, which its number chooses."""
RUN_SECONDS = 40
"""Longer tests are ended: what they did is compared."""
NOT_HERE = re.compile(
    r"restart_mysqld|shutdown|kill_mysqld|reset\s+master|start_mysqld|have_debug|have_example|max_allowed_packet|"
    r"big_test|have_wsrep|galera|innodb_trx|read_only\s*=|set\s+global\s+gtid|@@global\.gtid|binlog_format\s*=|"
    r"default_storage_engine=(?!innodb)|have_s3|have_ndb|have_archive|have_rocksdb",
    re.IGNORECASE,
)
"""What stops the server, changes its log, or asks for another server."""
OF_A_REPLICA = re.compile(
    r"\s*(?:--\s*)?(?:sync_slave_with_master|sync_with_master|save_master_pos|connection\s+(?:master|slave)|"
    r"source\s+include/(?:master-slave|rpl_|sync_|start_slave|stop_slave|wait_for_slave|save_master))",
    re.IGNORECASE,
)
MAKES = re.compile(r"CREATE\s+TABLE", re.IGNORECASE)
ENGINE = re.compile(r"\bENGINE\s*=?\s*(?:MyISAM|Aria|MEMORY|HEAP|\$\w+)", re.IGNORECASE)
DROP = re.compile(r"\s*DROP\s+(?:TABLE|DATABASE|SCHEMA)", re.IGNORECASE)
DELIMITER = re.compile(r"\s*(?:--\s*)?delimiter\s+(\S+)", re.IGNORECASE)


class Suite:
    """The packages' files, and the server on which they run: root logs in through its socket without a password."""

    def __init__(self, server: MariaDBServer, folder: Path):
        self.server, self.folder = server, folder
        self.files = folder / "usr/share/mysql/mysql-test"
        self.work = folder / "work"
        self.work.mkdir()
        if account := service_account():
            account.own(self.work)
        with server.connect() as admin, admin.cursor() as cursor:
            cursor.execute("ALTER USER root@localhost IDENTIFIED BY ''")
            cursor.execute("SHOW DATABASES")
            self._databases = {name for (name,) in cursor.fetchall()}
            cursor.execute("SHOW GLOBAL VARIABLES")
            self._settings = dict(cursor.fetchall())

    def chosen(self, run_number: int, part: int) -> list[Path]:
        found = sorted(file for folder in SUITES for file in self.files.glob(f"{folder}/*.test"))
        fit = [file for file in found if MAKES.search(text := file.read_text("latin-1")) and not NOT_HERE.search(text)]
        Random(run_number).shuffle(fit)
        return fit[part * FILES : (part + 1) * FILES]

    def run(self, file: Path, chance: Random) -> None:
        """Runs a test. How it ends is of no interest: many need what is not here."""
        (text := self.work / "cut.test").write_text(cut(file.read_text("latin-1"), chance), "latin-1")
        socket, work = f"{self.server.data}/mariadb.sock", str(self.work)
        environment = {
            **os.environ, "MYSQLTEST_VARDIR": work, "MYSQL_TMP_DIR": work, "MYSQL_TEST_DIR": str(self.files),
            "MASTER_MYSOCK": socket, "MASTER_MYPORT": str(self.server.port), "MYSQLD_DATADIR": str(self.server.data),
        }  # fmt: skip
        command = [
            str(self.folder / "usr/bin/mariadb-test"), "--no-defaults", "--silent", "--continue-on-error",
            f"--socket={socket}", "--user=root", "--database=test", f"--tmpdir={work}", f"--logdir={work}",
            f"--test-file={text}",
        ]  # fmt: skip
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command, cwd=self.files, env=environment, timeout=RUN_SECONDS, check=False, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip

    def clean(self, master: Master) -> None:
        """Removes what a test left: sessions, databases, settings."""
        end_sessions(master)
        for (name,) in master.run("SHOW DATABASES"):
            if name not in self._databases:
                master.run(f"DROP DATABASE {quoted(name)}")
        for name, value in master.run("SHOW GLOBAL VARIABLES"):
            if (former := self._settings.get(name, value)) != value and not name.startswith("gtid_"):
                with suppress(pymysql.Error):
                    master.run(f"SET GLOBAL {name} = {former if former.isdigit() else repr(former)}")
        master.connection.close()


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    files, data = (new_folder(f"sluice-test-mariadb-suite-{name}-") for name in ("files", "data"))
    settings = {**SETTINGS, "character_set_server": "latin1", "max_statement_time": "20"}
    server = MariaDBServer(data, settings=settings)
    download = ["apt-get", "-qq", "--option=APT::Sandbox::User=root", "download", *PACKAGES]
    try:
        subprocess.run(download, cwd=files, check=True, stdin=subprocess.DEVNULL)
        for package in files.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", str(package), str(files)], check=True)
        ensure_installed()
        server.start(die_with_parent=True)
        yield Suite(server, files)
    finally:
        server.stop()
        for folder in (files, data):
            shutil.rmtree(folder, ignore_errors=True)


def cut(text: str, chance: Random) -> str:
    """A test up to one of its last DROP statements, without the commands that concern a replica."""
    lines = [line for line in ENGINE.sub("ENGINE=InnoDB", text).splitlines() if not OF_A_REPLICA.match(line)]
    drops, depth, delimiter = [], 0, ";"
    for number, line in enumerate(lines):
        if found := DELIMITER.match(line):
            delimiter = found[1].removesuffix(delimiter) or ";"
        bare = line.strip()
        depth += bare.endswith("{") - (bare == "}")
        if depth == 0 and delimiter == ";" and DROP.match(line) and number > 5:
            drops.append(number)
    return "\n".join(lines[: chance.choice(drops[len(drops) // 2 :])] if drops else lines) + "\n"


def end_sessions(master: Master) -> None:
    """Ends the sessions and XA transactions that the test left."""
    for (session,) in master.rows("SELECT id FROM information_schema.processlist WHERE user = 'root'"):
        if session != master.connection.thread_id():
            with suppress(pymysql.Error):
                master.run(f"KILL {session}")
    for *_, name in master.run("XA RECOVER FORMAT='SQL'"):
        with suppress(pymysql.Error):
            master.run(f"XA ROLLBACK {name}")


@dataclass
class Followed:
    """What became of the slave beside a test."""

    name: str
    tables: int = 0
    told: dict[str, str] = field(default_factory=dict)
    """Table of which a person is told that the slave does not have it as the master does → why."""
    wrong: list[str] = field(default_factory=list)
    """Tables that differ in silence, and why the apply failed."""
    ended: str = ""
    """Why the whole slave is not NORMAL any more."""


def follow(suite: Suite, file: Path, rig: Beside, chance: Random) -> Followed:
    """Runs a test beside a slave, and compares the tables that are there afterwards."""
    master, result = rig.master, Followed(str(file.relative_to(suite.files)))
    master.run("CREATE TABLE before_the_test (id int PRIMARY KEY)")
    try:
        with rig.recording():
            update = rig.begin()
            with rig.apply():
                rig.load(update)
                rig.await_that(lambda: is_normal(rig))
                suite.run(file, chance)
                end_sessions(master)
                end = rig.end()
                rig.await_that(lambda: rig.covers(end) or not is_normal(rig))
                compare(rig, result)
    except SluiceError as failure:
        result.wrong.append(f"{type(failure).__name__}: {failure}")
    return result


def is_normal(rig: Beside) -> bool:
    return (found := rig.checkpoint) is not None and found.state is SlaveState.NORMAL


def compare(rig: Beside, result: Followed) -> None:
    checkpoint = rig.checkpoint
    assert checkpoint is not None
    if checkpoint.state is not SlaveState.NORMAL:
        result.ended = checkpoint.message
        return
    result.told = {table.name: reason for table, reason in checkpoint.tables.reasons.items()}
    result.told |= {one.table.name: one.reason for one in RejectStore.of(rig.pair, rig.slave).differing()}
    names = rig.master.rows(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'test' AND table_type = 'BASE TABLE'"
    )
    for (name,) in names:
        result.tables += 1
        # A table comes to slaves with its first row.
        if name in result.told or rig.master.run(f"SELECT count(*) FROM {quoted(name)}") == [(0,)]:
            continue
        finding = rig.resync(name).finding
        if finding.outcome is not Outcome.IDENTICAL:
            result.wrong.append(f"{name}: {finding.outcome}: {finding.reason} {finding.columns} {finding.found}")


@pytest.mark.parametrize("part", range(PARTS))
def test_a_slave_follows_mariadbs_own_tests_or_names_what_it_cannot_follow(
    suite: Suite, database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, part: int,
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    run_number, followed = request.config.option.run_number, []
    for number, file in enumerate(suite.chosen(run_number, part)):
        redis_store.connect(redis_url).flushdb()
        master = Master(suite.server, "test", tmp_path / f"stream{number}")
        try:
            rig = Beside(master, "postgres", database(), redis_url, options=", on_error: isolate")
            followed.append(follow(suite, file, rig, Random(f"{run_number} {file.name}")))
            print(followed[-1], flush=True)
            rig.slave.close()
        finally:
            suite.clean(master)
    assert {one.name: one.wrong for one in followed if one.wrong} == {}
    assert sum(one.tables for one in followed) > sum(len(one.told) for one in followed)
