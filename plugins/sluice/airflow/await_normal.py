"""The task that waits until the apply has made a slave NORMAL."""

from typing import Any, NoReturn

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from sluice import config
from sluice.airflow import asset_events, connections
from sluice.airflow.deferral_guard import earliest_resume
from sluice.airflow.failure import as_airflow
from sluice.airflow.multi_slave import has_several_slaves
from sluice.airflow.state_trigger import StateTrigger
from sluice.airflow.step import FOR_EVER
from sluice.airflow.task_context import checkpoint_of
from sluice.configuration.model import Replication
from sluice.errors import Terminal
from sluice.model.slave_state import SlaveState


def slave_not_normal(replication: Replication, slave: str, state: str, message: str) -> Terminal:
    """The slave ended in another state than NORMAL."""
    detail = f": {message}" if message else ""
    return Terminal(
        f"{replication.prefix} → {slave} is {state}{detail}. Start a new initial update.", code="slave-not-normal"
    )


class AwaitNormal(BaseOperator):
    """Waits in the triggerer until the apply has passed every block's marker: then TRANSITION becomes NORMAL, and
    loading tables become ready."""

    template_fields = ("prefix", "slave")
    ui_color = "#f6f1de"

    def __init__(self, *, prefix: str = "{{ params.prefix }}", slave: str = "{{ params.slave }}", **kwargs: object):
        super().__init__(**{**FOR_EVER, "outlets": [asset_events.NORMAL], **kwargs})
        self.prefix = prefix
        self.slave = slave

    def execute(self, context: Context) -> str:
        if has_several_slaves(context):
            raise AirflowSkipException("Each slave's own run waits for it.")
        with as_airflow(context):
            replication = config.load(self.prefix)
            endpoint = replication.slave(self.slave)
            info = connections.info(endpoint.conn_id, endpoint.vendor, str(replication.source))
            checkpoint = checkpoint_of(
                info, replication.prefix, endpoint.name, endpoint.schema, f"sluice {self.task_id}"
            )
            state = checkpoint.state if checkpoint else SlaveState.UNCONFIGURED
            if checkpoint is not None and checkpoint.loading:
                self._wait(replication)
            return self._judge(context, str(state), checkpoint.message if checkpoint else "")

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """The load has caught up, or was given up."""
        with as_airflow(context):
            return self._judge(context, event["state"], event["message"])

    def _wait(self, replication: Replication) -> NoReturn:
        endpoint = replication.slave(self.slave)
        trigger = StateTrigger(
            str(replication.prefix),
            endpoint.name,
            endpoint.conn_id,
            endpoint.vendor,
            endpoint.schema,
            earliest_resume(),
        )
        self.defer(trigger=trigger, method_name="resume")

    def _judge(self, context: Context, state: str, message: str) -> str:
        replication = config.load(self.prefix)
        if state != SlaveState.NORMAL:
            raise slave_not_normal(replication, self.slave, state, message)
        self.log.info(
            "%s → %s is NORMAL: every reader sees a state that the master had", replication.prefix, self.slave
        )
        asset_events.add_event(context, asset_events.NORMAL, str(replication.prefix), self.slave, {})
        return state
