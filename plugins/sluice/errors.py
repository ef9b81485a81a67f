"""The two kinds of errors.

`Terminal`: a person must act; Airflow stops retrying. `Transient`: the same call may succeed later; callers retry with
back-off, without limit after a lost connection.

Every message names place, reason and remedy. Subclasses keep values for programs in attributes, and are defined in the
module that raises them.
"""

RESTART_APPLY = "clear the task apply of the DAG cdc_apply"
"""What a person does in Airflow to start an apply again."""


class SluiceError(Exception):
    """Root of all errors Sluice raises on purpose."""


class Terminal(SluiceError):
    """A person must act before another try makes sense."""

    finding = ""
    """The message without the remedy, where that is for an apply that stops; empty where it is the same."""


class DataLost(Terminal):
    """Changes that a slave needs are lost: it becomes INCONSISTENT, and only an initial update helps."""


class Transient(SluiceError):
    """Another try may succeed: an outage, a lock, a lost connection."""
