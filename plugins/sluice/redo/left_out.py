"""What OpenLogReplicator reports as left out of its output: whole transactions, and parts of rows.

A transaction whose beginning is not in the redo that it read is left out when it commits. With the flag `INCOMPLETE` in
its configuration it reports this. Where a capture begins, this is expected: rows are read after all such transactions
have ended. Later it is a loss.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sluice.counted import counted
from sluice.redo import checkpoints

FILE = "left_out.json"
"""A file in the folder of the thread for the merge."""
WITHOUT_BEGINNING = 60011
PARTS = frozenset({60001, 60017})
"""A report about pieces of rows that do not fit together: the row is missing."""
_TRANSACTION = re.compile(
    r"scn: (?P<scn>\d+) .*xid: 0x(?P<xid>[0-9a-f]{4}\.[0-9a-f]{3}\.[0-9a-f]{8}) "
    r"flags: \d/(?P<rolled_back>\d)/(?P<system>\d) op: (?P<changes>\d+)"
)


@dataclass(frozen=True)
class Transaction:
    """A transaction that was left out when it was committed."""

    xid: str
    """USN.SLOT.SQN, in decimal numbers."""
    scn: int
    """The SCN of its commit."""
    certain: bool
    """It changed tables that are read. If false, all of its changes may be in redo that was not read."""


@dataclass(frozen=True)
class LeftOut:
    """What was left out of one thread, since its capture began."""

    transactions: int = 0
    scn: int = 0
    """The SCN of the last commit among them."""
    certain: int = 0
    """The SCN of the last one that certainly changed tables that are read."""
    xid: str = ""
    """The XID of that one, or of the last one."""
    parts: int = 0
    """The number of missing rows."""
    part: str = ""
    """The program's message about the last of these."""

    def __bool__(self) -> bool:
        return bool(self.transactions or self.parts)

    def more(self, transactions: Iterable[Transaction]) -> "LeftOut":
        """The same with these; one that is reported again, for example after a restart, counts once."""
        new = [each for each in transactions if each.scn > self.scn]
        if not new:
            return self
        certain = [each for each in new if each.certain]
        last = max(certain or new, key=lambda each: each.scn)
        return replace(
            self,
            transactions=self.transactions + len({each.xid for each in new}),
            scn=max(each.scn for each in new),
            certain=max([self.certain, *(each.scn for each in certain)]),
            xid=last.xid if certain or not self.certain else self.xid,
        )


def transaction(message: str) -> Transaction | None:
    """Reads a message of the program; None if nothing was committed."""
    matched = _TRANSACTION.search(message)
    if matched is None or matched["rolled_back"] != "0":
        return None
    xid = ".".join(str(int(part, 16)) for part in matched["xid"].split("."))
    return Transaction(xid, int(matched["scn"]), matched["changes"] != "0" or matched["system"] != "0")


def lost(incomplete: LeftOut, complete_from: int | None) -> str:
    """Why the stream is not complete; empty if it is. `complete_from`: rows were read only as of that SCN and later;
    None: none were read."""
    if complete_from is None or incomplete.certain <= complete_from:
        return ""
    return (
        f"transaction {incomplete.xid} was committed at SCN {incomplete.certain}, and its beginning is in no redo that "
        f"was read: OpenLogReplicator left it out. Rows were read as of SCN {complete_from} and later, and lack it. "
        f"The slaves must be loaded again: delete {FILE} in the folder of the thread for that"
    )


def explained(incomplete: LeftOut, complete_from: int | None, folder: Path) -> str:
    """The message for people; empty without one. `complete_from`: as for `lost`. `folder`: of the thread."""
    texts = []
    if incomplete.transactions and (complete_from is None or incomplete.scn > complete_from):
        texts.append(
            f"OpenLogReplicator left out {counted(incomplete.transactions, 'transaction')} that began before the redo "
            f"that is read, or in that of another thread; the last one was committed at SCN {incomplete.scn}. Slaves "
            "that initial_update loads from now on have them. Load others as of that SCN or a later one, or compare "
            "them"
        )
    if incomplete.parts:
        texts.append(
            f"OpenLogReplicator left out {counted(incomplete.parts, 'change')} that it could not put together "
            f"({incomplete.part}). Compare the slaves, and repair them"
        )
    return f"{'. '.join(texts)}; then delete {folder / FILE}." if texts else ""


def read(folder: Path) -> LeftOut:
    """Reads the file in the folder of a thread. Raises `OSError`."""
    try:
        return LeftOut(**json.loads((folder / FILE).read_text("utf-8")))
    except FileNotFoundError:
        return LeftOut()


def write(folder: Path, incomplete: LeftOut) -> None:
    """Writes the file durably. Raises `OSError`."""
    checkpoints.write(folder, FILE, asdict(incomplete))
