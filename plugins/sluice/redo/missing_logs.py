"""What is said of an archived log that is missing: which it is, and how it comes back. Pure."""

import re

_GAP = re.compile(r"for seq: (?P<wanted>\d+), found: (?P<found>\d+)")


def explained(thread: int, said: str) -> str:
    """What a person must know. `said`: OpenLogReplicator's words of a log that it waits for."""
    gap = _GAP.search(said)
    if gap is None:
        return said
    wanted, last = int(gap["wanted"]), int(gap["found"]) - 1
    one = wanted == last
    it = "it" if one else "them"
    what = f"log {wanted}" if one else f"logs {wanted} to {last}"
    sequences = f"SEQUENCE {wanted}" if one else f"FROM SEQUENCE {wanted} UNTIL SEQUENCE {last}"
    return (
        f"{what} of thread {thread} {'is' if one else 'are'} not there, and later ones are. Where the master has "
        f"deleted {it}, run in RMAN: RESTORE ARCHIVELOG {sequences} THREAD {thread}; where no "
        f"backup has {it} either, these changes are lost: begin a new stream and load the slaves anew"
    )
