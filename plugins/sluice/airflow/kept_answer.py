"""Questions to people whose answer outlives a retry of the task that asks."""

from collections.abc import Mapping

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.hitl import get_hitl_detail_content_detail


class KeepsAnswer(HITLOperator):
    """Asks nobody a second time who has answered.

    An answer may come before the scheduler has heard that the task waits, such as a script's. The scheduler then takes
    the task for failed and tries it again, and Airflow's own operator would forget the answer and ask anew. A person
    who clears the task is asked anew.
    """

    def execute(self, context: Context) -> object:
        given = self._given(context)
        if given is None:
            return super().execute(context)
        self.log.info("This was answered before the task was tried again.")
        return self.execute_complete(context, dict(given))

    def _given(self, context: Context) -> Mapping[str, object] | None:
        """The answer to an earlier try, as the operator's trigger gives it."""
        ti = context["ti"]
        cleared = ti.max_tries != self.retries
        if ti.try_number == 1 or cleared:
            return None
        try:
            found = get_hitl_detail_content_detail(ti.id)
        except AirflowRuntimeError:  # the earlier try has not asked
            return None
        if not found.response_received:
            return None
        user = found.responded_by_user
        return {
            "chosen_options": found.chosen_options,
            "params_input": found.params_input,
            "responded_at": found.responded_at,
            "responded_by_user": user and {"id": user.id, "name": user.name},
        }


class KeepsApproval(KeepsAnswer, ApprovalOperator):
    """An approval, or a rejection that skips what follows."""
