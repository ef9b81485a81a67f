"""The two kinds of failure, and nothing between them.

`Terminal`: a person must act; Airflow stops retrying. `Transient`: the same call may succeed
later; callers retry with back-off, for ever where a lost connection is the reason.

Every message names the place, the reason and the remedy. What a program wants to know is kept
in attributes by the subclasses, each of which lives beside the noun it is about.
"""

RESTART_APPLY = "clear the task apply of the DAG cdc_apply"
"""What a person does in Airflow to start an apply again."""


class SluiceError(Exception):
    """Root of all errors Sluice raises on purpose."""


class Terminal(SluiceError):
    """A person must act before another try makes sense."""


class DataLost(Terminal):
    """What a slave misses cannot be had any more: it becomes INCONSISTENT, and only an initial update helps."""


class Transient(SluiceError):
    """Another try may succeed: an outage, a lock, a lost connection."""
