"""Starts the apply of a pair if none runs."""

import re
from datetime import UTC, datetime

from airflow.providers.standard.operators.trigger_dagrun import DagIsPaused, TriggerDagRunOperator
from airflow.sdk import Context

from sluice import config
from sluice.airflow import applies
from sluice.airflow.failure import as_airflow
from sluice.airflow.runs import is_active
from sluice.airflow.step import RETRY
from sluice.airflow.task_context import listed
from sluice.errors import Terminal

APPLY_DAG = "cdc_apply"


class EnsureApply(TriggerDagRunOperator):
    """Triggers a run of `cdc_apply` for the pair unless one is live.

    Two triggers at the same time do no harm: the second run finds the job of the first one and ends.
    """

    template_fields = ("prefix", "slave")

    def __init__(self, *, prefix: str = "{{ params.prefix }}", slave: str = "{{ params.slave }}", **kwargs: object):
        super().__init__(
            trigger_dag_id=APPLY_DAG, logical_date=None, fail_when_dag_is_paused=True, **{**RETRY, **kwargs}
        )
        self.prefix = prefix
        self.slave = slave

    def execute(self, context: Context) -> None:
        with as_airflow(context):
            if len(listed(self.slave)) > 1:
                self.log.info("Each slave's own run starts its apply.")
                return
            replication = config.load(self.prefix)
            prefix, slave = str(replication.prefix), replication.slave(self.slave).name
            running = applies.live(prefix, slave)
            if running is not None and running.stop_request() is None and is_active(running.owner):
                self.log.info("%s → %s is being applied already: %s, job %s", prefix, slave, running.owner, running.id)
                return
            self.trigger_run_id = run_id(prefix, slave)
            self.conf = {"prefix": prefix, "slave": slave}
            self.log.info("Starting the apply of %s → %s: run %s of %s", prefix, slave, self.trigger_run_id, APPLY_DAG)
            try:
                super().execute(context)
            except DagIsPaused:
                raise Terminal(
                    f"The DAG {APPLY_DAG} is paused, so no apply can start. Unpause it, then clear this task.",
                    code="apply-paused",
                ) from None


def run_id(prefix: str, slave: str) -> str:
    """A new id for a run of `cdc_apply`, in the characters that Airflow allows."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return f"apply_{re.sub('[^A-Za-z0-9_.-]', '-', f'{prefix}_{slave}')}_{now}"
