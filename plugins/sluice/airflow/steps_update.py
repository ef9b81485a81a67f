"""The tasks of an initial update."""

import logging
import time
from collections.abc import Mapping

from airflow.sdk import Context

from sluice.airflow import expected_tables, jobs, multi_slave, preflight_check, transfer_form
from sluice.airflow.failure import XCOM_KEY
from sluice.airflow.job import Kind, Owner
from sluice.airflow.multi_slave import slaves_incomplete
from sluice.airflow.runs import is_active
from sluice.airflow.selection_form import update_of
from sluice.airflow.step import FOR_EVER, NOT_RUN, states_of_run, step, teardown
from sluice.airflow.task_context import TaskContext
from sluice.config import UnknownPrefix
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import UnknownSlave
from sluice.coordination.records import LoadStarted, UsedLocations
from sluice.counted import counted
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import steps
from sluice.load.load_metrics import require_measurable
from sluice.load.load_ownership import LoadEnded, owner_of
from sluice.load.transfer import transfer_steps
from sluice.load.update import Update
from sluice.model.joining import run_of
from sluice.model.slave_state import ForbiddenMove, SlaveState
from sluice.model.table_state import how_to_load

log = logging.getLogger("sluice.airflow")

KILL_SECONDS = 12.0
"""Within this time Airflow has killed a running task that a person marked: a heartbeat and a grace period."""
END_SECONDS = 30.0
"""How long to wait for the end of the load job."""
UNFINISHED = NOT_RUN | {"failed"}
"""States of the task `finish` in an incomplete update."""


def update_not_begun(reason: str) -> Terminal:
    """The update ended before it touched the slave."""
    return Terminal(f"{reason.rstrip('.')}. The slave was not touched.", code="update-not-begun")


@step(**FOR_EVER)  # type: ignore[untyped-decorator]
def begin(task: TaskContext) -> str:
    """Takes over the slave: sets state INITIAL, closes the gate, deletes blocks of earlier updates. If only a part is
    loaded, the slave stays NORMAL and its gate open. Waits without limit for a slave that did not answer before, and
    then checks it first."""
    _await_slave(task)
    begun = multi_slave.each(task, _begin)
    return ", ".join("begun" if each else "gone on" for each in begun.values())


def _await_slave(task: TaskContext) -> None:
    """Does for a slave that did not answer to the task check what that would have done. Raises `NotReady`, `SlaveAway`,
    and as `check_choice`, `require_measurable`."""
    if not _was_away(task.context):
        return
    try:
        preflight_check.require_ready(task, task.slave_names)
    except Transient as outage:
        multi_slave.note_waiting(task, outage)
        raise
    multi_slave.note_waiting(task, None)
    require_measurable(update_of(task))


def _was_away(context: Context) -> bool:
    return bool(context["ti"].xcom_pull(task_ids="check", key=multi_slave.AWAY))


def _begin(task: TaskContext) -> bool:
    update, by = update_of(task), task.person("initial update")
    try:
        return steps.begin(update, task.redis, by=by)
    except ForbiddenMove:
        if not _cancel_abandoned(update, task):
            raise
        return steps.begin(update, task.redis, by=by)


@step
def create_tables(task: TaskContext) -> str:
    """Creates tables that the slave lacks; empties, keeps or refuses existing ones, as configured."""
    created = multi_slave.each(task, lambda one: steps.create_tables(update_of(one)))
    for name, tables in created.items():
        for table in tables:
            log.info("%s → %s: made table %s", task.prefix, name, table)
    return f"{counted(sum(map(len, created.values())), 'table')} made"


@step
def plan(task: TaskContext) -> str:
    """Takes the start position, plans the blocks, opens the gate: state TRANSITION, the apply may begin. With a
    transfer by files the gate stays closed until they have arrived. If only a part is loaded, its tables are loading
    from now on, and nothing waits."""
    # The job that exports takes the blocks of the leading slave.
    for_another = task.slave_name is None and transfer_form.by_files(task.context)
    planned = multi_slave.each(
        task, lambda one: steps.plan(update_of(one), one.redis, _queueing(one), for_another=for_another)
    )
    count = max(planned.values())
    log.info("%s: to be loaded: %s", task, counted(count, "table"))
    return f"{counted(count, 'table')} planned"


def _queueing(task: TaskContext) -> str:
    """Why changes wait while the blocks are read; empty if they do not, as during the load of a part."""
    if update_of(task).selection.partial:
        return ""
    if transfer_form.by_files(task.context):
        return transfer_steps.QUEUEING
    return steps.IN_ONE_SNAPSHOT if update_of(task).options.read == "snapshot" else ""


@step
def make_folder(task: TaskContext) -> str | None:
    """With a transfer by files: creates the folder of this update, named by a unique timestamp."""
    if not transfer_form.by_files(task.context):
        return None
    if multi_slave.continues_for_one_slave(task.context):
        return str(transfer_form.location(task.replication, task.context))
    if task.slave_name is None:
        task = task.of_slave(multi_slave.members(task.context)[0])
    location, s3 = transfer_form.location(task.replication, task.context), transfer_form.access(task.replication)
    UsedLocations(task.redis, task.prefix).add(location)
    transfer_folder = transfer_steps.folder_of(update_of(task), location, s3, transfer_form.key(task.replication))
    log.info("%s: the files go to %s", task, transfer_folder.location)
    return str(transfer_folder.location)


