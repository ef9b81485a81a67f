"""Passwords of a stack: which ones it has, what its processes show while it runs, which files contain one."""

import stat
import subprocess
import tempfile
import threading
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from devstack.home import Home

LOOK_SECONDS = 0.2


class Processes(AbstractContextManager["Processes"]):
    """Every command line and environment of a process of this machine, read all the time."""

    def __init__(self) -> None:
        self.commands: set[str] = set()
        self.environments: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Processes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):  # it has ended
                    self.commands.add(_text(process / "cmdline"))
                    self.environments.add(_text(process / "environ"))


def _text(file: Path) -> str:
    return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def secrets_of(home: Home) -> dict[Path, str]:
    """The stack's secrets, by the file that keeps each."""
    kept = [
        *home.root.glob("postgres/*/passwords/*"),
        *(file for file in (home.airflow / "secrets").iterdir() if file.suffix != ".json"),
        home.redis / "password",
    ]
    return {file: file.read_text().strip() for file in kept if file.suffix != ".pgpass"}


def files_with(home: Home, secrets: list[str]) -> list[Path]:
    """The files below the state folder that contain one of `secrets`, those of the databases included."""
    with tempfile.NamedTemporaryFile("w", suffix=".secrets") as patterns:
        patterns.write("\n".join(secrets) + "\n")
        patterns.flush()
        found = subprocess.run(
            ["grep", "-rlaF", "-f", patterns.name, str(home.root)], capture_output=True, text=True, check=False
        )
    assert found.returncode in (0, 1), found.stderr
    return [Path(line) for line in found.stdout.splitlines()]


def open_to_others(home: Home, file: Path) -> bool:
    """Whether anybody but the owner can read the file."""
    folders = [folder for folder in file.parents if folder.is_relative_to(home.root)]
    passable = all(folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for folder in folders)
    return passable and bool(file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
