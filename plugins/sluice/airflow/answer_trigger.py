"""Waits in the triggerer for the answer to a question that an earlier try has put."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.triggers.base import TriggerEvent

SETTLE_SECONDS = 15.0
"""By then the scheduler knows that the task is deferred: it takes a task that continues earlier for failed."""


class AnswerTrigger(HITLTrigger):
    """Fires when the question is answered, at the earliest after `SETTLE_SECONDS`."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "sluice.airflow.answer_trigger.AnswerTrigger", super().serialize()[1]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(SETTLE_SECONDS)
        async for event in super().run():
            yield event
