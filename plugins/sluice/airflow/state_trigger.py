"""Waits in the triggerer until the loaded tables of a slave have caught up."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice.airflow import applies, connections
from sluice.airflow.deferral_guard import wait_until
from sluice.airflow.job import Result
from sluice.airflow.task_context import checkpoint_of
from sluice.errors import SluiceError
from sluice.model.checkpoint import Checkpoint
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState

POLL_SECONDS = 2.0
SAY_SECONDS = 30.0


class StateTrigger(BaseTrigger):
    """Fires `{"state", "message"}` once no block decides about the slave's changes any more.

    It waits for the end of an outage of the slave, and logs every half minute why the state has not changed.
    """

    def __init__(self, prefix: str, slave: str, conn_id: str, vendor: str, schema: str, earliest: float = 0.0):
        super().__init__()  # type: ignore[no-untyped-call]
        self.values: dict[str, Any] = {
            "prefix": prefix,
            "slave": slave,
            "conn_id": conn_id,
            "vendor": vendor,
            "schema": schema,
            "earliest": earliest,
        }

    def serialize(self) -> tuple[str, dict[str, object]]:
        return "sluice.airflow.state_trigger.StateTrigger", dict(self.values)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        reported_at = 0.0
        while True:
            problem, checkpoint = await self._read_state()
            state = checkpoint.state if checkpoint else SlaveState.UNCONFIGURED
            if not problem and not (checkpoint and checkpoint.loading):
                message = checkpoint.message if checkpoint else ""
                await wait_until(self.values["earliest"])
                yield TriggerEvent({"state": str(state), "message": message})  # type: ignore[no-untyped-call]
                return
            if time.monotonic() - reported_at >= SAY_SECONDS:
                reported_at = time.monotonic()
                await self._say(problem, checkpoint)
            await asyncio.sleep(POLL_SECONDS)

    async def _read_state(self) -> tuple[str, Checkpoint | None]:
        """An error of the query, or the checkpoint."""
        values = self.values
        try:
            info = await connections.info_async(values["conn_id"], values["vendor"])
            prefix = Prefix(values["prefix"])
            application = f"sluice {prefix} {values['slave']} state"
            return "", await asyncio.to_thread(
                checkpoint_of, info, prefix, values["slave"], values["schema"], application
            )
        except SluiceError as error:
            return str(error), None

    async def _say(self, problem: str, checkpoint: Checkpoint | None) -> None:
        pair = f"{self.values['prefix']} → {self.values['slave']}"
        if problem:
            self.log.warning("%s: waiting: %s", pair, problem)
            return
        assert checkpoint is not None
        applied = checkpoint.position.time if checkpoint.position else "nothing yet"
        note = f", {checkpoint.message}" if checkpoint.message else ""
        self.log.info("%s: %s, applied as of %s%s", pair, checkpoint.state, applied, note)
        try:
            running, ended = await asyncio.to_thread(self._applies)
        except SluiceError as away:
            self.log.warning("%s: %s", pair, away)
            return
        if not running:
            words = f" Its last words: {ended.message}" if ended and ended.message else ""
            self.log.warning(
                "%s: no apply runs, and without one the slave stays %s. Start the DAG cdc_apply for it.%s",
                pair, checkpoint.state, words,
            )  # fmt: skip

    def _applies(self) -> tuple[bool, Result | None]:
        """Whether an apply runs, and how the last one ended. Raises `StoreUnreachable`."""
        pair = self.values["prefix"], self.values["slave"]
        if applies.live(*pair) is not None:
            return True, None
        last = applies.last(*pair)
        return False, last.result() if last is not None else None
