"""Stands for a Spark driver in tests of jobs: does what its payload says.

`{"log": […], "sleep": seconds, "exit": status, "child": true, "stubborn": true, "flood": bytes}`
"""

import json
import os
import signal
import subprocess
import sys
import time


def main() -> int:
    wish = json.loads(sys.stdin.read())
    if wish.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if wish.get("child"):
        # Like Spark's daemon: its own process group, holding the driver's output open.
        child = subprocess.Popen(["sleep", "600"], process_group=0)
        print(f"child {child.pid}")
    print(f"driver {os.getpid()}")
    print(f"environment {','.join(sorted(os.environ))}")
    for line in wish.get("log", []):
        print(line)
    for number in range(wish.get("flood", 0)):
        print(f"line {number} " + "x" * 80)
    deadline = time.monotonic() + wish.get("sleep", 0)
    while time.monotonic() < deadline:
        time.sleep(0.05)
    return wish.get("exit", 0)


if __name__ == "__main__":
    sys.exit(main())
