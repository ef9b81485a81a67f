"""The two kinds of errors.

`Terminal`: a person must act; Airflow stops retrying. `Transient`: the same call may succeed later; callers retry with
back-off, without limit after a lost connection.

Every message names place, reason and remedy, and every error has a code (docs/errors.md): of an error that is made of
`Terminal` or `Transient` it is given beside the text, of a subclass it is the name of the class. A class of its own has
what some caller catches by name; its values for programs are attributes.
"""

import re

RESTART_APPLY = "clear the task apply of the DAG cdc_apply"
"""What a person does in Airflow to start an apply again."""


class SluiceError(Exception):
    """Root of all errors Sluice raises on purpose.

    `code` names the reason for logs, pages and tests. It is empty if an error of a root class was given none.
    """

    code = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ != __name__:  # the kinds of this file name no reason
            cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()

    def __init__(self, *texts: object, code: str = "") -> None:
        super().__init__(*texts)
        if code:
            self.code = code


class Terminal(SluiceError):
    """A person must act before another try makes sense."""

    finding = ""
    """The message without the remedy, where that is for an apply that stops; empty if it is the same."""

    @property
    def reason_left_out(self) -> str:
        """Why a table is left out while the apply continues: it needs a load, not another start of the apply."""
        return (self.finding or str(self)).replace(RESTART_APPLY, "load the table again").rstrip(".")


class DataLost(Terminal):
    """Changes that a slave needs are lost: it becomes INCONSISTENT, and only an initial update helps."""


class Transient(SluiceError):
    """Another try may succeed: an outage, a lock, a lost connection."""


_LABELED = re.compile(r" \[[a-z0-9-]+\]$")


def continued(text: str, more: str) -> str:
    """The text with another sentence, before its code."""
    code = _LABELED.search(text)
    return f"{_LABELED.sub('', text).rstrip('.')}. {more}{code[0] if code else ''}"


def labeled(error: SluiceError) -> str:
    """The text with the code, as a person finds it in docs/errors.md. A text that ends with a code stays."""
    text = str(error)
    return f"{text} [{error.code}]" if error.code and not _LABELED.search(text) else text
