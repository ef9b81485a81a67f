"""Who listens on a port of this machine."""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

_LISTENING = "0A"
"""The state in /proc/net/tcp: https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt"""


class Listener(NamedTuple):
    """A socket that accepts connections."""

    uid: int
    inode: str


def listener(port: int) -> Listener | None:
    """What listens on this machine's `port`; None for nothing, or without /proc."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, _, _, _, uid, _, inode, *_ = line.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return Listener(int(uid), inode)
    return None


def stranger(port: int) -> int | None:
    """The uid of another user whose process listens there; None if it is this user's, or nobody's."""
    found = listener(port)
    return None if found is None or found.uid == os.geteuid() else found.uid


def belongs_to(found: Listener, process: int) -> bool:
    """Whether a process, or one that it started, has the socket. Both must be of this user."""
    parents = {int(process.name): _parent(process) for process in Path("/proc").iterdir() if process.name.isdecimal()}
    for each in parents:
        above: int | None = each
        while above is not None and above != process:
            above = parents.get(above)
        if above == process and _has(each, found.inode):
            return True
    return False


def _parent(process: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name, in brackets, may hold anything.
        return int((process / "stat").read_text().rpartition(")")[2].split()[1]) or None
    return None


def _has(process: int, inode: str) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in os.scandir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(descriptor.path) == f"socket:[{inode}]":
                    return True
    return False
