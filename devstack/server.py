"""A database server that we run: one process, one directory, one port on the loopback address.

Several objects, also in several processes, may name the same directory. They find the process by the server's pid file.
"""

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, ClassVar

import psutil

from devstack.ports import free_port, is_free, port_in_use
from devstack.process import ProcessId, await_true, descendants
from devstack.secret import keep, write_private
from sluice.errors import Terminal
from sluice.with_parent import end_with_parent


class ServerDidNotStart(Terminal):
    """The server ended, or was not ready in time. The message contains the end of its log."""

    def __init__(self, name: str, directory: Path, log: str) -> None:
        self.name, self.directory, self.log = name, directory, log
        super().__init__(
            f"{name} in {directory} did not start. The end of its log:\n{log.strip() or '(empty)'}\n"
            f"Remove the cause that the log names (disk full, permissions, damaged files) and start again."
        )


class Server(ABC):
    """What PostgreSQL, MariaDB and Redis have in common. Subclasses prepare and start the server, and test whether it
    is ready.

    `settings` are settings of the server, by the names of its configuration. A server's current directory is its folder
    `data`, which distinguishes it from another process that has got its pid.
    """

    product: ClassVar[str]
    """The default name."""
    start_timeout: ClassVar[float] = 60.0
    """Seconds until it must be ready, crash recovery included."""
    stop_signals: ClassVar[tuple[tuple[int, float], ...]] = ((signal.SIGTERM, 15.0),)
    """Signals of an orderly stop, each with the seconds to wait for the end. SIGKILL follows."""
    orphan_signal: ClassVar[int] = signal.SIGINT
    """The signal that the kernel sends when the parent has died, if `die_with_parent` was set."""
    port_option: str | None = None
    """The command-line option that chooses the port, for messages."""

    def __init__(
        self,
        directory: Path | str,
        port: int | None = None,
        name: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.data = self.directory / "data"
        self.name = name or self.product
        self.settings = dict(settings or {})
        self.log = self.directory / "log"
        self._given = port
        self._child: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def pid_file(self) -> Path: ...

    @abstractmethod
    def prepare(self) -> None:
        """Prepares folders, permissions, port and files. Safe to repeat."""

    @abstractmethod
    def command(self) -> list[str]:
        """Returns the command line, without secrets."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it runs and answers."""

    def popen_options(self) -> dict[str, Any]:
        """Returns session, environment and, if another one is needed, account of the process."""
        return {"start_new_session": True, "stdin": subprocess.DEVNULL, "cwd": "/"}

    @property
    def port(self) -> int:
        """The given port, else that of the last start, else a free one, which is then kept."""
        return kept_port(self.directory / "port", self._given)

    def require_port(self) -> None:
        """Raises `port-in-use` when another process listens on the port."""
        if not self.is_running() and not is_free(self.port):
            raise port_in_use(self.name, self.port, self.port_option)

    def process(self) -> ProcessId | None:
        """Returns the running server, or None. Any process may have started it."""
        try:
            pid = int(self.pid_file.read_text().split("\n", 1)[0])
            if Path(psutil.Process(pid).cwd()) != self.data:
                return None
        except (OSError, ValueError, psutil.Error):
            return None
        identity = ProcessId.of(pid)
        return identity if identity and identity.alive() else None

    def is_running(self) -> bool:
        return self.process() is not None

    def start(self, *, die_with_parent: bool = False) -> None:
        """Starts the server and returns when it is ready. Makes its files if necessary.

        `die_with_parent`: the kernel stops it when the calling thread ends in any way (Linux).
        Raises `port-in-use`, `ServerDidNotStart` and the errors of `prepare`.
        """
        if self.is_ready():
            return
        self.prepare()
        offset = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            child = self.spawn(log, die_with_parent=die_with_parent)
        await_true(lambda: self.is_ready() or child.poll() is not None, self.start_timeout, 0.02)
        if child.poll() is None and self.is_ready():
            return
        self.kill()
        text = self.log_tail(offset)
        if "Address already in use" in text:
            raise port_in_use(self.name, self.port, self.port_option)
        raise ServerDidNotStart(self.name, self.directory, text)

    def spawn(self, output: IO[bytes], *, die_with_parent: bool = False, **options: Any) -> subprocess.Popen[bytes]:
        """Starts the process. Call `prepare()` before. Does not wait until it is ready."""
        options = {**self.popen_options(), **options}
        if die_with_parent:
            options["preexec_fn"] = partial(end_with_parent, self.orphan_signal)
        self._child = subprocess.Popen(self.command(), stdout=output, stderr=subprocess.STDOUT, **options)
        return self._child

    def stop(self) -> None:
        """Stops the server with its signals and then SIGKILL. Returns when none of its processes runs."""
        for number, seconds in self.stop_signals:
            process = self.process()
            if process is None:
                break
            process.send(number)
            if self._await_end(process, seconds):
                break
        self.kill()

    def kill(self) -> None:
        """Sends SIGKILL. Returns when the server and its children have ended."""
        process = self.process()
        family = descendants(process.pid) if process else []
        if process:
            process.send(signal.SIGKILL)
            self._await_end(process, 10.0)
        elif self._child is not None and self._child.poll() is None:  # it has no pid file yet
            self._child.kill()
            self._child.wait()
        await_true(lambda: not any(member.alive() for member in family), 10.0)

    def log_tail(self, offset: int = 0) -> str:
        """Returns the last 2,000 bytes of the log, none of them before `offset`."""
        if not self.log.exists():
            return ""
        with open(self.log, "rb") as log:
            log.seek(max(offset, self.log.stat().st_size - 2000))
            return log.read().decode(errors="replace")

    def _await_end(self, process: ProcessId, timeout: float) -> bool:
        def ended() -> bool:
            if self._child is not None and self._child.pid == process.pid:
                self._child.poll()  # reaps it
            return not process.alive()

        return await_true(ended, timeout, 0.02)


def kept_port(file: Path, given: int | None) -> int:
    """Returns the given port, else the one in the file, else a free one. Writes it to the file."""
    port = int(keep(file, lambda: str(given or free_port())))
    if given is not None and port != given:
        write_private(file, str(given))
    return given or port


def clean_environment(*unwanted: str) -> dict[str, str]:
    """Returns the caller's environment without the variables that start with one of the given texts."""
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
