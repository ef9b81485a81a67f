"""Where a Spark driver keeps its scratch: apart from other drivers, and never in the way of one that lives."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.session import _use_own_scratch


@pytest.fixture
def bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two scratch folders, listed as Spark wants them."""
    found = [tmp_path / "one", tmp_path / "two"]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(map(str, found)))
    return found


def test_a_driver_has_a_folder_of_its_own_in_each_of_them(bases: list[Path], tmp_path: Path) -> None:
    _use_own_scratch()
    own = [base / f"driver-{os.getpid()}" for base in bases]
    assert os.environ["SPARK_LOCAL_DIRS"] == ",".join(map(str, own))
    assert all(folder.is_dir() for folder in own)
    assert sorted(tmp_path.iterdir()) == bases, "and nothing beside them"


def test_what_a_dead_driver_left_goes_and_what_a_living_one_uses_stays(
    bases: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    living = os.getppid()
    for pid in (dead.pid, living):
        (bases[1] / f"driver-{pid}" / "blockmgr").mkdir(parents=True)
    # A system without /proc, such as macOS, has living processes, too.
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: not str(path).startswith("/proc/") and exists(path))
    _use_own_scratch()
    assert not (bases[1] / f"driver-{dead.pid}").is_dir()
    assert (bases[1] / f"driver-{living}" / "blockmgr").is_dir()


def test_without_any_it_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    _use_own_scratch()
    assert "SPARK_LOCAL_DIRS" not in os.environ
