"""The parent process of a Spark driver: starts it, writes its log, ends it, and records how it ended.

    python -m sluice.airflow.job_runner JOB_ID MODULE ARGUMENT…

The payload (connections, passwords included) arrives on standard input and is passed to the driver the same way. The
runner starts the driver only after a complete payload. The launcher completes it after writing the record, so no job
runs without a record.

The runner leads its own session. All descendants of the driver stay in it, and are killed when the driver has ended. If
the runner is killed, the kernel kills the driver (on Linux), whose JVM and Python workers end with it.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from sluice.airflow.job import Result, file_of, write_values
from sluice.airflow.process_identity import session_members
from sluice.airflow.state_paths import job_logs_folder
from sluice.with_parent import end_with_parent

GRACE_SECONDS = 20.0
"""How long a driver has to end after SIGTERM."""
DRAIN_SECONDS = 1.0
"""How long to wait for the last output of a driver that has ended."""
LOOK_SECONDS = 0.25
"""Between two checks of the driver, its output and the stop request."""
LOG_BYTES = 20_000_000
"""Size at which a log is rotated."""
LOGS_KEPT = 3
"""Rotated logs beside the current one."""

_LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+ (?P<level>[A-Z]+) (?P<text>.*)")
_GRAVE = frozenset({"ERROR", "CRITICAL", "FATAL"})


class JobLog:
    """The log file of a job, rotated by size. Remembers the last error and the last lines.

    A full disk must not stop the job: output that cannot be written is dropped.
    """

    def __init__(self, path: Path, limit: int = LOG_BYTES):
        self.path = path
        self.limit = limit
        self._tail: deque[str] = deque(maxlen=200)
        self._rest = b""
        self._grave = ""
        self._open()

    def write(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-65536:]
        for line in lines:
            self._remember(line)
        with contextlib.suppress(OSError):
            os.write(self._file, chunk)
            if os.fstat(self._file).st_size >= self.limit and chunk.endswith(b"\n"):
                self._rotate()

    def closing_message(self) -> str:
        """The last error in the log, else the last line that is not blank."""
        if self._rest:
            self._remember(self._rest)
            self._rest = b""
        if self._grave:
            return self._grave
        for line in reversed(self._tail):
            if line.strip():
                matched = _LOG_LINE.match(line)
                return (matched["text"] if matched else line).strip()[:2000]
        return ""

    def _remember(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        self._tail.append(text)
        matched = _LOG_LINE.match(text)
        if matched and matched["level"] in _GRAVE:
            self._grave = matched["text"].strip()[:2000]

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _rotate(self) -> None:
        for number in range(LOGS_KEPT, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path.with_name(f"{self.path.name}.{number - 1}") if number > 1 else self.path
            if newer.exists():
                newer.replace(older)
        # Open the new file first: after a failure a closed descriptor's number could belong to another file.
        full = self._file
        self._open()
        os.close(full)


class Runner:
    """Watches one driver from its start to its end."""

    def __init__(self, job_id: str, command: list[str], payload: bytes):
        self.alive = file_of(job_id, "alive")
        self.stop = file_of(job_id, "stop")
        self.result = file_of(job_id, "result")
        self.log = JobLog(job_logs_folder() / f"{job_id}.log")
        self.command = command
        self.payload = payload
        self.stopping_since: float | None = None
        """When the end was first requested; by the monotonic clock."""
        self._terminated = False
        self._beaten = 0.0

    def run(self) -> int:
        """Runs the driver, writes the result, returns the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.alive.touch(mode=0o600)
        rc = self._drive()
        stopped = self.stopping_since is not None
        # A driver that exits with 0 after a request to end has not done all its work.
        rc = 128 + signal.SIGTERM if stopped and rc == 0 else rc
        write_values(self.result, asdict(Result(rc, time.time(), self.log.closing_message(), stopped)))
        return rc

    def _drive(self) -> int:
        try:
            driver = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=end_with_parent,  # the runner has no threads
            )
        except OSError as error:
            self.log.write(f"{self.command[0]}: {error.strerror}\n".encode())
            return 127
        assert driver.stdin is not None
        assert driver.stdout is not None
        with contextlib.suppress(BrokenPipeError), driver.stdin as stdin:
            stdin.write(self.payload)
        self.payload = b""
        with selectors.DefaultSelector() as selector:
            selector.register(driver.stdout, selectors.EVENT_READ)
            while driver.poll() is None:
                self._copy(selector, LOOK_SECONDS)
                self._beat(driver)
            # The driver's children may hold the pipe open: read what is there, then kill them.
            deadline = time.monotonic() + DRAIN_SECONDS
            while time.monotonic() < deadline and self._copy(selector, 0.1):
                continue
        _kill_session()
        return driver.returncode if driver.returncode >= 0 else 128 - driver.returncode

    def _copy(self, selector: selectors.DefaultSelector, seconds: float) -> bool:
        """Copies output to the log, waits up to `seconds` for it; whether there was any."""
        if not selector.get_map():  # the driver has closed its output and still runs
            time.sleep(seconds)
            return False
        for key, _ in selector.select(seconds):
            chunk = os.read(key.fd, 1 << 16)
            if chunk:
                self.log.write(chunk)
                return True
            selector.unregister(key.fileobj)
        return False

    def _beat(self, driver: "subprocess.Popen[bytes]") -> None:
        now = time.monotonic()
        if now - self._beaten < LOOK_SECONDS:
            return
        self._beaten = now
        with contextlib.suppress(OSError):
            self.alive.touch()
        if self.stopping_since is None and self.stop.exists():
            self.stopping_since = now
        if self.stopping_since is None:
            return
        if not self._terminated:
            self._terminated = True
            driver.terminate()
        elif now - self.stopping_since > GRACE_SECONDS:
            driver.kill()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.stopping_since is None:
            self.stopping_since = time.monotonic()


def _kill_session() -> None:
    for _ in range(20):
        members = session_members(os.getpid())
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def main() -> int:
    job_id, module, *arguments = sys.argv[1:]
    payload = sys.stdin.buffer.read()
    try:
        json.loads(payload)
    except ValueError:
        return 64  # the launcher died before it wrote the record
    # Nobody reads this process's output any more, and a stray write must not end it.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    return Runner(job_id, [sys.executable, "-m", module, *arguments], payload).run()


if __name__ == "__main__":
    sys.exit(main())
