"""Waiting, and knowing when it is in vain."""

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
"""Seconds without any progress after which a wait is given up."""
OUTAGE = 60.0
"""Seconds for which a server may be away while something is asked of it."""


class Stuck(Terminal):
    """Something that should have come about did not, and nothing moves."""

    def __init__(self, what: str, state: str) -> None:
        super().__init__(
            f"{what} did not come about, and nothing has moved for {STUCK:.0f} s. {state}"
            " The logs of jobs and services are in the folder logs of SLUICE_HOME; the DAG runs are in Airflow."
        )


class GateClosed(Terminal):
    """The apply stopped at something that a person must decide."""

    def __init__(self, slave: str, closure: str) -> None:
        self.slave = slave
        super().__init__(f"The gate of {slave} is closed by {closure}")


class SupervisorGone(Terminal):
    """Nobody starts the servers again."""

    def __init__(self, log: object) -> None:
        super().__init__(f"The supervisor of the servers is gone, its log is {log}. Start the demo again.")


class Waiting:
    """Waits on behalf of the demo. `replicas` may grow while it waits."""

    def __init__(self, stack: Stack, replicas: Sequence[Replica], events: Events) -> None:
        self.stack, self.replicas, self.events = stack, replicas, events

    def until(self, what: str, condition: Callable[[], bool], progress: Callable[[], object]) -> None:
        """Until it holds. Raises what `raise_failures` raises, and `ExecutorStuck` where `progress` stays the same."""
        seen, since = progress(), time.monotonic()
        while not condition():
            self.raise_failures()
            if (now := progress()) != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > STUCK:
                raise Stuck(what, str(seen))
            time.sleep(POLL)

    def insist(self, action: Callable[[], object], what: str) -> None:
        """Do something that may meet a server just restarting; the last error comes out after a while."""
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
