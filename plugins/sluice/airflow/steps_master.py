"""The tasks on the master: checking, installing, reconciling."""

import logging

from sluice.airflow import expected_tables, multi_slave, preflight_check, transfer_form
from sluice.airflow.new_tables import announced
from sluice.airflow.selection_form import check_choice, update_of
from sluice.airflow.step import FOR_EVER, step
from sluice.airflow.task_context import TaskContext, listed
from sluice.capture import reconcile as reconciling
from sluice.capture import resources, wildcards
from sluice.capture.plan import Alter
from sluice.capture.reconcile import tables_refused
from sluice.configuration.resolve import ResolvedTable
from sluice.configuration.rule import TablePattern
from sluice.coordination.records import Debugged
from sluice.counted import counted
from sluice.database.registry import master_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load.load_metrics import require_measurable
from sluice.load.selection import Selection
from sluice.load.transfer import transfer_steps
from sluice.model.names import TableName

log = logging.getLogger("sluice.airflow")


@step(**FOR_EVER)  # type: ignore[untyped-decorator]
def check(task: TaskContext) -> None:
    """Reads the configuration, reaches every place in it (master, slave, Redis, the location of files), and proves that
    both accounts have everything they need: it lists all that is lacking at once, with the statements that fix it.
    Measures once what `initial.throttle` limits. With `capture: redo` it waits for transactions of the master that the
    redo lacks. If the slave does not answer, the master is prepared meanwhile, and `begin` awaits and checks the slave.
    Changes nothing."""
    replication = task.replication
    rules = counted(len(replication.tables), "table rule")
    log.info("%s: configured in %s, %s", task, replication.source, rules)
    if len(task.slave_names) > 1:
        multi_slave.check(task)
    task.redis.ping()
    log.info("%s: reached Redis", task)
    away: Transient | None = None
    try:
        preflight_check.require_ready(task, task.slave_names)
    except preflight_check.SlaveAway as outage:
        if Selection.from_dict(task.context["params"]).partial:
            _note_waiting(task, outage)
            raise
        away = outage
        preflight_check.require_ready(task, ())
    except Transient as outage:
        _note_waiting(task, outage)
        raise
    _note_waiting(task, away)
    if away is not None:
        task.context["ti"].xcom_push(key=multi_slave.AWAY, value=True)
        log.warning("%s: the master is prepared, and the slave is awaited before anything is written: %s", task, away)
    elif task.slave_name is not None and "transfer" in task.context["params"]:
        update = update_of(task)
        check_choice(task)
        require_measurable(update)
    if transfer_form.by_files(task.context):
        location = transfer_form.location(task.replication, task.context)
        transfer_form.key_text(replication)
        if not multi_slave.continues_for_one_slave(task.context):
            transfer_steps.probe(location, transfer_form.access(replication))
        log.info("%s: files can be written to %s", task, location)


def _note_waiting(task: TaskContext, outage: SluiceError | None) -> None:
    for name in task.slave_names:
        multi_slave.note_waiting(task.of_slave(name), outage)


@step(task_id="check")  # type: ignore[untyped-decorator]
def check_lightly(task: TaskContext) -> None:
    """Reads the configuration, reaches master, slave and Redis, and warns if the accounts lack something. Changes
    nothing."""
    task.redis.ping()
    preflight_check.warn(task, task.slave_names)


NOTHING_INSTALLED = "nothing: the changes come from the master's log"


@step
def install_resources(task: TaskContext) -> str:
    """Installs or upgrades the DbResources of the prefix on the master. Existing resources stay as they are."""
    if task.replication.master.rows_beside_log:
        return NOTHING_INSTALLED
    with task.master() as master:
        endpoint = task.replication.master
        report = resources.install(master, task.prefix, endpoint.schema, endpoint.cascade)
    return f"version {report.after}, {counted(len(report.files), 'file')} run"


@step
def show_plan(task: TaskContext) -> str:
    """Compares the configured tables with TABLES and prints what will be added, altered, repaired and **removed**. For
    a new table it prints how many rows the slaves lack, and what happens next."""
    planned = _planned(task)
    log.info("The plan for %s", planned)
    return planned


@step
def reconcile(task: TaskContext) -> str:
    """Prints the plan and carries it out: registers tables, creates and removes triggers."""
    replication = task.replication
    if replication.master.rows_beside_log:
        return NOTHING_INSTALLED
    planned = _planned(task)
    log.info("The plan for %s", planned)
    with task.master() as master:
        tables = _wanted(task, master)
        report = reconciling.reconcile(master, task.prefix, replication.master.schema, tables)
        wildcards.note(master, replication)
    expected_tables.of_all(task, tables)
    if report.refused:
        raise tables_refused(task.prefix, report.refused)
    log.info("%s: captured: %s; taken: %s", task, counted(len(tables), "table"), counted(len(report.steps), "step"))
    return planned


@step
def note_debugged(task: TaskContext) -> str:
    """Notes the tables that the form wants debugged for an hour: a line in DEBUG_TABLE for each of their statements.
    Housekeeping ends that."""
    patterns = listed(task.context["params"].get("debug"))
    if not patterns:
        return "none"
    with task.master() as master:
        resolved = task.replication.resolve(task.existing_tables(master))
    chosen = [one.table for one in resolved if any(TablePattern.parse(text).matches(one.table) for text in patterns)]
    if not chosen:
        raise Terminal(
            f"{task}: no replicated table is {' or '.join(patterns)}: there is none to debug.", code="nothing-to-debug"
        )
    Debugged(task.redis, task.prefix).add(chosen)
    return f"debugged for an hour: {', '.join(map(str, chosen))}"


def _wanted(task: TaskContext, master: Session) -> list[ResolvedTable]:
    """The configured tables, with those that are debugged for a while."""
    return Debugged(task.redis, task.prefix).apply(task.replication.resolve(task.existing_tables(master)))


def end_debugging(task: TaskContext, master: Session) -> list[TableName]:
    """Ends the debugging of tables whose time is over; returns them. Looks at Redis only if a table is debugged."""
    endpoint = task.replication.master
    registry = master_of(endpoint.vendor).capture(master, task.prefix, endpoint.schema).registry
    with master.transaction():
        registered = registry.read()
    on = [one for one in registered if one.debug and not getattr(task.replication.rule(one.table), "debug", True)]
    noted = Debugged(task.redis, task.prefix).now() if on else frozenset()
    over = [one for one in on if one.table not in noted]
    steps = [Alter(one.table, one.actions, one.trigger, False, ("debug goes off",)) for one in over]
    reconciling.apply_plan(master, task.prefix, endpoint.schema, steps)
    return [one.table for one in over]


def _planned(task: TaskContext) -> str:
    with task.master() as master:
        tables = _wanted(task, master)
        report = reconciling.propose(master, task.prefix, task.replication.master.schema, tables)
    return "\n".join([str(report), *(f"  {line}" for line in announced(task, report))])
