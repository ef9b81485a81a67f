"""The library on executors without it, or with another version of it: real servers of Spark Connect."""

import logging
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest

from devstack.home import REPOSITORY
from devstack.process import descendants
from sluice import library
from sluice.cli.command import main
from spark_jobs.endpoint import Endpoint
from spark_jobs.server import ConnectServer
from spark_jobs.session import DISK_FULL, FETCH_SECONDS, SparkExecutor
from tests.errors import raises_code
from tests.rig.endpoints import like_a_cluster
from tests.waiting import until

pytestmark = pytest.mark.long

CANNOT_TAKE = (
    f"may not be written to (Missing data chunks for artifact): {DISK_FULL}",
    f"it does not take the library; if it runs, {DISK_FULL}",
)
"""The log's words for a server without room for the library: it says so, or cuts the connection."""
Start = Callable[..., ConnectServer]
Attach = Callable[..., SparkExecutor]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers like a cluster's."""
    with ExitStack() as stack:
        yield lambda *paths, **options: stack.enter_context(like_a_cluster(*paths, **options))


@pytest.fixture
def attach() -> Iterator[Attach]:
    """The executors of a server; `packages` are sent along."""
    with ExitStack() as stack:

        def attached(server: ConnectServer, packages: Path | str = "") -> SparkExecutor:
            executor = SparkExecutor("sluice test", Endpoint(server.url, str(packages)))
            stack.callback(executor.stop)
            return executor

        yield attached


@pytest.fixture
def another_version(tmp_path: Path) -> list[Path]:
    """The paths of a library with one different line."""
    for name in ("plugins/sluice", "spark_jobs", "include/sql"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    with open(tmp_path / "plugins" / "sluice" / "counted.py", "a") as file:
        file.write("\nOTHER = True\n")
    return [tmp_path, tmp_path / "plugins"]


def reporter() -> Callable[[int], tuple[str, str, int]]:
    """A task that returns which library it has, its path, and the length of one of its statements."""

    def found(_: int) -> tuple[str, str, int]:
        from sluice import library, sql_files

        statement = sql_files.render("postgres", "position", prefix="demo_", schema="sluice")
        return library.fingerprint(), library.__file__, len(statement)

    return found  # travels by value, as a function of this module would not


def test_executors_without_the_library_get_it_with_its_statements(start: Start, attach: Attach) -> None:
    for version, place, statement in attach(start()).map(reporter(), 4, "look"):
        assert version == library.fingerprint()
        assert ".zip" in place and str(REPOSITORY) not in place
        assert statement > 0


def test_executors_with_another_version_get_this_one(start: Start, attach: Attach, another_version: list[Path]) -> None:
    executor = attach(start(*another_version))
    assert {version for version, _, _ in executor.map(reporter(), 4, "look")} == {library.fingerprint()}


def test_executors_that_have_loaded_another_version_are_refused_with_the_remedy(
    start: Start, attach: Attach, another_version: list[Path]
) -> None:
    executor = attach(start(*another_version, conf={"spark.python.daemon.module": "spark_jobs.worker_daemon"}))
    with raises_code("executors-differ", match=r"another version of Sluice loaded: start Spark's server again"):
        executor.map(reporter(), 2, "look")


def test_executors_without_packages_are_refused_and_work_with_an_archive_of_them(
    start: Start, attach: Attach, tmp_path: Path
) -> None:
    server = start(python=str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"))
    with raises_code("executors-differ", match=r"lacks pyarrow.*\./sluice pack"):
        attach(server).map(reporter(), 2, "look")
    archive = tmp_path / "packages.tar.gz"
    with raises_code("package-archive-missing", match=r"packages\.tar\.gz"):
        attach(server, archive).map(reporter(), 2, "look")
    assert main(["pack", str(archive)]) == 0
    executor = attach(server, archive)
    until(lambda: executor.ready, FETCH_SECONDS)

    def places(_: int) -> list[str]:
        return [
            str(import_module(name).__file__) for name in ("psycopg", "duckdb", "boto3", "sluice.apply.stage_driver")
        ]

    for *packages, library_of_job in executor.map(places, 2, "look"):
        assert all("/packages/lib/" in place for place in packages), packages
        assert ".zip" in library_of_job


def test_a_session_waits_while_the_disk_of_spark_is_full_and_says_so(
    start: Start, attach: Attach, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark writes the archive of the library to this disk."""
    server = start()
    assert server.pid is not None
    family = [process.pid for process in descendants(server.pid)]

    def limit_files(size: int) -> None:
        for pid in family:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    limit_files(0)
    with caplog.at_level(logging.WARNING, "sluice.job"):
        executor = attach(server)
        until(lambda: executor.ready or any(text in caplog.text for text in CANNOT_TAKE))
    assert not executor.ready
    limit_files(resource.RLIM_INFINITY)
    assert {version for version, _, _ in executor.map(reporter(), 4, "look")} == {library.fingerprint()}
