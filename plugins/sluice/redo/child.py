"""Starts a program that ends with who started it: `python child.py PROGRAM ARGUMENT…`. Standard library alone.

The supervisor has threads, so nothing of its own may run between fork and exec.
"""

import ctypes
import os
import signal
import sys


def main() -> None:
    parent = os.getppid()
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, where there is such a thing
    if os.getppid() != parent:
        sys.exit(1)
    # A terminal's Ctrl-C goes to the supervisor alone, which ends its programs one after the other.
    os.setpgid(0, 0)
    try:
        os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
