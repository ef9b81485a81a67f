"""Sluice's errors as Airflow understands them: a Terminal one ends the task, a Transient one is tried again."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.errors import Terminal, Transient

log = logging.getLogger("sluice.airflow")

UNFORESEEN_TRIES = 3
"""How often a task is tried whose error nobody foresaw."""
SAID = "The reason is in the line above."
"""Text of Airflow's exception, whose log follows ours: the reason is told once."""
XCOM_KEY = "failure"
"""Where a task leaves why it failed, for the task that settles the update."""


@contextmanager
def as_airflow(context: Context) -> Iterator[None]:
    """Around the body of every task."""
    try:
        yield
    except Terminal as error:
        _leave(context, str(error))
        # Of what was raised on purpose the message says all; Airflow would print the traceback of every cause.
        raise AirflowFailException(SAID) from None
    except Transient as error:
        _leave(context, str(error))
        raise AirflowException(SAID) from None
    except Exception as error:
        if type(error).__module__.startswith("airflow."):
            raise  # Airflow's own ways of leaving a task
        text = f"{type(error).__name__}: {error}"
        _leave(context, text)
        if context["ti"].try_number >= UNFORESEEN_TRIES:
            raise AirflowFailException(SAID) from error
        raise AirflowException(SAID) from error


def _leave(context: Context, text: str) -> None:
    """Says it in the task log, above what Airflow logs of the exception, and hands it to the task that settles."""
    log.error("%s", text)
    try:
        context["ti"].xcom_push(key=XCOM_KEY, value=text[:2000])
    except Exception:  # what is to be reported matters more than the report
        return
