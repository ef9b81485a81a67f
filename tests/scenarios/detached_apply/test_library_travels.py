"""The library on executors that do not have it, or have another version of it: real servers of Spark Connect."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from devstack.home import REPOSITORY
from sluice import library
from spark_jobs.endpoint import Endpoint
from spark_jobs.executors import ExecutorsDiffer
from spark_jobs.server import ConnectServer
from spark_jobs.session import SparkExecutor
from tests.waiting import until

pytestmark = pytest.mark.long

Start = Callable[..., SparkExecutor]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server as a cluster's is, each session with files of its own, and attaches to it.

    Its executors import from `paths` alone.
    """
    with ExitStack() as stack:

        def started(*paths: Path, **conf: str) -> SparkExecutor:
            own = {"spark.python.daemon.module": "pyspark.daemon", **conf}
            isolated = dict.fromkeys(("enabled", "alwaysApplyClassloader"), "true")
            server = ConnectServer.temporary(
                "local[2]", own | {f"spark.sql.artifact.isolation.{name}": on for name, on in isolated.items()}
            )
            stack.callback(server.remove)
            server.prepare()
            found = {**server.environment(), "PYTHONPATH": ":".join(map(str, paths))}
            with open(server.log, "wb") as output:
                child = server.spawn(output, environment=found, dies=sys.platform == "linux")
            until(lambda: server.listens() or child.poll() is not None)
            assert child.poll() is None, server.log.read_text()
            executor = SparkExecutor("sluice test", Endpoint(server.url))
            stack.callback(executor.stop)
            return executor

        yield started


@pytest.fixture
def another_version(tmp_path: Path) -> list[Path]:
    """The paths of a library that differs by a line."""
    for name in ("plugins/sluice", "spark_jobs", "include/sql"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    with open(tmp_path / "plugins" / "sluice" / "counted.py", "a") as file:
        file.write("\nOTHER = True\n")
    return [tmp_path, tmp_path / "plugins"]


def look() -> Callable[[int], tuple[str, str, int]]:
    """A task: which library it has, where that lies, and how many characters one of its statements has."""

    def found(_: int) -> tuple[str, str, int]:
        from sluice import library, sql_files

        return library.fingerprint(), library.__file__, len(sql_files.render("postgres", "position", schema="sluice"))

    return found  # travels by value, as a function of this module would not


def test_executors_without_the_library_get_it_with_its_statements(start: Start) -> None:
    executor = start()
    for version, place, statement in executor.map(look(), 4, "look"):
        assert version == library.fingerprint()
        assert ".zip" in place and str(REPOSITORY) not in place
        assert statement > 0


def test_executors_with_another_version_get_this_one(start: Start, another_version: list[Path]) -> None:
    executor = start(*another_version)
    assert {version for version, _, _ in executor.map(look(), 4, "look")} == {library.fingerprint()}


def test_executors_that_have_loaded_another_version_are_refused_with_the_remedy(
    start: Start, another_version: list[Path]
) -> None:
    executor = start(*another_version, **{"spark.python.daemon.module": "spark_jobs.worker_daemon"})
    with pytest.raises(ExecutorsDiffer, match=r"another version of Sluice loaded: start Spark's server anew"):
        executor.map(look(), 2, "look")
