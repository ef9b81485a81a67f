"""A redo thread of a master, and its files."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.configuration.redo import RedoOptions
from sluice.model.vendors import DESCRIPTION_FILE
from sluice.redo import blocks, unread_redo

FIRST_LOG = "first_log"
"""A file in the folder of the program: the sequence of the log with which its capture began."""


@dataclass(frozen=True)
class RedoThread:
    """A redo thread of one incarnation of the master."""

    resetlogs: int
    number: int
    """V$THREAD.THREAD#."""
    spool: Path
    """The folder with what was received, and the newest schema checkpoint, which the merge reads."""
    work: Path
    logs: Path

    @classmethod
    def of(cls, options: RedoOptions, location: Path, resetlogs: int, number: int) -> "RedoThread":
        """The thread as configured. `location`: of the replication."""
        name = f"{resetlogs}_{number}"
        work, logs = Path(options.work or location / "work"), Path(options.logs or location / "logs")
        return cls(resetlogs, number, location / "threads" / name, work / name, logs / name)

    def __str__(self) -> str:
        return f"{self.resetlogs}_{self.number}"

    @property
    def state(self) -> Path:
        """The folder of the program's checkpoints."""
        return self.work / "state"

    @property
    def swap(self) -> Path:
        """The folder for transactions that the program does not keep in memory. The program empties it at its start."""
        return self.work / "swap"

    @property
    def configuration(self) -> Path:
        return self.work / "program.json"

    @property
    def program_log(self) -> Path:
        return self.work / "program.log"

    def staged_logs(self) -> set[int]:
        """The sequences of the archived logs where the program reads."""
        return {sequence for sequence, _ in self.files()}

    def first_log(self, scn: int) -> int | None:
        """The sequence of the log with which reading begins, so that no commit above `scn` is left out.

        It has that SCN, or is the first of a thread that did not exist then. None while it is missing.
        """
        for sequence, file in sorted(self.files()):
            try:
                header = _header(file)
            except (OSError, blocks.NotRedo):
                continue
            ends = header.next_scn
            if (header.first_scn <= scn and (ends is None or scn < ends)) or (sequence == 1 and header.first_scn > scn):
                return sequence
        return None

    def keep_first(self, sequence: int) -> None:
        """Records that capture begins with this log."""
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / FIRST_LOG).write_text(str(sequence), "ascii")

    def kept_first(self) -> int:
        """The recorded first log, or else the first existing one; 0 while there is none."""
        try:
            return int((self.work / FIRST_LOG).read_text("ascii"))
        except (OSError, ValueError):
            return min(self.staged_logs(), default=0)

    def since(self) -> int:
        """The SCN at which a thread joins that was not read from the beginning; 0 for others."""
        try:
            return int(json.loads((self.spool / DESCRIPTION_FILE).read_text("utf-8")).get("since", 0))
        except (OSError, ValueError, AttributeError):
            return 0

    def files(self) -> Iterator[tuple[int, Path]]:
        for file in self.logs.glob(f"*/{self.number}_*_{self.resetlogs}.*"):
            parts = file.stem.split("_")
            if len(parts) == 3 and parts[1].isdigit():
                yield int(parts[1]), file


def known(threads: Path, resetlogs: int) -> list[int]:
    """The threads of an incarnation with a folder in `threads`, except closed ones."""
    folders = [each for each in _threads(threads) if each[0] == resetlogs] if threads.exists() else []
    return sorted(number for _, number, folder in folders if not unread_redo.closed(folder))


def headers(logs: Path, scn: int) -> Iterator[blocks.LogHeader]:
    """For each thread with logs in `logs`, the first log with redo above `scn`. Raises `OSError`."""
    for resetlogs, number, folder in _threads(logs):
        thread = RedoThread(resetlogs, number, folder, folder, folder)
        for _, file in sorted(thread.files()):
            try:
                header = _header(file)
            except (OSError, blocks.NotRedo):
                continue
            if header.next_scn is None or header.next_scn > scn:
                yield header
                break


def _threads(root: Path) -> Iterator[tuple[int, int, Path]]:
    """Incarnation, number and folder of each thread."""
    for folder in sorted(root.iterdir()):
        resetlogs, _, number = folder.name.partition("_")
        if folder.is_dir() and resetlogs.isdigit() and number.isdigit():
            yield int(resetlogs), int(number), folder


def _header(file: Path) -> blocks.LogHeader:
    with file.open("rb") as opened:
        return blocks.read_header(opened.read(2 * max(blocks.SIZES)))
