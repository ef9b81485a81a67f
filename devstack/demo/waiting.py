"""Waits for a condition, and raises when it cannot come true any more."""

import time
from collections.abc import Callable, Sequence

import psycopg

from devstack.demo.events import Events
from devstack.demo.replica import Replica
from devstack.stack import Stack
from sluice.coordination.gate import ERROR
from sluice.errors import SluiceError, Terminal

POLL = 0.1
STUCK = 300.0
"""Seconds without progress after which a wait ends with `demo-stuck`."""
OUTAGE = 60.0
"""Seconds for which `retry` tolerates a server's outage."""


def supervisor_gone(log: object) -> Terminal:
    """The supervisor, which restarts the servers, has ended."""
    return Terminal(
        f"The supervisor of the servers has ended, its log is {log}. Start the demo again.", code="supervisor-gone"
    )


class Waiting:
    """Waits for the demo's steps. `replicas` may grow meanwhile."""

    def __init__(self, stack: Stack, replicas: Sequence[Replica], events: Events) -> None:
        self.stack, self.replicas, self.events = stack, replicas, events

    def until(self, what: str, condition: Callable[[], bool], progress: Callable[[], object]) -> None:
        """Waits until the condition holds. Raises the errors of `raise_failures`, and `demo-stuck` if `progress`
        does not change.
        """
        seen, since = progress(), time.monotonic()
        while not condition():
            self.raise_failures()
            if (now := progress()) != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > STUCK:
                raise Terminal(
                    f"{what} was not reached, and there was no progress for {STUCK:.0f} s. {seen!s}"
                    " The logs of jobs and services are in the folder logs of SLUICE_HOME; the DAG runs are in "
                    "Airflow.",
                    code="demo-stuck",
                )
            time.sleep(POLL)

    def retry(self, action: Callable[[], object], what: str) -> None:
        """Repeats an action while a server restarts. Raises its last error after `OUTAGE` seconds, others at once."""
        deadline = time.monotonic() + OUTAGE
        while True:
            try:
                action()
                return
            except (psycopg.OperationalError, SluiceError) as error:
                if isinstance(error, Terminal) or time.monotonic() > deadline:
                    raise
                self.events.say(f"{what}: {str(error).splitlines()[0]}")
                time.sleep(0.5)

    def raise_failures(self) -> None:
        """Raises `RunFailed`, `demo-gate-closed`, `supervisor-gone`."""
        for replica in self.replicas:
            if failure := replica.update.failure():
                raise failure
            closures = replica.observer.latest.closures
            if fault := next((text for text in closures if text.startswith(f"{ERROR} (")), None):
                raise Terminal(f"The gate of {replica.name} is closed by {fault}", code="demo-gate-closed")
        if self.stack.status().supervisor is None:
            raise supervisor_gone(self.stack.home.log("supervisor"))
