"""The tasks on the master: checking, installing, reconciling."""

import logging

from sluice.airflow import preflight_check, transfer_form
from sluice.airflow.multi_slave import NeedsFiles, continues_for_one_slave, whole
from sluice.airflow.new_tables import announced
from sluice.airflow.selection_form import check_choice, update_of
from sluice.airflow.step import step
from sluice.airflow.task_context import TaskContext
from sluice.capture import reconcile as reconciling
from sluice.capture import resources
from sluice.coordination.redis_store import classified
from sluice.counted import counted
from sluice.load.load_metrics import require_measurable
from sluice.load.transfer import transfer_steps

log = logging.getLogger("sluice.airflow")


@step
def check(work: TaskContext) -> None:
    """Reads the configuration, reaches every place it names (master, slave, Redis, the location of files), and proves
    that both accounts have all that is needed: what is lacking is listed at once, with the statements that mend it.
    Measures once what limits of `initial.throttle` are about. Changes nothing."""
    replication = work.replication
    rules = counted(len(replication.tables), "table rule")
    log.info("%s: configured in %s, %s", work, replication.source, rules)
    several = len(work.slave_names) > 1
    if several and not (transfer_form.by_files(work.context) and whole(work.context)):
        raise NeedsFiles
    with classified():
        work.redis.ping()
    log.info("%s: reached Redis", work)
    preflight_check.require_ready(work, work.slave_names)
    if work.slave_name is not None and "transfer" in work.context["params"]:
        update = update_of(work)
        check_choice(work)
        require_measurable(update)
    if transfer_form.by_files(work.context):
        place = transfer_form.location(work.replication, work.context)
        transfer_form.key_text(replication)
        if not continues_for_one_slave(work.context):
            transfer_steps.probe(place, transfer_form.access(replication))
        log.info("%s: files can be written to %s", work, place)


@step(task_id="check")  # type: ignore[untyped-decorator]
def check_lightly(work: TaskContext) -> None:
    """Reads the configuration, reaches master, slave and Redis, and warns of what the accounts lack. Changes
    nothing."""
    with classified():
        work.redis.ping()
    preflight_check.warn(work, work.slave_names)


@step
def install_resources(work: TaskContext) -> str:
    """Installs or upgrades the DbResources of the prefix on the master. What is there already is not touched."""
    with work.master() as master:
        place = work.replication.master
        report = resources.install(master, work.prefix, place.schema, place.cascade)
    return f"version {report.after}, {counted(len(report.files), 'file')} run"


@step
def show_plan(work: TaskContext) -> str:
    """Compares the configured tables with TABLES and prints what will be added, altered, repaired and **removed**; of a
    table that joins, how many rows the slaves lack, and what happens next."""
    planned = _planned(work)
    log.info("The plan for %s", planned)
    return planned


@step
def reconcile(work: TaskContext) -> str:
    """Carries the plan out: registers tables, makes and removes triggers. Prints the plan first."""
    replication = work.replication
    planned = _planned(work)
    log.info("The plan for %s", planned)
    with work.master() as master:
        tables = replication.resolve(work.existing_tables(master))
        report = reconciling.reconcile(master, work.prefix, replication.master.schema, tables)
    log.info("%s: captured: %s; taken: %s", work, counted(len(tables), "table"), counted(len(report.steps), "step"))
    return planned


def _planned(work: TaskContext) -> str:
    with work.master() as master:
        tables = work.replication.resolve(work.existing_tables(master))
        report = reconciling.propose(master, work.prefix, work.replication.master.schema, tables)
    return "\n".join([str(report), *(f"  {line}" for line in announced(work, report))])
