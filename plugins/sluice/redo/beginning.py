"""Whether a program that begins again reads everything that its stream needs. No I/O.

OpenLogReplicator leaves out transactions that began before the redo with which it begins. If it continues from its
checkpoints, nothing is missing: they have the beginning of the oldest open transaction. Without them it begins with the
schema checkpoint of the configuration. If the stream began with the same one, nothing is missing either: everything
comes again.
"""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class StreamContent:
    """The contents of a stream."""

    begins: int
    """The SCN at its beginning."""
    incarnations: Collection[int]
    """RESETLOGS_ID of each incarnation whose redo is in it."""


def lacks(content: StreamContent, resetlogs: int, incarnation_begins: int, since: int, begins: int) -> str:
    """Why the stream misses something of a thread that is read from the SCN `begins` on; empty if it does not.

    `incarnation_begins`: the first SCN of the thread's incarnation `resetlogs`. `since`: the first SCN of an instance
    that was added, 0 for others.
    """
    needed = max(since, content.begins if resetlogs in content.incarnations else incarnation_begins)
    if begins <= needed:
        return ""
    return (
        f"its OpenLogReplicator has no checkpoint, here or in Redis, and would begin with SCN {begins}, that of "
        f"redo.schema. The stream needs the redo from SCN {needed} on: what was committed in between, or began in "
        "between, would be lost. Put the checkpoints back (redo.work), or a schema checkpoint that is not above that "
        "SCN, with the logs behind it"
    )
