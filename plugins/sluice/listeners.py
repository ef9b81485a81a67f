"""Who listens on a port of this machine."""

import contextlib
import os
from pathlib import Path

_LISTENING = "0A"
"""The state in /proc/net/tcp: https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt"""


def listener_uid(port: int) -> int | None:
    """The uid of the process that listens on this machine's `port`; None if nobody does, or without /proc."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, _, _, _, uid, *_ = line.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return int(uid)
    return None


def stranger(port: int) -> int | None:
    """The uid of another user whose process listens there; None if it is this user's, or nobody's."""
    uid = listener_uid(port)
    return None if uid in (None, os.geteuid()) else uid
