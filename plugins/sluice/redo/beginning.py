"""Whether a program that begins anew still reads all that its stream needs. Pure.

OpenLogReplicator leaves out transactions that began before the redo with which it begins. One that goes on from its
checkpoints lacks nothing: they say where the oldest open transaction began. Without them it begins with the schema
checkpoint of the configuration. The stream that it began with that same one lacks nothing either: all comes again.
"""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Held:
    """What a stream holds."""

    begins: int
    """The SCN with which it begins."""
    incarnations: Collection[int]
    """RESETLOGS_ID of those whose redo is in it."""


def lacks(held: Held, resetlogs: int, incarnation_begins: int, since: int, begins: int) -> str:
    """Why a thread that is read from the SCN `begins` on leaves something out of the stream; empty where it does not.

    `incarnation_begins`: the SCN with which the thread's incarnation `resetlogs` begins. `since`: that of an instance
    that was added, 0 for others.
    """
    needed = max(since, held.begins if resetlogs in held.incarnations else incarnation_begins)
    if begins <= needed:
        return ""
    return (
        f"its OpenLogReplicator has no checkpoint, here or in Redis, and would begin with SCN {begins}, that of "
        f"redo.schema. The stream needs the redo from SCN {needed} on: what was committed in between, or began in "
        "between, would be lost. Put the checkpoints back (redo.work), or a schema checkpoint that is not above that "
        "SCN, with the logs behind it"
    )
