"""The demo's writers as a process.

    python -m workload < task

The task is one line of JSON on standard input: `connection` (a ConnectionInfo's values), `seed`, `rate` (row changes a
second of all writers together), `portable` (whether they omit values that only PostgreSQL can store). Twice a second a
line of JSON with the counts goes to standard output. When standard input ends, the writers finish their transactions
and the process ends.
"""

import json
import sys
import threading
import time
from collections.abc import Sequence

from sluice.model.connection import ConnectionInfo
from workload.writer import DEMO, Pace, Writer

COUNTS = ("committed", "changes", "rolled_back", "lost_connections")


def main() -> int:
    """Returns the exit status, 0."""
    task = json.loads(sys.stdin.readline())
    info, pace = ConnectionInfo.from_dict(task["connection"]), Pace(task["rate"])
    writers = [
        Writer(info, number, profile, task["seed"], pace, task["portable"]) for number, profile in enumerate(DEMO, 1)
    ]
    for writer in writers:
        writer.start()
    ended = threading.Event()
    threading.Thread(target=_await_end_of_input, args=(ended,), daemon=True).start()
    while not ended.wait(0.5):
        _report(writers)
    for writer in writers:
        writer.stop()
    deadline = time.monotonic() + 10
    for writer in writers:
        writer.join(max(0.0, deadline - time.monotonic()))
    _report(writers)
    return 0


def _report(writers: Sequence[Writer]) -> None:
    counts = {name: sum(getattr(writer.tally, name) for writer in writers) for name in COUNTS}
    unexpected = [text for writer in writers for text in writer.tally.unexpected]
    unexpected += [repr(writer.failure) for writer in writers if writer.failure]
    try:
        print(json.dumps({**counts, "unexpected": unexpected}), flush=True)
    except BrokenPipeError:  # the parent has ended, and this process ends next
        sys.stdout = sys.stderr


def _await_end_of_input(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    sys.exit(main())
