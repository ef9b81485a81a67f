"""Translates Sluice's errors for Airflow: a Terminal error fails the task, a Transient one is retried."""

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.errors import Terminal, Transient, labeled
from sluice.log_texts import shown
from sluice.model.mask import without_values
from sluice.paths import home

log = logging.getLogger("sluice.airflow")

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk, of a quota, of a limit on the size of files."""
UNFORESEEN_TRIES = 3
"""Tries of a task that fails with an unexpected error."""
SEE_ABOVE = "The reason is in the line above."
"""Text of Airflow's exception, which Airflow logs below our line with the reason."""
XCOM_KEY = "failure"
"""XCom key: why a task failed. The teardown of an initial update reads it."""


@contextmanager
def as_airflow(context: Context) -> Iterator[None]:
    """Surrounds the body of every task."""
    try:
        yield
    except Terminal as error:
        _report(context, labeled(error))
        # The message says everything; without `from None` Airflow would print the traceback of every cause.
        raise AirflowFailException(SEE_ABOVE) from None
    except Transient as error:
        _report(context, labeled(error))
        raise AirflowException(SEE_ABOVE) from None
    except Exception as error:
        if type(error).__module__.startswith("airflow."):
            raise  # such as TaskDeferred
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            folder = error.filename or home()
            _report(
                context, f"{error.strerror}: {folder}. Make room there; the task is tried again until there is some."
            )
            raise AirflowException(SEE_ABOVE) from None
        _report(context, f"{type(error).__name__}: {shown(error)}", error)
        if context["ti"].try_number >= UNFORESEEN_TRIES:
            raise AirflowFailException(SEE_ABOVE) from None
        raise AirflowException(SEE_ABOVE) from None


def _report(context: Context, text: str, unforeseen: Exception | None = None) -> None:
    """Logs the reason above Airflow's lines about the exception, and pushes it to XCom, both without values of rows.

    Airflow itself would log the causes of its exception as they are.
    """
    log.error("%s", text, exc_info=unforeseen)
    try:
        context["ti"].xcom_push(key=XCOM_KEY, value=without_values(text)[:2000])
    except Exception:  # the error itself matters more than its report
        return
