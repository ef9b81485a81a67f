"""The identity of a process: the kernel may have given its pid to another process meanwhile.

The start time comes from the kernel's tick counter, which does not change when the clock is set. Together with boot id
and pid namespace it identifies a process forever. Without /proc (macOS) psutil gives the start time; it is imported
only when it is needed, which saves each job's watcher 5 MB.
"""

import os
import signal
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


@cache
def this_host() -> str:
    """Identifies the scope of a pid: host, boot and pid namespace."""
    parts = [socket.gethostname()]
    for file, read in ((_PROC / "sys/kernel/random/boot_id", Path.read_text), (_PROC / "self/ns/pid", os.readlink)):
        try:
            parts.append(str(read(file)).strip())
        except OSError:
            continue
    return " ".join(parts)


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of one host, unique forever."""

    pid: int
    started: str
    """Kernel ticks since boot, or psutil's creation time."""
    host: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """The identity of a process of this host; None if it is gone or a zombie."""
        started = _started(pid)
        return cls(pid, started, this_host()) if started else None

    @property
    def local(self) -> bool:
        """Whether this host can see and signal it."""
        return self.host == this_host()

    def alive(self) -> bool:
        """Whether this same process still runs; always false on another host."""
        return self.local and _started(self.pid) == self.started

    def created(self) -> float | None:
        """When it started, in seconds since the epoch by the current clock; None if it is gone."""
        import psutil

        try:
            return float(psutil.Process(self.pid).create_time()) if self.alive() else None
        except psutil.Error:
            return None

    def send(self, number: int) -> bool:
        """Signals the process; False if it is gone or on another host."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def kill_session(self) -> int:
        """Kills every other process of the session that this process leads or led; returns their number.

        The kernel gives no new process the session's number while a member lives, so members found under it belong to
        this session, unless a new leader took the number after all of them had ended.
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
    import psutil

    members = []
    for pid in psutil.pids():
        try:
            if pid not in (leader, os.getpid()) and os.getsid(pid) == leader and _started(pid):
                members.append(pid)
        except (ProcessLookupError, PermissionError):
            continue
    return members


def _started(pid: int) -> str | None:
    """Start time of a process; None if it is gone or a zombie."""
    if (_PROC / "self" / "stat").exists():
        try:
            text = (_PROC / str(pid) / "stat").read_text()
        except OSError:
            return None
        # The name, in parentheses, may contain anything: count fields from the last parenthesis.
        fields = text[text.rindex(")") + 2 :].split()
        return None if fields[0] in "ZX" else fields[19]
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return None
