"""An initial update of several slaves: what one run does for all of them, and the runs in which each goes on.

The run of the list reads the master once, into one folder. Up to there it takes each step for one slave after another;
a slave that fails is left out, INCONSISTENT with the reason. From the folder on each slave has a run of its own, which
finds the steps before done: its approval, its import, its end are its own business.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.triggers.external_task import DagStateTrigger
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.airflow import transfer_form
from sluice.airflow.failure import as_airflow
from sluice.airflow.runs import UPDATE_DAG, run_of
from sluice.airflow.selection_form import update_of
from sluice.airflow.step import RETRY, step
from sluice.airflow.task_context import UPDATE, TaskContext, listed
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import steps
from sluice.load.selection import Selection
from sluice.load.transfer.transfer_folder import TransferFolder

log = logging.getLogger("sluice.airflow")

MEMBERS = "members"
"""XCom key: the slaves that a step was done for."""
TRIES = 4
"""A slave that cannot be reached is left out after so many tries of a step."""
POLL_SECONDS = 15.0

Made = TypeVar("Made")


class NeedsFiles(Terminal):
    """Several slaves, and the content is to go over the wire."""

    def __init__(self) -> None:
        super().__init__(
            "Several slaves are served by one export of all tables, which travels as files: choose transfer files and "
            "a location, and no tables; or start a run for each slave, which reads the master for itself. Nothing was "
            "touched."
        )


class NoSlaveLeft(Terminal):
    """A step failed for every slave."""

    def __init__(self, failures: Mapping[str, str]):
        super().__init__("No slave is left: " + "; ".join(f"{name}: {why}" for name, why in failures.items()))


class SlavesMissing(Terminal):
    """The update is not complete for some of its slaves."""

    def __init__(self, task: TaskContext, reasons: Mapping[str, str]):
        listed_reasons = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in reasons.items())
        super().__init__(f"{task}: {listed_reasons}. Start a new initial update of these slaves.")
        self.slaves = tuple(reasons)


def has_several_slaves(context: Context) -> bool:
    """Whether the run is for several slaves."""
    return len(listed(context["params"].get("slave"))) > 1


def whole(context: Context) -> bool:
    """Whether all tables are chosen."""
    return not Selection.from_dict(context["params"]).partial


def continues_for_one_slave(context: Context) -> bool:
    """Whether the run goes on for one slave with what a run for several has begun."""
    return bool(context["params"].get(UPDATE))


def members(context: Context) -> list[str]:
    """The slaves that got through the last step; the first one leads."""
    ti = context["ti"]
    for task_id in ("plan", "create_tables", "begin"):
        found = ti.xcom_pull(task_ids=task_id, key=MEMBERS)
        if found:
            return [str(name) for name in found]
    return list(listed(context["params"].get("slave")))


def each(task: TaskContext, action: Callable[[TaskContext], Made]) -> dict[str, Made]:
    """Does the step for each slave. Of several, those that fail are left out. Raises `NoSlaveLeft`, and what a single
    one raises."""
    if task.slave_name is not None:
        return {task.slave_name: action(task)}
    done: dict[str, Made] = {}
    failures: dict[str, str] = {}
    ti = task.context["ti"]
    for name in members(task.context):
        one = task.of_slave(name)
        try:
            done[name] = action(one)
        except SluiceError as error:
            if isinstance(error, Transient) and ti.try_number < TRIES:
                raise
            log.error("%s: left out: %s", one, error)
            failures[name] = str(error)
            give_up(one, f"Initial Update failed in {ti.task_id}: {error}")
    if not done:
        raise NoSlaveLeft(failures)
    ti.xcom_push(key=MEMBERS, value=list(done))
    return done


def give_up(task: TaskContext, reason: str) -> None:
    """The slave is INCONSISTENT, if this update has begun with it; never raises."""
    try:
        steps.cancel(update_of(task), task.redis, reason)
    except SluiceError as error:
        log.warning("%s: %s", task, error)


def others(context: Context) -> list[str]:
    """The slaves beside the one that leads."""
    return members(context)[1:]


@step
def share(task: TaskContext) -> list[dict[str, Any]]:
    """Where the update is for several slaves: lists the runs in which it goes on, one for each that has the folder."""
    if task.slave_name is not None:
        return []
    params, folder = dict(task.context["params"]), transfer_form.written(task.context)
    names = (
        TransferFolder(folder, transfer_form.access(task.replication), transfer_form.key(task.replication))
        .manifest()
        .names
    )
    return [
        {
            "trigger_run_id": run_of(task.update_id, name),
            "conf": {**params, "slave": name, "location": str(folder), UPDATE: task.update_id},
        }
        for name in names
    ]


def unfinished(task: TaskContext, states: Mapping[str, Any], reason: str) -> dict[str, str]:
    """Of a run for several slaves those that it did not bring to the end, and why.

    A slave that has no run of its own is given up, for `reason` where it was not left out before.
    """
    ti = task.context["ti"]
    runs = {entry["conf"]["slave"]: index for index, entry in enumerate(ti.xcom_pull(task_ids="share") or [])}
    reasons: dict[str, str] = {}
    for name in task.slave_names:
        if name not in runs:
            reasons[name] = "was left out, see the log"
            give_up(task.of_slave(name), reason)
            continue
        state = next((str(state) for key, state in states.items() if _is(key, runs[name])), "None")
        if state != "success":
            reasons[name] = f"its run {run_of(task.update_id, name)} ended in {state}"
    return reasons


def _is(key: str, index: int) -> bool:
    return key in (f"each_slave_{index}", f"each_slave[{index}]")


def each_slave(runs: Any) -> Any:
    """A task for each of `runs`, what `share` gives."""
    return EachSlave.partial(
        task_id="each_slave", map_index_template="{{ task.conf['slave'] }}", **RETRY
    ).expand_kwargs(runs)


class EachSlave(TriggerDagRunOperator):
    """Starts the run in which the update goes on for one slave, and waits for its end."""

    def __init__(self, **kwargs: Any):
        settings = {"trigger_dag_id": UPDATE_DAG, "logical_date": None, "wait_for_completion": True, "deferrable": True,
                    "poke_interval": int(POLL_SECONDS), **kwargs}  # fmt: skip
        super().__init__(**settings)

    def execute_complete(self, context: Context, event: Any) -> None:
        """The run is over. One that failed does not succeed by being waited for again."""
        try:
            super().execute_complete(context, event)
        except AirflowException as failed:
            raise AirflowFailException(str(failed)) from failed

    def execute(self, context: Context) -> None:
        with as_airflow(context):
            run_id = str(self.trigger_run_id)
            if context["ti"].get_dr_count(dag_id=UPDATE_DAG, run_ids=[run_id]) == 0:
                super().execute(context)
            states = [*self.allowed_states, *self.failed_states]
            trigger = DagStateTrigger(dag_id=UPDATE_DAG, states=states, run_ids=[run_id], poll_interval=POLL_SECONDS)
            self.defer(trigger=trigger, method_name="execute_complete")
