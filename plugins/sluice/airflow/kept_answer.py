"""Questions to people, whose answer survives a retry of the task."""

from collections.abc import Mapping

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.hitl import get_hitl_detail_content_detail


class KeepsAnswer(HITLOperator):
    """Uses an answer that was given to an earlier try.

    An answer may arrive before the scheduler knows that the task waits, for example from a script. The scheduler then
    takes the task for failed and retries it, and Airflow's own operator would drop the answer and ask again. After a
    person cleared the task, the question is asked again.
    """

    def execute(self, context: Context) -> object:
        given = self._given(context)
        if given is None:
            return super().execute(context)
        self.log.info("This was answered before the task was tried again.")
        return self.execute_complete(context, dict(given))

    def _given(self, context: Context) -> Mapping[str, object] | None:
        """The answer to an earlier try, in the format of the operator's trigger."""
        ti = context["ti"]
        cleared = ti.max_tries != self.retries
        if ti.try_number == 1 or cleared:
            return None
        try:
            detail = get_hitl_detail_content_detail(ti.id)
        except AirflowRuntimeError:  # the earlier try has not asked
            return None
        if not detail.response_received:
            return None
        user = detail.responded_by_user
        return {
            "chosen_options": detail.chosen_options,
            "params_input": detail.params_input,
            "responded_at": detail.responded_at,
            "responded_by_user": user and {"id": user.id, "name": user.name},
        }


class KeepsApproval(KeepsAnswer, ApprovalOperator):
    """An approval; a rejection skips the tasks downstream."""
