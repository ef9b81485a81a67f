"""Counts the changes that the master has captured, over time."""

import threading
import time

import psycopg

from devstack.demo.accounts import DATABASE, PREFIX, SCHEMA
from devstack.postgres import PostgresServer
from sluice.vendors.postgres.connection import quoted

INTERVAL = 0.5
INSERTED = "SELECT pg_stat_get_tuples_inserted(%s::regclass)"
ITEMS = quoted(SCHEMA, PREFIX.lower() + "items")
"""All captured changes, those of rolled-back transactions included."""


class Captured(threading.Thread):
    """Samples until stopped. It reconnects after restarts of the master."""

    def __init__(self, master: PostgresServer) -> None:
        super().__init__(name="captured", daemon=True)
        self._master = master
        self._stopping = threading.Event()
        self._samples: list[tuple[float, int]] = []

    def run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            try:
                with self._master.connect(DATABASE) as connection:
                    while not self._stopping.wait(INTERVAL):
                        row = connection.execute(INSERTED, [ITEMS]).fetchone()
                        self._samples.append((time.monotonic(), int(row[0]) if row else 0))
            except psycopg.Error:  # not installed yet, or the master restarts
                continue

    def stop(self) -> None:
        self._stopping.set()

    @property
    def any(self) -> bool:
        """Whether capture has begun."""
        return bool(self._samples)

    def rate(self, began: float, ended: float) -> float:
        """Returns the changes a second between two times of `time.monotonic`."""
        samples = [sample for sample in list(self._samples) if began <= sample[0] <= ended]
        if len(samples) < 2:
            return 0.0
        return (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])
