"""Decides what a task does about the running job of its pair, if there is one."""

from enum import StrEnum

from sluice.airflow.job import Owner


class Takeover(StrEnum):
    LAUNCH = "launch"
    """No job runs: launch one."""
    REATTACH = "reattach"
    """The job of an earlier try still runs: watch it again."""
    REPLACE = "replace"
    """The job is ending, or a person cleared the task: wait for its end, then launch another one."""
    ADOPT = "adopt"
    """The job outlived its run: watch it from now on."""
    LEAVE = "leave"
    """Another live run watches the job: do nothing."""


def decide_takeover(own: Owner, live: Owner | None, stopping: bool, watched: bool, adopts: bool) -> Takeover:
    """`live` owns the running job. `stopping`: its end was requested. `watched`: its run is still active.

    `adopts`: jobs of this kind may change their run. An apply may; a load belongs to its update. Clearing a deferred
    task starts the next try before the triggerer stops the old job; a raised `max_tries` tells this from a retry after
    a crash.
    """
    if live is None:
        return Takeover.LAUNCH
    if stopping:
        return Takeover.REPLACE
    if live.same_task(own):
        cleared = own.max_tries > live.max_tries and own.try_number > live.try_number
        return Takeover.REPLACE if cleared else Takeover.REATTACH
    if watched:
        return Takeover.LEAVE
    return Takeover.ADOPT if adopts else Takeover.REPLACE
