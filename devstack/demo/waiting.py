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
"""Seconds without progress after which a wait ends with `Stuck`."""
OUTAGE = 60.0
"""Seconds for which `retry` tolerates a server's outage."""


class Stuck(Terminal):
    """A condition does not hold, and there is no progress."""

    def __init__(self, what: str, state: str) -> None:
        super().__init__(
            f"{what} was not reached, and there was no progress for {STUCK:.0f} s. {state}"
            " The logs of jobs and services are in the folder logs of SLUICE_HOME; the DAG runs are in Airflow."
        )


class GateClosed(Terminal):
    """The apply stopped at an error that needs a person's decision."""

    def __init__(self, slave: str, closure: str) -> None:
        super().__init__(f"The gate of {slave} is closed by {closure}")


class SupervisorGone(Terminal):
    """The supervisor, which restarts the servers, has ended."""

    def __init__(self, log: object) -> None:
        super().__init__(f"The supervisor of the servers has ended, its log is {log}. Start the demo again.")


class Waiting:
    """Waits for the demo's steps. `replicas` may grow meanwhile."""

    def __init__(self, stack: Stack, replicas: Sequence[Replica], events: Events) -> None:
        self.stack, self.replicas, self.events = stack, replicas, events

    def until(self, what: str, condition: Callable[[], bool], progress: Callable[[], object]) -> None:
        """Waits until the condition holds. Raises the errors of `raise_failures`, and `Stuck` if `progress` does not
        change.
        """
        seen, since = progress(), time.monotonic()
        while not condition():
            self.raise_failures()
            if (now := progress()) != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > STUCK:
                raise Stuck(what, str(seen))
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
        """Raises `RunFailed`, `GateClosed`, `SupervisorGone`."""
        for replica in self.replicas:
            if failure := replica.update.failure():
                raise failure
            closures = replica.observer.latest.closures
            if fault := next((text for text in closures if text.startswith(f"{ERROR} (")), None):
                raise GateClosed(replica.name, fault)
        if self.stack.status().supervisor is None:
            raise SupervisorGone(self.stack.home.log("supervisor"))
