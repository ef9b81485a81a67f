"""The tasks on the master: checking, installing, reconciling."""

import logging

from sluice.counted import counted
from sluice.initial import transfer
from sluice.initial.gauges import try_out
from sluice.install import reconcile as reconciling
from sluice.install import resources
from sluice.orchestration import files, preflighting
from sluice.orchestration.choosing import check_choice, update_of
from sluice.orchestration.new_tables import announced
from sluice.orchestration.several import NeedsFiles, goes_on, whole
from sluice.orchestration.step import step
from sluice.orchestration.work import Work
from sluice.stores.redis_store import classified

log = logging.getLogger("sluice.orchestration")


@step
def check(work: Work) -> None:
    """Reads the configuration, reaches every place it names (master, slave, Redis, the location of files), and proves
    that both accounts have all that is needed: what is lacking is listed at once, with the statements that mend it.
    Measures once what limits of `initial.throttle` are about. Changes nothing."""
    replication = work.replication
    rules = counted(len(replication.tables), "table rule")
    log.info("%s: configured in %s, %s", work, replication.source, rules)
    several = len(work.slave_names) > 1
    if several and not (files.by_files(work.context) and whole(work.context)):
        raise NeedsFiles
    with classified():
        work.redis.ping()
    log.info("%s: reached Redis", work)
    preflighting.prove(work, work.slave_names)
    if work.slave_name is not None and "transfer" in work.context["params"]:
        update = update_of(work)
        check_choice(work)
        try_out(update)
    if files.by_files(work.context):
        place = files.location(work.replication, work.context)
        files.key_text(replication)
        if not goes_on(work.context):
            transfer.probe(place, files.access(replication))
        log.info("%s: files can be written to %s", work, place)


@step(task_id="check")  # type: ignore[untyped-decorator]
def check_lightly(work: Work) -> None:
    """Reads the configuration, reaches master, slave and Redis, and warns of what the accounts lack. Changes
    nothing."""
    with classified():
        work.redis.ping()
    preflighting.warn(work, work.slave_names)


@step
def install_resources(work: Work) -> str:
    """Installs or upgrades the DbResources of the prefix on the master. What is there already is not touched."""
    with work.master() as master:
        place = work.replication.master
        report = resources.install(master, work.prefix, place.schema, place.cascade)
    return f"version {report.after}, {counted(len(report.files), 'file')} run"


@step
def show_plan(work: Work) -> str:
    """Compares the configured tables with TABLES and prints what will be added, altered, repaired and **removed**; of a
    table that joins, how many rows the slaves lack, and what happens next."""
    planned = _planned(work)
    log.info("The plan for %s", planned)
    return planned


@step
def reconcile(work: Work) -> str:
    """Carries the plan out: registers tables, makes and removes triggers. Prints the plan first."""
    replication = work.replication
    planned = _planned(work)
    log.info("The plan for %s", planned)
    with work.master() as master:
        tables = replication.resolve(work.existing_tables(master))
        report = reconciling.reconcile(master, work.prefix, replication.master.schema, tables)
    log.info("%s: captured: %s; taken: %s", work, counted(len(tables), "table"), counted(len(report.steps), "step"))
    return planned


def _planned(work: Work) -> str:
    with work.master() as master:
        tables = work.replication.resolve(work.existing_tables(master))
        report = reconciling.propose(master, work.prefix, work.replication.master.schema, tables)
    return "\n".join([str(report), *(f"  {line}" for line in announced(work, report))])
