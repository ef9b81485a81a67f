"""Fixtures for every test: a real PostgreSQL and a real Redis of the test run's own.

A server that does not start fails the tests that need it; none is skipped.
"""

import gc
import itertools
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis
from _pytest.pathlib import import_path
from hypothesis import settings
from psycopg import sql
from xdist.scheduler import LoadFileScheduling

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer, ensure_installed
from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST, RELEASES
from devstack.redis import RedisServer
from devstack.server import Server
from devstack.spark import SparkServer
from sluice.capture import resources
from sluice.cli import airflow_api
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from tests import airflow_home  # noqa: F401  before a test module imports Airflow
from tests.cpu import Cpu
from tests.mysql_server import VARIABLE, GivenServer
from tests.oracle import server as oracle_server
from tests.oracle.h2 import H2
from tests.oracle.ivorysql import ENVIRONMENT as IVORYSQL
from tests.oracle.ivorysql import IvoryServer, installation
from tests.rig.endpoints import CLUSTER
from tests.scenarios.faults import seeds
from tests.waiting import DEADLINE_SECONDS, until

# No example is judged by its time: on a busy machine any may take long.
settings.register_profile("all", deadline=None, max_examples=100)
settings.register_profile("quick", deadline=None, max_examples=33, derandomize=True)
settings.load_profile("all")
airflow_api.ANSWER_SECONDS = 120.0
Server.start_timeout = DEADLINE_SECONDS

TEST_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "logical",
    "max_connections": "200",
    "max_prepared_transactions": "50",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
}

_numbers = itertools.count(1)

LONG = (
    "newcomer",
    "faults",
    "bench",
    "initial_files",
    "with_airflow",
    "verify",
    "mariadb",
    "demo",
    "many",
    "initial_load",
    "detached_apply",
    "dags",
    "browser",
    "scenarios",
)
"""Folders with the files that take longest, longest first."""

TOGETHER = {
    "tests/scenarios/with_airflow/": "one start of Airflow",
    "tests/browser/": "one database of Airflow",
    "tests/dags/": "one database of Airflow",
    "tests/scenarios/initial_files/test_spark_job.py": "one start of Spark",
    "tests/scenarios/initial_load/test_load_job.py": "one start of Spark",
    "tests/scenarios/initial_load/test_spark_page.py": "one start of Spark",
    "tests/scenarios/detached_apply/test_apply_operator.py": "one start of Spark",
    "tests/scenarios/detached_apply/test_apply_query.py": "one start of Spark",
    "tests/scenarios/detached_apply/test_spark_executor.py": "one start of Spark",
    "tests/scenarios/feeds/test_change_source.py": "one start of Spark",
    "tests/scenarios/feeds/test_table_source.py": "one start of Spark",
    "tests/scenarios/verify/test_by_executors.py": "one start of Spark",
    "tests/oracle/test_on_h2.py": "one MariaDB, one H2",
    "tests/scenarios/mariadb/": "one MariaDB, one H2",
    "tests/vendors/": "one MariaDB, one H2",
    "tests/scenarios/verify/test_comparison_job.py": "one start of Spark",
    "tests/scenarios/binlog/test_feed_stream.py": "one start of Spark",
    "tests/scenarios/binlog/": "one MariaDB with a log",
    "tests/scenarios/production/": "one start of Docker",
}
"""Folders and files that share what takes long to start: one worker gets all those of the same word."""


