"""Processes that end with the thread that starts them, where the kernel can do that: on Linux.

As a program it becomes a command: `python -I with_parent.py PARENT COMMAND …`, where PARENT is the process ID of who
starts it. A program can do that for a process with threads, in which nothing of its own may run between fork and exec.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def with_parent(command: Sequence[str]) -> list[str]:
    """The command such that it is killed when the thread that starts it ends."""
    return [sys.executable, "-I", __file__, str(os.getpid()), *command]


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """This process gets the signal when the thread that started it ends.

    Between fork and exec, too: it imports nothing, since the account of a server may be unable to read Python's files.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, number)


def main() -> None:
    parent, *command = sys.argv[1:]
    end_with_parent()
    if os.getppid() != int(parent):  # It ended before it was looked at.
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
