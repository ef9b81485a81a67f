"""README's two commands in a fresh clone, on machines of several kinds: to their end, and without a question."""

import os
import pty
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from devstack.account import new_folder
from devstack.home import REPOSITORY
from tests.traces import nothing_runs

AS_NOBODY = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups")
IN_A_NAMESPACE = ("unshare", "--mount", "sh", "-ec")
ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts and becomes another user")
_OWN = ("SLUICE_", "AIRFLOW", "PG", "PYTHON", "VIRTUAL_ENV", "TMPDIR", "JAVA_HOME")
"""Beginnings of variables that a fresh machine does not have."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may enter."""
    folder = new_folder("sluice-test-clone-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cloned(folder: Path, *, packages: bool) -> Path:
    """The files of a fresh clone, as they are in this checkout; `packages`: with those of this checkout installed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (source := REPOSITORY / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    if packages:
        (folder / ".venv").symlink_to((REPOSITORY / ".venv").resolve())
    return folder


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return {**kept, **more}


def without_terminal(command: Sequence[str], clone: Path, **variables: str) -> str:
    """The output of a command that must succeed. Nobody can answer it."""
    done = subprocess.run(
        command, cwd=clone, env=environment(**variables), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "[y/N]" not in done.stdout and "no terminal" not in done.stdout
    return done.stdout


def at_a_terminal(command: Sequence[str], clone: Path, **variables: str) -> str:
    """The same at a terminal at which nobody types."""
    master, slave = pty.openpty()
    text: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(master, 65536):
                text.append(data)
        except OSError:  # the last process that had the terminal has ended
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    done = subprocess.run(
        command, cwd=clone, env=environment(**variables), stdin=slave, stdout=slave, stderr=slave, check=False
    )
    os.close(slave)
    reader.join(60)
    os.close(master)
    output = b"".join(text).decode(errors="replace")
    assert done.returncode == 0, output
    assert "[y/N]" not in output
    return output


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(without_terminal, marks=pytest.mark.long, id="without a terminal"),
        pytest.param(at_a_terminal, id="at a terminal"),
    ],
)
def test_the_servers_start_without_a_question_in_a_path_with_blanks(place: Path, run: object) -> None:
    clone = cloned(place / "a folder with blanks", packages=True)
    assert callable(run)
    assert "running" in run(["./sluice", "up", "--no-airflow"], clone)
    assert "running" in without_terminal(["./sluice", "status"], clone)
    assert "all is down" in run(["./sluice", "down"], clone)
    assert nothing_runs(clone / ".sluice")


def both(clone: Path, prefix: Sequence[str] = (), **variables: str) -> None:
    """Runs README's two commands; of the tests a single file."""
    output = without_terminal(
        [*prefix, "./sluice", "demo", "--once", "--seconds", "2", "--scale", "1"], clone, **variables
    )
    assert "tables are equal, row for row" in output, output
    output = without_terminal([*prefix, "./sluice", "test", "tests/unit/test_counted.py"], clone, **variables)
    assert " passed" in output and " failed" not in output, output


@pytest.mark.long
@ONLY_ROOT
def test_root_without_a_terminal_runs_both_commands_in_a_path_with_blanks(place: Path) -> None:
    both(cloned(place / "a folder with blanks", packages=False))


@pytest.mark.long
@ONLY_ROOT
def test_an_ordinary_user_without_a_terminal_runs_both_commands(place: Path) -> None:
    home = place / "home"
    clone = cloned(place / "clone", packages=False)
    home.mkdir()
    subprocess.run(["chown", "-R", "nobody:nogroup", str(clone), str(home)], check=True)
    both(clone, AS_NOBODY, HOME=str(home))


@pytest.mark.long
@ONLY_ROOT
def test_a_read_only_checkout_runs_both_commands_with_its_state_elsewhere(place: Path) -> None:
    clone = cloned(place / "clone", packages=False)
    state = new_folder("sluice-test-state-")
    script = f'mount --bind "{clone}" "{clone}"; mount -o remount,bind,ro "{clone}"; cd "{clone}"; exec "$@"'
    try:
        both(clone, [*IN_A_NAMESPACE, script, "sh"], SLUICE_HOME=str(state))
    finally:
        shutil.rmtree(state, ignore_errors=True)
    assert not (clone / ".venv").exists()


@pytest.mark.long
@ONLY_ROOT
def test_without_shared_memory_root_runs_both_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")  # that of the tests is in shared memory
    place = new_folder("sluice-test-clone-")
    try:
        clone = cloned(place / "clone", packages=True)
        both(clone, [*IN_A_NAMESPACE, 'mount -t tmpfs -o ro tmpfs /dev/shm; exec "$@"', "sh"])
    finally:
        shutil.rmtree(place, ignore_errors=True)
