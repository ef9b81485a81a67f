"""Becomes a command that is killed when the thread that started it ends: `python with_parent.py PARENT COMMAND …`.

PARENT is the process ID of the starting process. Done by a program, not between fork and exec of the starting process:
there gRPC's own handlers of a fork end the child. Linux only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # It ended before it was looked at.
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
