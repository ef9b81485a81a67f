"""An initial update of several slaves: one run does the common part, then each slave continues in its own run.

The common run reads the master once: online into all slaves, or into one folder. Until then it does each step for one
slave after another; a slave that fails is left out, INCONSISTENT with the reason. The run of one slave finds these
steps done and continues with approval, import and end. Online, it also loads what the slave did not get, which is
everything if the slave could not be reached.
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
from sluice.airflow.runs import UPDATE_DAG
from sluice.airflow.selection_form import update_of
from sluice.airflow.step import RETRY, step
from sluice.airflow.task_context import UPDATE, TaskContext, listed
from sluice.coordination.records import Status
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import steps
from sluice.load.selection import Selection
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.model.joining import run_of
from sluice.model.slave_state import SlaveState

log = logging.getLogger("sluice.airflow")

MEMBERS = "members"
"""XCom key: the slaves for which a step was done."""
AWAITED = "awaited"
"""XCom key: the slaves that could not be reached; runs of their own wait for them."""
AWAY = "away"
"""XCom key of the task check: the only slave did not answer and was not checked."""
TRIES = 4
"""Tries of a step before an unreachable slave is left out."""
POLL_SECONDS = 15.0

Made = TypeVar("Made")


def not_for_several_slaves(reason: str) -> Terminal:
    """The form's choice cannot be done for several slaves in one run."""
    return Terminal(
        f"{reason}; or start a run for each slave, which reads the master for itself. Nothing was touched.",
        code="not-for-several-slaves",
    )


def slaves_incomplete(task: TaskContext, reasons: Mapping[str, str]) -> Terminal:
    """The update is not complete for some of its slaves."""
    listed_reasons = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in reasons.items())
    return Terminal(f"{task}: {listed_reasons}. Start a new initial update of these slaves.", code="slaves-incomplete")


def has_several_slaves(context: Context) -> bool:
    return len(listed(context["params"].get("slave"))) > 1


def check(task: TaskContext) -> None:
    """Raises `not-for-several-slaves`."""
    selection = Selection.from_dict(task.context["params"])
    if selection.partial:
        raise not_for_several_slaves("Several slaves are loaded together with all tables: choose no tables")
    read = selection.read or task.replication.initial.read
    if read == "snapshot" and not transfer_form.by_files(task.context):
        raise not_for_several_slaves(
            "Several slaves are loaded together block by block, not in one snapshot: choose read committed, or "
            "transfer files and a location"
        )


def continues_for_one_slave(context: Context) -> bool:
    """Whether the run continues an update of several slaves for one of them."""
    return bool(context["params"].get(UPDATE))


def members(context: Context) -> list[str]:
    """The slaves for which the last step was done; the first one leads."""
    return _last_left(context, MEMBERS) or list(listed(context["params"].get("slave")))


def awaited(context: Context) -> list[str]:
    """The slaves that could not be reached so far."""
    return _last_left(context, AWAITED)


def _last_left(context: Context, key: str) -> list[str]:
    """The XCom `key` of the last step that was done for each slave."""
    lists = (context["ti"].xcom_pull(task_ids=task_id, key=key) for task_id in ("plan", "create_tables", "begin"))
    return next(([str(name) for name in names] for names in lists if names), [])


def each(task: TaskContext, action: Callable[[TaskContext], Made]) -> dict[str, Made]:
    """Does the step for each slave; results by slave. Of several slaves, those that fail are left out; online, runs of
    their own wait for those that cannot be reached. Raises `no-slave-left`, `no-slave-reachable`, and errors of
    `action`."""
    if task.slave_name is not None:
        return {task.slave_name: action(task)}
    done: dict[str, Made] = {}
    failures: dict[str, str] = {}
    unreached = awaited(task.context)
    ti = task.context["ti"]
    for name in members(task.context):
        one = task.of_slave(name)
        try:
            done[name] = action(one)
        except SluiceError as error:
            outage = isinstance(error, Transient)
            if outage and ti.try_number < TRIES:
                raise
            if outage and not transfer_form.by_files(task.context):
                log.warning("%s: continues in its own run, which awaits it: %s", one, error)
                note_waiting(one, error)
                unreached.append(name)
                continue
            log.error("%s: left out: %s", one, error)
            failures[name] = str(error)
            give_up(one, f"Initial Update failed in {ti.task_id}: {error}")
    if not done and unreached:
        raise Transient(
            f"None of the slaves can be reached: {', '.join(unreached)}. The update waits for them.",
            code="no-slave-reachable",
        )
    if not done:
        raise Terminal(
            "No slave is left: " + "; ".join(f"{name}: {why}" for name, why in failures.items()), code="no-slave-left"
        )
    ti.xcom_push(key=MEMBERS, value=list(done))
    ti.xcom_push(key=AWAITED, value=unreached)
    return done


def note_waiting(task: TaskContext, outage: SluiceError | None) -> None:
    """Shows in pages and `./sluice status` that the update waits for its slave; None: no longer. Never raises."""
    try:
        status = Status(task.redis, task.prefix, task.slave.name)
        last, waits = status.read(), f"Initial update {task.update_id} waits: "
        if outage is not None or str(last.get("message", "")).startswith(waits):
            state = last.get("state") or SlaveState.UNCONFIGURED
            status.note(state, f"{waits}{outage}" if outage else "")
    except SluiceError as error:
        log.warning("%s: %s", task, error)


def give_up(task: TaskContext, reason: str) -> None:
    """Makes the slave INCONSISTENT if this update has begun with it; never raises."""
    try:
        steps.cancel(update_of(task), task.redis, reason)
    except SluiceError as error:
        log.warning("%s: %s", task, error)


@step
def share(task: TaskContext) -> list[dict[str, object]]:
    """For several slaves: lists the runs that continue the update, one for each slave that has the folder, or that was
    not left out."""
    if task.slave_name is not None:
        return []
    conf = {**task.context["params"], UPDATE: task.update_id}
    names = [*members(task.context), *awaited(task.context)]
    if transfer_form.by_files(task.context):
        folder = transfer_form.written(task.context)
        access, key = transfer_form.access(task.replication), transfer_form.key(task.replication)
        names = TransferFolder(folder, access, key).manifest().names
        conf["location"] = str(folder)
    return [{"trigger_run_id": run_of(task.update_id, name), "conf": {**conf, "slave": name}} for name in names]


def unfinished(task: TaskContext, states: Mapping[str, object], reason: str) -> dict[str, str]:
    """The slaves of a run for several that it did not complete, with reasons.

    A slave without its own run is given up for `reason`, unless it was left out before.
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


def each_slave(runs: Any) -> object:
    """A task for each of `runs`, the result of `share`."""
    return EachSlave.partial(
        task_id="each_slave", map_index_template="{{ task.conf['slave'] }}", **RETRY
    ).expand_kwargs(runs)


class EachSlave(TriggerDagRunOperator):
    """Starts the run that continues the update for one slave, and waits for its end."""

    def __init__(self, **kwargs: Any):
        settings = {"trigger_dag_id": UPDATE_DAG, "logical_date": None, "wait_for_completion": True, "deferrable": True,
                    "poke_interval": int(POLL_SECONDS), **kwargs}  # fmt: skip
        super().__init__(**settings)

    def execute_complete(self, context: Context, event: Any) -> None:
        """Airflow calls it when the run has ended. A failed run fails this task for good: a retry would not help."""
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
