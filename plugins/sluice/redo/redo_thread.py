"""A redo thread of a master, and where its files are."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.configuration.redo import RedoOptions
from sluice.model.vendors import DESCRIPTION_FILE
from sluice.redo import blocks


@dataclass(frozen=True)
class RedoThread:
    """Of one incarnation of the master."""

    resetlogs: int
    number: int
    """V$THREAD.THREAD#."""
    spool: Path
    """What was received, and the newest schema checkpoint: where the merge reads."""
    work: Path
    logs: Path

    @classmethod
    def of(cls, options: RedoOptions, location: Path, resetlogs: int, number: int) -> "RedoThread":
        """As it is configured. `location`: of the replication."""
        name = f"{resetlogs}_{number}"
        work, logs = Path(options.work or location / "work"), Path(options.logs or location / "logs")
        return cls(resetlogs, number, location / "threads" / name, work / name, logs / name)

    def __str__(self) -> str:
        return f"{self.resetlogs}_{self.number}"

    @property
    def state(self) -> Path:
        """The program's checkpoints."""
        return self.work / "state"

    @property
    def swap(self) -> Path:
        """Transactions that the program does not keep in memory. At its start it deletes all that it finds there."""
        return self.work / "swap"

    @property
    def configuration(self) -> Path:
        return self.work / "program.json"

    @property
    def program_log(self) -> Path:
        return self.work / "program.log"

    def logs_here(self) -> set[int]:
        """Sequences of the archived logs that lie where the program reads."""
        return {sequence for sequence, _ in self._files()}

    def first_log(self, scn: int) -> int | None:
        """The sequence of the log with which reading begins so that no commit above `scn` is left out.

        It has that SCN in it, or is the first of a thread that was not there then. None while it is not there.
        """
        for sequence, file in sorted(self._files()):
            try:
                with file.open("rb") as opened:
                    header = blocks.read_header(opened.read(2 * max(blocks.SIZES)))
            except (OSError, blocks.NotRedo):
                continue
            ends = header.next_scn
            if (header.first_scn <= scn and (ends is None or scn < ends)) or (sequence == 1 and header.first_scn > scn):
                return sequence
        return None

    def since(self) -> int:
        """The SCN with which a thread joins that was not read from the beginning; 0 for others."""
        try:
            return int(json.loads((self.spool / DESCRIPTION_FILE).read_text("utf-8")).get("since", 0))
        except (OSError, ValueError, AttributeError):
            return 0

    def _files(self) -> Iterator[tuple[int, Path]]:
        for file in self.logs.glob(f"*/{self.number}_*_{self.resetlogs}.*"):
            parts = file.stem.split("_")
            if len(parts) == 3 and parts[1].isdigit():
                yield int(parts[1]), file
