"""A process of the supervisor, with its log, its last error and its end."""

import logging
import logging.handlers
import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluice.redo import left_out
from sluice.with_parent import with_parent

LOG_BYTES, LOGS_KEPT = 20_000_000, 3
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)? (?P<level>[A-Z]+)\s+(?:(?P<code>\d{5}) )?(?P<text>.*)")
MISSING_LOG = 60027
"""The message with which OpenLogReplicator waits for a missing archived log."""
CAUGHT_SIGNAL = 10015
_QUIET = frozenset({60028})
"""A message about each entry of a folder, at each reading."""


class Program:
    """Runs `command` with its output in the file `log`, which is rotated. Its times are UTC."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]):
        log.parent.mkdir(parents=True, exist_ok=True)
        self.last_error = ""
        self.missing_log = ""
        """Its message about a log for which it waits."""
        self.left_out: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        """The codes and texts of its messages about changes that it leaves out."""
        self._log = logging.handlers.RotatingFileHandler(log, maxBytes=LOG_BYTES, backupCount=LOGS_KEPT)
        self._process = subprocess.Popen(
            with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TZ": "UTC", **environment},
            umask=0o077,
            # A terminal's Ctrl-C reaches only the supervisor, which ends its programs one after the other.
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read, name=f"log {log.name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def end(self, number: signal.Signals, seconds: float) -> None:
        """Ends it by a signal, and by SIGKILL if it has not ended after so many seconds."""
        if self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(5)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            message = _LINE.match(line)
            if message is not None and message["code"] and int(message["code"]) in _QUIET:
                continue
            self._log.emit(logging.LogRecord("", logging.INFO, "", 0, line, (), None))
            if message is None:
                continue
            code = int(message["code"] or 0)
            if message["level"] == "ERROR" and code != CAUGHT_SIGNAL:
                self.last_error = message["text"]
            elif code == left_out.WITHOUT_BEGINNING or code in left_out.PARTS:
                self.left_out.put((code, message["text"]))
            elif code == MISSING_LOG:
                self.missing_log = message["text"]
            elif message["text"].startswith("processing redo log"):
                self.missing_log = ""
        self._log.close()