class Together(LoadFileScheduling):
    """Gives files to workers one by one; those of `TOGETHER` go to one worker by the fixture that they share."""

    def _split_scope(self, nodeid: str) -> str:
        return next(
            (shared for place, shared in TOGETHER.items() if nodeid.startswith(place)), nodeid.split("::", 1)[0]
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together | None:
    return Together(config, log) if config.option.dist == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-number", type=int, metavar="N", default=0, help="decides what changes from run to run")
    parser.addoption(
        "--intruder-seconds", type=int, default=60, help="how long the long test of rights tries (default: 60)"
    )
    parser.addoption("--pictures", metavar="FOLDER", help="the test of the documentation's pictures writes them there")
    help_text = "PostgreSQL's release that tests run on (default: the newest; marked `releases`: also others)"
    parser.addoption("--postgres", type=int, choices=RELEASES, metavar="RELEASE", help=help_text)

    parser.addoption("--oracle", action="store_true", help="only what runs on Oracle, or on IvorySQL")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.oracle and not (oracle_server.wanted() or installation()):
        raise pytest.UsageError(
            f"--oracle needs a server: {oracle_server.ENVIRONMENT}=oracle://sys:password@host:1521/service, or "
            f"{IVORYSQL}, the folder of an IvorySQL that was built. docs/oracle-slave.md starts one in a container"
        )
    if not hasattr(config, "workerinput") and config.option.oracle and (server := oracle_server.wanted()):
        try:
            server.awaited()
        except oracle_server.NoAnswer as error:
            raise pytest.UsageError(f"{oracle_server.ENVIRONMENT}: {error}") from None
    config.pluginmanager.register(Cpu(config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names what ran on Oracle or on a stand-in, and on which release."""
    for name, server in oracle_server.named().items():
        outcomes = Counter(
            outcome
            for outcome in ("passed", "failed", "error")
            for report in terminalreporter.getreports(outcome)
            if f"[{name}" in report.nodeid
        )
        if outcomes:
            counts = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
            try:
                version = server.version()
            except oracle_server.NoAnswer as error:
                version = f"which does not answer ({error})"
            terminalreporter.write_line(f"on {name}, {version}: {counts}")


def _on_oracle(name: str) -> bool:
    return any(f"[{server}" in name for server in oracle_server.named())


def pytest_report_header(config: pytest.Config) -> str:
    number = config.option.run_number
    chosen = " and ".join(str(seed) for seed in seeds.rotating(number))
    return f"run number {number}: fault seeds {chosen} with --all; the same again: --run-number {number}"


def pytest_collection(session: pytest.Session) -> None:
    """Lets each of the workers compile a share of the test files: for all of them, each would take ten seconds.

    What collection makes stays until the end, so no garbage is looked for in it, neither now nor later.
    """
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    root, number = session.config.rootpath, int(worker["workerid"].removeprefix("gw"))
    for file in sorted((root / "tests").rglob("test_*.py"))[number :: worker["workercount"]]:
        with suppress(Exception):  # the collection tells of it
            import_path(file, root=root, consider_namespace_packages=False)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests marked `releases` on the newest release, in the long tier also on the older ones."""
    marked = metafunc.definition.get_closest_marker("releases") is not None
    if marked and "release" in metafunc.fixturenames and metafunc.config.option.postgres is None:
        older = [pytest.param(release, marks=pytest.mark.long) for release in RELEASES if release != NEWEST]
        metafunc.parametrize("release", [NEWEST, *older], indirect=True, ids=lambda number: f"pg{number}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests marked `since` on a release that lacks the feature, with the reason."""
    callspec = getattr(item, "callspec", None)
    release = callspec.params.get("release") if callspec else None
    release = release or item.config.option.postgres or NEWEST
    for marker in item.iter_markers("since"):
        needed, what = marker.args
        if release < needed:
            pytest.skip(f"PostgreSQL {release} has no {what}")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps only tests on Oracle with `--oracle`. Of a test marked `one_in` marks the other cases as `long`.

    Long files come first, so that no worker waits for one at the end.
    """
    if config.option.oracle:
        others = [item for item in items if not _on_oracle(item.nodeid)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _on_oracle(item.nodeid)]
    seen: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("one_in")
        if marker is not None and item.get_closest_marker("long") is None:
            test = item.nodeid.split("[", 1)[0]
            if seen[test] % int(marker.args[0]):
                item.add_marker(pytest.mark.long)
            seen[test] += 1
        if "spark" in getattr(item, "fixturenames", ()) and "one start of Spark" not in TOGETHER.get(_file(item), ""):
            raise pytest.UsageError(f"{_file(item)} uses the server of Spark: name it in TOGETHER of tests/conftest.py")

    def place(item: pytest.Item) -> int:
        return next((number for number, folder in enumerate(LONG) if folder in item.path.parts), len(LONG))

    items.sort(key=place)


def _file(item: pytest.Item) -> str:
    return item.nodeid.split("::", 1)[0]


@pytest.fixture(scope="session")
def server_of_release() -> Iterator[Callable[[int], PostgresServer]]:
    """Running PostgreSQL servers by release, each started at its first use. They end with the session, also if the
    process is killed."""
    made: dict[int, PostgresServer] = {}

    def running(release: int) -> PostgresServer:
        if release not in made:
            # Not under pytest's own folder: that is closed to the account that runs the server.
            folder = new_folder("sluice-test-postgres-")
            cheap = {"scram_iterations": "1"} if release >= 16 else {}
            server = PostgresServer(folder, name=f"test {release}", settings=TEST_SETTINGS | cheap, release=release)
            try:
                server.start(die_with_parent=True)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            _make_cheap(server)
            made[release] = server
        return made[release]

    yield running
    for server in made.values():
        server.stop()
        shutil.rmtree(server.directory, ignore_errors=True)


INSTALLED = "sluice_installed"
"""A database with the resources of prefix DEMO_ in schema public, to be copied."""


def _make_cheap(server: PostgresServer) -> None:
    """Prepares what each test would pay for again: the superuser's password, templates of databases.

    The schema public of new databases is as in PostgreSQL 15 and later: only the database's owner may create in it.
    """
    with server.connect("template1") as connection:
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC; ALTER SCHEMA public OWNER TO pg_database_owner")
        password = sql.Literal(server.info().password)
        connection.execute(sql.SQL("ALTER ROLE postgres PASSWORD {}").format(password))  # hashed with few rounds
    # A database whose template was connected to has a filled cache of its catalogue.
    server.connect("template1").close()
    with server.connect() as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(INSTALLED)))
    with connect(server.info(INSTALLED), application="test") as session:
        resources.install(session, Prefix("DEMO_"), "public")
    server.connect(INSTALLED).close()


@pytest.fixture(scope="session")
def release(request: pytest.FixtureRequest) -> int:
    """The release of PostgreSQL of the mark `releases` or of `--postgres`, else the newest."""
    chosen: int = getattr(request, "param", None) or request.config.option.postgres or NEWEST
    return chosen


@pytest.fixture(scope="session")
def postgres(release: int, server_of_release: Callable[[int], PostgresServer]) -> PostgresServer:
    """A running PostgreSQL of `release`."""
    return server_of_release(release)


@pytest.fixture
def database(postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Callable[..., ConnectionInfo]]:
    """A factory: each call makes an empty database and returns how to reach it; all are dropped after the test.

    `database()` connects as the superuser. `database(role=True)` as a new role that owns the database and has no other
    privilege. `database(name="Odd Name")` gives the database that name. `database(server=other)` makes it there.
    `database(installed=True)` has the resources of DEMO_ in schema public, as the superuser installs them.
    """
    made: list[tuple[PostgresServer, str, str | None]] = []
    stem = re.sub(r"\W+", "_", request.node.name).lower()[:30].strip("_")

    def make(
        *,
        role: bool = False,
        name: str | None = None,
        server: PostgresServer | None = None,
        installed: bool = False,
    ) -> ConnectionInfo:
        number = next(_numbers)
        place = server or postgres
        user = f"role_{number}" if role else "postgres"
        made.append((place, name or f"{stem}_{number}", user if role else None))
        if role:
            place.create_role(user)
        with place.connect() as connection:
            how = sql.SQL("")
            if connection.info.server_version >= 180000:
                # The kernel copies the files, which takes half of what the write-ahead log does.
                connection.execute("SET file_copy_method = clone")
                how = sql.SQL("STRATEGY FILE_COPY")
            names = sql.Identifier(made[-1][1]), sql.Identifier(user)
            template = sql.Identifier(INSTALLED if installed else "template1")
            statement = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {} {}")
            connection.execute(statement.format(*names, template, how))
        return place.info(made[-1][1], user)

    yield make
    for place, name, user in made:
        with place.connect() as connection:
            quoted = '"' + name.replace('"', '""') + '"'
            prepared = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", [name])
            for (gid,) in prepared.fetchall():
                with place.connect(name) as inside:
                    inside.execute("ROLLBACK PREPARED '" + gid.replace("'", "''") + "'")
            connection.execute(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")
            if user:
                connection.execute(f"DROP ROLE IF EXISTS {user}")


MARIADB_SETTINGS = {
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_flush_method": "nosync",
    "innodb_doublewrite": "OFF",
    "innodb_buffer_pool_size": "128M",
    "max_connections": "200",
}


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDBServer]:
    """A running MariaDB; it ends with the session, also if the process is killed."""
    folder = new_folder("sluice-test-mariadb-")
    server = MariaDBServer(folder, settings=MARIADB_SETTINGS)
    try:
        ensure_installed()
        server.start(die_with_parent=True)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def mariadb(request: pytest.FixtureRequest) -> Iterator[Callable[[], ConnectionInfo]]:
    """A factory: each call creates an empty database, with an account that has all privileges in it and no others.

    It uses the server of SLUICE_TEST_MYSQL, if that is set and the test does not ask for the machine's own.
    """
    if (url := os.environ.get(VARIABLE)) and "mariadb_server" not in request.fixturenames:
        given, infos = GivenServer(url), list[ConnectionInfo]()

        def make_there() -> ConnectionInfo:
            infos.append(given.make(next(_numbers)))
            return infos[-1]

        yield make_there
        for info in infos:
            given.drop(info)
        return
    mariadb_server: MariaDBServer = request.getfixturevalue("mariadb_server")
    made: list[str] = []

    def make() -> ConnectionInfo:
        name = f"slave_{next(_numbers)}"
        made.append(name)
        mariadb_server.create_account(name, name)
        return mariadb_server.info(name, name)

    yield make
    for name in made:
        mariadb_server.drop_account(name, name)


@pytest.fixture(scope="session")
def ivorysql_server() -> Iterator[IvoryServer]:
    """A running IvorySQL in Oracle mode; ends with the session. Only where `SLUICE_TEST_IVORYSQL` names one."""
    installed = installation()
    assert installed is not None, "SLUICE_TEST_IVORYSQL names no installation"
    folder = new_folder("sluice-test-ivorysql-")
    server = IvoryServer(folder, installed)
    try:
        server.start(die_with_parent=True)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def ivorysql(ivorysql_server: IvoryServer) -> Callable[[], ConnectionInfo]:
    """A factory: each call makes an empty database."""
    return lambda: ivorysql_server.database(f"slave_{next(_numbers)}")


@pytest.fixture(scope="session")
def h2_engine() -> Iterator[H2]:
    """A running H2; ends with the session."""
    engine = H2()
    yield engine
    engine.close()


@pytest.fixture
def h2(h2_engine: H2) -> Callable[[], ConnectionInfo]:
    """A factory: each call makes an empty database."""
    return lambda: h2_engine.database(f"slave_{next(_numbers)}")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A running Redis; it ends with the session, also if the process is killed."""
    folder = new_folder("sluice-test-redis-")
    server = RedisServer(folder, settings={"appendonly": "no"})
    try:
        server.start(die_with_parent=True)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of an empty Redis, password included. A test that stops the server starts it again before it ends."""
    with redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkServer]:
    """A running, warm Spark Connect server; it ends with the session, also if the process is killed."""
    folder = new_folder("sluice-test-spark-")
    events = folder / "events"
    events.mkdir()
    written = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    server = SparkServer(folder, conf={**written, "spark.eventLog.compress": "false"})
    server.warm_timeout = DEADLINE_SECONDS
    try:
        server.start(waits=False)
        until(server.is_ready)
        until(lambda: _warm(server), pause=1.0)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _warm(server: SparkServer) -> bool:
    """Whether its first job has run. On a busy machine it gives up earlier than a test may."""
    with suppress(Terminal):
        server.warm_up()
        return True
    return False


@pytest.fixture(params=["connect", pytest.param("cluster", marks=pytest.mark.long)])
def endpoint(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A server of Spark Connect that is up, and a cluster for which the job starts one."""
    if request.param == "cluster":
        return CLUSTER
    return {"remote": request.getfixturevalue("spark").server.url}
