"""What a task does about the job that already runs for its pair, if any."""

from enum import StrEnum

from sluice.airflow.job import Owner


class Takeover(StrEnum):
    """The ways a task can begin."""

    LAUNCH = "launch"
    """Nothing runs: launch a job."""
    REATTACH = "reattach"
    """Our job survived whatever ended the last try: watch it again."""
    REPLACE = "replace"
    """Its end was asked for, or a person cleared the task: wait for its end, then launch."""
    ADOPT = "adopt"
    """It outlived its run: watch it from here."""
    LEAVE = "leave"
    """A live run watches it: there is nothing to do."""


def decide_takeover(mine: Owner, live: Owner | None, stopping: bool, watched: bool, adopts: bool) -> Takeover:
    """`live` owns the running job, `stopping`: its end was asked for, `watched`: its run is still active.

    `adopts`: jobs of this kind may change their run. An apply may; a load belongs to its update.
    Clearing a deferred task starts the next try before the triggerer stops the old job; the raised
    `max_tries` tells that from a retry after an accident.
    """
    if live is None:
        return Takeover.LAUNCH
    if stopping:
        return Takeover.REPLACE
    if live.same_task(mine):
        cleared = mine.max_tries > live.max_tries and mine.try_number > live.try_number
        return Takeover.REPLACE if cleared else Takeover.REATTACH
    if watched:
        return Takeover.LEAVE
    return Takeover.ADOPT if adopts else Takeover.REPLACE
