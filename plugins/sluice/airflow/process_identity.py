"""Processes by identity: a pid alone may have been given to somebody else meanwhile.

The start time comes from the kernel's tick counter, which does not move when the clock is set; with
the boot and the pid namespace it names a process for good. Where there is no /proc (macOS) psutil
answers.
"""

import os
import signal
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

_PROC = Path("/proc")


@cache
def this_host() -> str:
    """Names the place where pids mean something: host, boot and pid namespace."""
    parts = [socket.gethostname()]
    for file, read in ((_PROC / "sys/kernel/random/boot_id", Path.read_text), (_PROC / "self/ns/pid", os.readlink)):
        try:
            parts.append(str(read(file)).strip())
        except OSError:
            continue
    return " ".join(parts)


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of one host, for as long as anybody remembers it."""

    pid: int
    started: str
    """Kernel ticks since boot, or psutil's creation time."""
    host: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """The identity of a process of this host, None when it is gone or a zombie."""
        started = _started(pid)
        return cls(pid, started, this_host()) if started else None

    @property
    def local(self) -> bool:
        """Whether this host can see and signal it."""
        return self.host == this_host()

    def alive(self) -> bool:
        """Whether that very process still runs, as seen from its own host."""
        return self.local and _started(self.pid) == self.started

    def created(self) -> float | None:
        """When it started, in seconds since the epoch by the clock of now; None when it is gone."""
        try:
            return float(psutil.Process(self.pid).create_time()) if self.alive() else None
        except psutil.Error:
            return None

    def send(self, number: int) -> bool:
        """Signals the process; False when it is gone or on another host."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def kill_session(self) -> int:
        """SIGKILL for every other process of the session this process leads or led; returns how many there were.

        A session's number is not given to a new process while a member lives, so that members found
        under it are ours, unless a new leader took the number after all of them were gone.
        """
        if not self.local or (_started(self.pid) not in (None, self.started)):
            return 0
        members = session_members(self.pid)
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(members)


def session_members(leader: int) -> list[int]:
    """Pids of the processes in the session of `leader`, without the leader and the caller."""
    found = []
    for pid in psutil.pids():
        try:
            if pid not in (leader, os.getpid()) and os.getsid(pid) == leader and _started(pid):
                found.append(pid)
        except (ProcessLookupError, PermissionError):
            continue
    return found


def _started(pid: int) -> str | None:
    """Start time of a process, None when there is none or only its zombie."""
    if (_PROC / "self" / "stat").exists():
        try:
            text = (_PROC / str(pid) / "stat").read_text()
        except OSError:
            return None
        # The name, in parentheses, may hold anything: fields are counted from the last one.
        fields = text[text.rindex(")") + 2 :].split()
        return None if fields[0] in "ZX" else fields[19]
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return None
