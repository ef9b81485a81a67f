"""Where a Connect server that a job starts keeps its files: apart from other jobs, removed after its death."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from spark_jobs.server import ConnectServer, own_scratch, with_retries
from tests.errors import raises_code


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


@pytest.mark.parametrize("named", [True, False], ids=["SPARK_LOCAL_DIRS", "temporary folder"])
@pytest.mark.parametrize("kind", ["writable", "link", "foreign"])
def test_a_folder_in_which_others_could_replace_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, named: bool
) -> None:
    user = 1234
    base = tmp_path / f"sluice-spark-{user}"
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if named:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(base))
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    if kind == "link":
        base.symlink_to(mine)
    else:
        mine.rename(base)
        base.chmod(0o777 if kind == "writable" else 0o755)
    owner = user + 1 if kind == "foreign" else user
    status = Path.lstat
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(Path, "lstat", lambda path: os.stat_result((*status(path)[:4], owner, *status(path)[5:])))
    with raises_code("unsafe-folder", match="SPARK_LOCAL_DIRS"):
        own_scratch()


def test_a_shared_temporary_folder_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    assert own_scratch().stat().st_mode & 0o777 == 0o700


def test_a_listener_of_another_user_gets_neither_token_nor_tasks(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ConnectServer.temporary("local[1]")
    with socket.create_server(("127.0.0.1", server.port)) as thief:
        thief.settimeout(0)
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
        monkeypatch.setattr(ConnectServer, "command", lambda _: ["sleep", "60"])
        with raises_code("spark-port-taken", match=f"uid {uid}, .* Nothing was sent"):
            server.start()
        with pytest.raises(BlockingIOError):
            thief.accept()
    assert server.pid is None
    server.remove()


LISTENS = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
time.sleep(60)
"""


def test_a_listener_is_the_server_only_if_its_child_or_a_child_of_that_has_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also beside other processes of this user."""
    server = ConnectServer.temporary("local[1]")
    command = [sys.executable, "-c", LISTENS, str(server.port)]
    shell = ["sh", "-c", '"$@"; true', "sh", *command]
    try:
        monkeypatch.setattr(server, "command", lambda: ["sleep", "60"])
        with subprocess.Popen(command, stdout=subprocess.PIPE) as thief, open(os.devnull, "wb") as nowhere:
            assert thief.stdout is not None and thief.stdout.readline()
            server.spawn(nowhere)
            with raises_code("spark-port-taken", match=f"{server.port}.* Nothing was sent"):
                server.listens()
            thief.kill()
        monkeypatch.setattr(server, "command", lambda: shell)
        with open(os.devnull, "wb") as nowhere:
            server.spawn(nowhere)
        while not server.listens():
            time.sleep(0.05)
        assert server.pid is not None
        os.killpg(server.pid, signal.SIGKILL)
    finally:
        server.stop()
        server.remove()
