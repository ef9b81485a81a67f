"""Questions to people, whose answer survives a retry of the task."""

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import TaskAwaitingInput

from sluice.airflow import connections
from sluice.airflow.failure import as_airflow
from sluice.coordination import redis_store
from sluice.coordination.asked import Asked


class KeepsAnswer(HITLOperator):
    """Uses an answer that was given to an earlier try.

    An answer may arrive before the scheduler knows that the task waits, for example from a script. The scheduler then
    takes the task for failed and retries it, and Airflow's own operator would put the question again, which drops the
    answer. So a later try only waits: Airflow resumes it at once if the question was answered. After a person cleared
    the task, the question is put again.
    """

    def execute(self, context: Context) -> object:
        ti = context["ti"]
        with as_airflow(context):
            asked = Asked(redis_store.connect(connections.redis_url()), str(ti.id))
            cleared = ti.max_tries != self.retries
            if ti.try_number > 1 and not cleared and asked.noted():
                self.log.info("The question was put before this try. An answer to it counts.")
                raise TaskAwaitingInput(method_name="execute_complete", timeout=self.response_timeout)
        try:
            return super().execute(context)
        except TaskAwaitingInput:
            with as_airflow(context):
                asked.note()
            raise


class KeepsApproval(KeepsAnswer, ApprovalOperator):
    """An approval; a rejection skips the tasks downstream."""
