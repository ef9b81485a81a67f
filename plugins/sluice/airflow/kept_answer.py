"""Questions to people, whose answer survives a retry of the task."""

import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn
from uuid import UUID

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import TaskAwaitingInput

from sluice.airflow import connections
from sluice.airflow.answer_trigger import AnswerTrigger
from sluice.airflow.failure import as_airflow
from sluice.coordination import redis_store
from sluice.coordination.records import Asked

# Quotes foreign texts in Markdown that Airflow shows, so that nothing in them becomes a link or a heading.


def code(text: str) -> str:
    """The text as inline code."""
    fence = "`" * (_longest_run(text) + 1)
    # A blank line would end the paragraph and with it the code.
    line = " ".join(text.split())
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


log = logging.getLogger("sluice.airflow")

APPROVE, REJECT = "Approve", "Reject"


def answered(event: Mapping[str, Any]) -> tuple[str, bool]:
    """Person, and whether they approved; logs both. `event`: the event of the operator's trigger."""
    user = event.get("responded_by_user") or {}
    who = str(user.get("name") or user.get("id") or "somebody")
    (chosen,) = event["chosen_options"]
    log.info("%s by %s at %s", chosen, who, event["responded_at"])
    return who, chosen == APPROVE


class KeepsAnswer(HITLOperator):
    """Uses an answer that was given to an earlier try.

    An answer may arrive before the scheduler knows that the task waits, for example from a script. The scheduler then
    takes the task for failed and retries it, and Airflow's own operator would put the question again, which drops the
    answer. So a later try only waits for the answer. After a person cleared the task, the question is put again.
    """

    def execute(self, context: Context) -> object:
        ti = context["ti"]
        with as_airflow(context):
            asked = Asked(redis_store.connect(connections.redis_url()), str(ti.id))
            cleared = ti.max_tries != self.retries
            if ti.try_number > 1 and not cleared and asked.noted():
                self.log.info("The question was put before this try. An answer to it counts.")
                self._await_answer(ti.id)
        try:
            return super().execute(context)
        except TaskAwaitingInput:
            with as_airflow(context):
                asked.note()
            raise

    def _await_answer(self, ti_id: UUID) -> NoReturn:
        timeout = datetime.now(UTC) + self.response_timeout if self.response_timeout else None
        trigger = AnswerTrigger(
            ti_id=ti_id, options=self.options, defaults=self.defaults, params=self.serialized_params,
            multiple=self.multiple, timeout_datetime=timeout,
        )  # fmt: skip
        self.defer(trigger=trigger, method_name="execute_complete")


class KeepsApproval(KeepsAnswer, ApprovalOperator):
    """An approval; a rejection skips the tasks downstream."""
