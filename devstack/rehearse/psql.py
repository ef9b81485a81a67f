r"""psql on a pipe: it runs a script statement by statement, and after each one tells how it ended.

psql itself reads and runs every statement, so that its commands, variables, `COPY … FROM stdin` and ON_ERROR_STOP do
what they do elsewhere. After each statement an `\echo` of ours ends its output.
"""

import contextlib
import os
import queue
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from devstack.postgres import binary
from devstack.rehearse.script import Kind, Statement
from devstack.server import clean_environment
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.verify.rehearsal import Outcome

APPLICATION = "rehearsal"
"""The name of the sessions that run scripts."""
STUCK_SECONDS = 10.0
"""So long psql may wait for more of a statement that has been sent as a whole."""


_PLACE = re.compile(r"^psql:/dev/fd/\d+:\d+: ")
_ERROR = re.compile(r"^psql:.*?:\d+: (ERROR|FATAL|PANIC|error): ")
_BUSY = re.compile(r"\\!|\\watch\b|`")
"""Commands of psql that may take long while its session is idle."""


def environment(info: ConnectionInfo, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment with the variables by which libpq finds the database, and DATABASE_URL."""
    user, password, database = (quote(text, safe="") for text in (info.user, info.password, info.database))
    url = f"postgresql://{user}:{password}@{info.host}:{info.port}/{database}"
    return {
        **clean_environment("PG", "DATABASE_URL"),
        "PGHOST": info.host, "PGPORT": str(info.port), "PGUSER": info.user, "PGPASSWORD": info.password,
        "PGDATABASE": info.database, "PGAPPNAME": APPLICATION, "DATABASE_URL": url,
        "PSQLRC": os.devnull, "PSQL_PAGER": "", **(more or {}),
    }  # fmt: skip


class Psql:
    """A context. `waiting`: whether the server waits for the session, for seconds now."""

    def __init__(
        self,
        info: ConnectionInfo,
        *,
        single: bool = False,
        waiting: Callable[[], float] = lambda: 0.0,
        more: Mapping[str, str] | None = None,
    ):
        """`single`: a transaction around everything, as `psql --single-transaction` does. `more`: environment
        variables."""
        self._mark = f"@@{secrets.token_hex(8)}"
        self._waiting = waiting
        self._lines: queue.Queue[str | None] = queue.Queue()
        read, write = os.pipe()
        # Not by standard input, which a program that the script runs would read.
        command = [str(binary("psql")), "-X", "-f", f"/dev/fd/{read}", *(["-1"] if single else [])]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[read],
            env=environment(info, more),
        )
        os.close(read)
        self._script = os.fdopen(write, "wb")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> str:
        """Ends the script; returns what psql prints then (the COMMIT of a single transaction, say)."""
        with contextlib.suppress(BrokenPipeError):
            self._script.close()
        try:
            self._process.wait(STUCK_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        rest: list[str] = []
        while not self._lines.empty():
            rest.append(self._lines.get() or "")
        return "".join(rest)

    def run(self, statement: Statement) -> Outcome:
        """Runs a statement, and returns when psql is ready for the next one. Raises `statement-without-end`."""
        begun = time.monotonic()
        sent = f"{statement.text}\n\\echo {self._mark} :SQLSTATE :ROW_COUNT\n"
        with contextlib.suppress(BrokenPipeError):  # it has ended, which is read below
            self._script.write(sent.encode(errors="surrogateescape"))
            self._script.flush()
        output: list[str] = []
        error = ""
        may_be_busy = _BUSY.search(statement.text)
        while True:
            try:
                line = self._lines.get(timeout=1.0)
            except queue.Empty:
                long = not may_be_busy and time.monotonic() > begun + STUCK_SECONDS
                if long and self._waiting() > STUCK_SECONDS:
                    self._process.kill()
                    raise Terminal(
                        f"psql finds no end of the statement in line {statement.line}: {statement.short!r}. A quote "
                        "or a comment may be open there.",
                        code="statement-without-end",
                    ) from None
                continue
            seconds = time.monotonic() - begun
            if line is None:
                self._lines.put(None)
                failed = self._process.wait() != 0
                printed = "".join(output)
                if failed and not error:
                    error = f"psql has ended: {printed.strip()[-200:]}"
                return Outcome(printed, "XX000" if failed else "", 0, seconds, True, error)
            before, mark, after = line.partition(self._mark)
            output.append(_PLACE.sub("", before))
            if not error and _ERROR.match(before):
                error = output[-1].strip()
            if mark:
                state, _, rows = after.strip().partition(" ")
                known = statement.kind is Kind.SQL
                number = int(rows) if rows.isdecimal() and known else 0
                return Outcome("".join(output), state if known else "", number, seconds, error=error)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.decode(errors="replace"))
        self._lines.put(None)


def run_whole(info: ConnectionInfo, statement: Statement) -> Outcome:
    """Runs a file by psql, or a command of the shell, which finds the database by DATABASE_URL, PGHOST and the like."""
    begun = time.monotonic()
    if statement.kind is Kind.FILE:
        return Outcome(run_file(info, Path(statement.text), ("-a", "-q")), "", 0, time.monotonic() - begun)
    done = subprocess.run(
        statement.text,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(info),
        check=False,
    )
    printed = done.stdout.decode(errors="replace")
    error = f"exit status {done.returncode}: {printed.strip()[-1000:]}" if done.returncode else ""
    return Outcome(printed, "" if error else "00000", 0, time.monotonic() - begun, bool(error), error)


def run_file(
    info: ConnectionInfo, file: Path, options: tuple[str, ...] = (), more: Mapping[str, str] | None = None
) -> str:
    """Runs a file as `psql < file` does, and returns what it prints. `more`: environment variables."""
    with file.open("rb") as script:
        done = subprocess.run(
            [str(binary("psql")), "-X", *options],
            stdin=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(info, more),
            check=False,
        )
    return done.stdout.decode(errors="replace")