@step
def finish(task: TaskContext) -> str:
    """Creates indexes and unique, check and foreign key constraints, and sets sequences. The apply continues
    meanwhile."""
    done = steps.finish(update_of(task))
    expected_tables.of_slave(task)
    return f"indexes and constraints: {len(done.made)} made, {len(done.left_out)} left out"


@teardown
def settle(context: Context) -> str:
    """Always runs, even after a cancel. If the update is incomplete, it stops the load, leaves the slave
    **INCONSISTENT** with the reason (after the load of a part: only its tables), and fails the run.
    """
    ti, states = context["ti"], states_of_run(context)
    _forget_started_loads(context)
    if states.get("finish") not in UNFINISHED:
        return "complete"
    reason = _reason(context, states)
    if multi_slave.has_several_slaves(context) and states.get("begin") not in NOT_RUN:
        return _settle_list(context, states, reason)
    try:
        task = TaskContext.of(context)
    except (UnknownPrefix, UnknownSlave, ConfigError):
        raise update_not_begun(reason) from None
    begun = states.get("begin")
    if begun in NOT_RUN or (begun != "success" and _was_away(context) and _is_away(task)):
        for name in task.slave_names:
            multi_slave.note_waiting(task.of_slave(name), None)
        raise update_not_begun(reason)
    running = jobs.live(Kind.LOAD, str(task.prefix), task.slave.name)
    if running is not None and running.owner.run_id == ti.run_id:
        running.stop("Airflow", "its initial update is over")
    update = update_of(task)
    canceled = _cancel(update, task, reason)
    if reason.startswith(steps.INTERRUPTED):
        # Airflow kills a task only after it marks it: the step may have gone on for a moment.
        time.sleep(KILL_SECONDS)
        canceled = _cancel(update, task, reason) or canceled
    if running is not None and running.owner.run_id == ti.run_id:
        running.await_end(END_SECONDS)
    steps.end_sessions(update)
    raise Terminal(f"{update}: {reason.rstrip('.')}. {_left(task, canceled)}.", code="update-incomplete")


def _is_away(task: TaskContext) -> bool:
    """Whether the slave still does not answer, so that this update has not begun with it."""
    try:
        task.checkpoint(task.slave)
    except Transient:
        return True
    return False


def _forget_started_loads(context: Context) -> None:
    """Pages and notices no longer say that this run loads tables."""
    try:
        task = TaskContext.of(context)
        for name in task.slave_names:
            LoadStarted(task.redis, task.prefix, name).over(context["run_id"])
    except SluiceError as error:
        log.warning("%s", error)


def _settle_list(context: Context, states: Mapping[str, object], reason: str) -> str:
    task = TaskContext.of(context)
    running = jobs.live(Kind.LOAD, str(task.prefix), multi_slave.members(context)[0])
    if running is not None and running.owner.run_id == context["ti"].run_id:
        running.stop("Airflow", "its initial update is over")
    reasons = multi_slave.unfinished(task, states, reason)
    if reasons:
        raise slaves_incomplete(task, reasons)
    return "complete"


def _cancel(update: Update, task: TaskContext, reason: str) -> bool:
    try:
        return steps.cancel(update, task.redis, reason)
    except LoadEnded as owned:
        log.info("%s: nothing to cancel: %s", task, owned)
        return False


def _cancel_abandoned(update: Update, task: TaskContext) -> bool:
    """Cancels an update without a run: its run was deleted, or Airflow's database was lost."""
    with task.at(task.slave) as slave:
        owner = owner_of(update, slave)
    dag_id = task.context["ti"].dag_id
    if owner is None:
        return False
    runs = [owner.update_id, run_of(owner.update_id, task.slave.name)] if owner.update_id else []
    if any(is_active(Owner(dag_id, run, "begin")) for run in runs):
        return False
    log.warning("%s: initial update %s is under way and no run drives it; it is canceled", task, owner.update_id)
    return steps.cancel(update, task.redis, "Initial Update abandoned: its run is gone", any_update=True)


def _left(task: TaskContext, canceled: bool) -> str:
    """The result for the slave, and what to do about it."""
    checkpoint = task.checkpoint(task.slave)
    state = checkpoint.state if checkpoint else SlaveState.UNCONFIGURED
    if checkpoint and state is SlaveState.NORMAL and checkpoint.tables:
        missing = how_to_load(task.prefix, task.slave.name, list(checkpoint.tables)).rstrip(".")
        return f"The slave is NORMAL without these tables; everything else continues. {missing}"
    if canceled and state is SlaveState.NORMAL:
        return "The slave is NORMAL with the tables that it had"
    if canceled:
        return f"The slave is {SlaveState.INCONSISTENT}: start a new initial update"
    if state is SlaveState.NORMAL:
        return "The slave is NORMAL. Should indexes or constraints be missing, clear the task finish"
    return f"This update did not touch the slave, which is {state}"


def _reason(context: Context, states: Mapping[str, object]) -> str:
    """Which task ended the update, and why, in one sentence."""
    ti = context["ti"]
    failed = next((name for name, state in states.items() if str(state) == "failed" and name != ti.task_id), None)
    if failed is None:
        return steps.INTERRUPTED
    given = ti.xcom_pull(task_ids=failed, key=XCOM_KEY)
    if given and given.startswith(steps.INTERRUPTED):
        return str(given)
    return f"Initial Update failed in {failed}: {given}" if given else f"{steps.INTERRUPTED} in {failed}"
