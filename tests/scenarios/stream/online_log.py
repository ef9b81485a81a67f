"""A redo log while a master writes it: a process of its own writes, in pieces, into a file with blocks of an
older log."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Self

from sluice.redo import blocks

PARTS = 5
_WRITER = """
import sys
target, source = open(sys.argv[1], "r+b", buffering=0), open(sys.argv[2], "rb").read()
for order in sys.stdin:
    begin, end = map(int, order.split())
    target.seek(begin)
    for at in range(begin, end, 1000):  # No whole blocks: a reader finds half a one.
        target.write(source[at : min(at + 1000, end)])
    print(end, flush=True)
"""


class OnlineLog:
    """`whole`: an archived log, which this one becomes in the file `file`, where blocks of `former` lie."""

    def __init__(self, whole: Path, file: Path, former: bytes):
        data = whole.read_bytes()
        header = blocks.read_header(data)
        self._begin, self._size = 2 * header.size, len(data)
        room = max(0, 2 * len(data) - len(former))
        open_header = blocks.header_block(replace(header, next_scn=None, blocks=None))
        file.write_bytes(data[: header.size] + open_header + former[2 * header.size :] + bytes(room))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, file, whole], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._left = [*range(self._begin, self._size, max(1, (self._size - self._begin) // PARTS)), self._size]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def write_on(self) -> bool:
        """Starts writing the next part; False if all of them are written."""
        if len(self._left) > 1:
            self._order(self._left.pop(0), self._left[0])
            return True
        return False

    def complete(self) -> None:
        """Completes the header: the master continues in another log."""
        self._order(0, self._begin)
        self.await_written()

    def await_written(self) -> None:
        """Returns when the last ordered part is in the file."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the writer has ended"

    def _order(self, begin: int, end: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{begin} {end}\n")
        self._process.stdin.flush()
