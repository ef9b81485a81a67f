"""Waits for a condition, and raises when it cannot come true any more."""

import time
from collections.abc import Callable, Sequence

import psycopg

from devstack.demo.accounts import PREFIX
from devstack.demo.events import Events
from devstack.demo.heartbeat import Beats, LagMeter, percentile
from devstack.demo.observer import Observer
from devstack.demo.report import SlaveFigures
from devstack.demo.view import SlavePicture
from devstack.stack import Stack
from sluice.cli.initial_update import InitialUpdate
from sluice.coordination.gate import ERROR
from sluice.errors import SluiceError, Terminal
from sluice.model.position import Position

# A slave of the demo: its server, its initial update, its state and its lag.

RECENT = 30.0
"""Seconds over which the view computes the lag's percentile."""


class Replica:
    """The threads that observe one slave."""

    def __init__(self, name: str, stack: Stack, beats: Beats) -> None:
        self.name = name
        self.info = info = stack.administration(name)
        self.observer = Observer(name, info, stack.redis_url)
        self.meter = LagMeter(info, beats)
        self.update = InitialUpdate(stack.airflow.api(), [name], PREFIX)
        self.joining: tuple[float, float] | None = None
        """When other slaves joined, as times of `time.monotonic`."""

    def start(self) -> None:
        self.observer.start()
        self.meter.start()

    def stop(self) -> None:
        for thread in (self.observer, self.meter, self.update):
            thread.stop()

    def covers(self, position: Position) -> bool:
        """Whether all changes up to the position are applied."""
        seen = self.observer.latest.position
        return seen is not None and not self.observer.latest.catching_up and seen.covers_all_of(position)

    def progress(self) -> object:
        """Returns a text about the slave that changes with every progress. It is shown when there is none."""
        observed, run = self.observer.latest, self.update.latest
        return (
            f"{self.name} is {observed.state} {observed.message!r}, {observed.stored} of {observed.blocks} blocks,"
            f" {observed.changes} changes;"
            f" initial_update {run.state or 'not seen'} {run.task}; cdc_apply {run.apply or 'not seen'};"
            f" gate closed by: {', '.join(observed.closures) or 'nobody'}."
        )

    def picture(self) -> SlavePicture:
        now = time.monotonic()
        changes, rows = self.observer.rates()
        recent = percentile(self.meter.lags(since=now - RECENT), 0.95)
        return SlavePicture(
            self.name, self.observer.latest, self.update.latest, self.meter.now(), recent, changes, rows
        )

    def figures(self, began: float, ended: float) -> SlaveFigures:
        """Returns the figures of the time between `began` and `ended`. Raises Sluice's errors."""
        lags = self.meter.lags(began, ended)
        rows, seconds = self.observer.load_figures()
        watched = self.observer.consistency
        return SlaveFigures(
            name=self.name,
            load_rows=rows,
            load_seconds=seconds,
            lag_p50=percentile(lags, 0.5),
            lag_p95=percentile(lags, 0.95),
            lag_samples=len(lags),
            applied_rate=self.observer.applied_rate(began, ended),
            looks=watched.looks,
            half_transactions=tuple(watched.half_transactions),
            joining_p95=percentile(self.meter.lags(*self.joining), 0.95) if self.joining else None,
        )


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
