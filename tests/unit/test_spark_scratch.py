"""Where a Connect server that a job starts keeps its files: apart from other jobs, removed after its death."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.server import ConnectServer, own_scratch, with_retries


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first of two scratch folders, listed in Spark's format."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'one'},{tmp_path / 'two'}")
    return tmp_path / "one"


def test_a_job_has_a_folder_of_its_own(base: Path) -> None:
    assert own_scratch() == base / f"driver-{os.getpid()}"
    assert own_scratch().stat().st_mode & 0o777 == 0o700
    assert list(base.parent.iterdir()) == [base], "and nothing beside it"


def test_folders_of_dead_jobs_are_removed_and_those_of_living_ones_stay(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    living = os.getppid()
    for pid in (dead.pid, living):
        (base / f"driver-{pid}" / "blockmgr").mkdir(parents=True)
    # A system without /proc, such as macOS, has living processes, too.
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: not str(path).startswith("/proc/") and exists(path))
    own_scratch()
    assert not (base / f"driver-{dead.pid}").is_dir()
    assert (base / f"driver-{living}" / "blockmgr").is_dir()


@pytest.mark.parametrize(
    ("master", "meant"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://a:7077,b:7077", "spark://a:7077,b:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_task_that_died_runs_again_also_on_one_machine(master: str, meant: str) -> None:
    assert with_retries(master, "4") == meant


def test_secrets_are_in_a_private_file_and_on_no_command_line(base: Path) -> None:
    secret = "of $tests=\\: ü🗝"
    server = ConnectServer.temporary("spark://head:7077", {"spark.authenticate.secret": secret})
    server.prepare()
    file = server.folder / "spark.properties"
    assert file.stat().st_mode & 0o777 == 0o600
    said = " ".join([*server.command(), *server.environment().values()])
    assert secret not in said and server.token not in said
    text = file.read_text().splitlines()
    found = next(line for line in text if line.startswith("spark.authenticate.secret="))
    units = bytes.fromhex(found.partition("=")[2].replace("\\u", ""))
    assert units.decode("utf-16-be") == secret
    server.remove()
    assert not server.folder.exists()
