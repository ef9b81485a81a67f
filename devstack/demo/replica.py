"""A slave of the demo: its server, its initial update, its state and its lag."""

import time

from devstack.demo.accounts import PREFIX
from devstack.demo.heartbeat import Beats, LagMeter, percentile
from devstack.demo.observer import Observer
from devstack.demo.report import SlaveFigures
from devstack.demo.view import SlavePicture
from devstack.stack import Stack
from sluice.cli.initial_update import InitialUpdate
from sluice.model.position import Position

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
