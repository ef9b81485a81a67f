"""Watches in the triggerer for the folder of an initial update at the slave."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice import config
from sluice.airflow import connections, transfer_form
from sluice.airflow.deferral_guard import wait_until
from sluice.configuration.placement import Placement
from sluice.errors import SluiceError
from sluice.load.load_ownership import LoadEnded
from sluice.load.transfer import transfer_steps
from sluice.load.update import SlaveAlone
from sluice.model.location import Location
from sluice.storage.opening import open_folder

POLL_SECONDS = 3.0
SLOW_FACTOR = 20.0
"""A look that takes a second, such as that at a hundred thousand objects, is repeated after 20."""
SLAVE_SECONDS = 30.0
"""How often BLOCKS is asked whether the slave's own machine has imported the folder."""


class ArrivalTrigger(BaseTrigger):
    """Fires when the files may be there: the folder has changed, and is then the same at two looks; or the slave has
    imported it, or does not wait any more.

    `seen`: the folder's fingerprint when its files were last checked. Only a listing is read here; the task reads the
    files. Outages are waited for.
    """

    def __init__(self, prefix: str, slave: str, update: str, folder: str, seen: str, earliest: float = 0.0):
        super().__init__()  # type: ignore[no-untyped-call]
        self.values: dict[str, Any] = {
            "prefix": prefix, "slave": slave, "update": update, "folder": folder, "seen": seen, "earliest": earliest,
        }  # fmt: skip
        self._problem = ""

    def serialize(self) -> tuple[str, dict[str, object]]:
        return "sluice.airflow.arrival_trigger.ArrivalTrigger", dict(self.values)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        before, asked = self.values["seen"], float("-inf")
        while True:
            began = time.monotonic()
            try:
                now = await asyncio.to_thread(self._fingerprint)
                arrived = bool(now) and now == before != self.values["seen"]
                before = now
                if not arrived and time.monotonic() >= asked + SLAVE_SECONDS:
                    asked = time.monotonic()
                    arrived = not await asyncio.to_thread(self._waits)
                if arrived:
                    await wait_until(self.values["earliest"])
                    yield TriggerEvent({})  # type: ignore[no-untyped-call]
                    return
            except SluiceError as problem:
                self._say(str(problem))
            await asyncio.sleep(max(POLL_SECONDS, SLOW_FACTOR * (time.monotonic() - began)))

    def _fingerprint(self) -> str:
        access = transfer_form.access(config.load(self.values["prefix"]))
        return open_folder(Location.parse(self.values["folder"]), access).fingerprint()

    def _waits(self) -> bool:
        """Whether files are left to import by this update."""
        replication = config.load(self.values["prefix"])
        slave = replication.slave(self.values["slave"])
        info = connections.info(slave.conn_id, slave.vendor, str(replication.source))
        target = SlaveAlone(replication.prefix, slave, info, self.values["update"], Placement())
        try:
            return bool(transfer_steps.left_to_import(target))
        except (LoadEnded, transfer_steps.NothingExported):
            return False

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self.log.warning("%s → %s: waiting: %s", self.values["prefix"], self.values["slave"], problem)
