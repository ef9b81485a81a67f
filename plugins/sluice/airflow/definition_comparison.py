"""Compares configured with captured tables, and definitions of the master with those of slaves. Changes nothing."""

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from sluice.airflow import notify
from sluice.airflow.runs import is_updated
from sluice.airflow.task_context import TaskContext
from sluice.coordination.records import Issues
from sluice.database.registry import master_of
from sluice.errors import SluiceError
from sluice.model.issue import Severity
from sluice.model.names import TableName
from sluice.model.table_state import how_to_capture
from sluice.pair import Pair
from sluice.verify import definition_gaps

log = logging.getLogger("sluice.airflow")


def compare(task: TaskContext, slaves: Iterable[str]) -> int | None:
    """Stores the differences for pages and notices; returns their number, None if nothing is installed.

    The log lists each difference with its remedy. An error of a slave is logged; an error of the master is raised.
    """
    vendor, schema = task.replication.master.vendor, task.replication.master.schema
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if task.replication.master.stream:
        return None
    with task.master() as master:
        if master_of(vendor).capture(master, task.prefix, schema).installed() is None:
            return None
        captured = master_of(vendor).queue(master, task.prefix, schema).captured()
        existing = task.existing_tables(master)
        defined = definition_gaps.MasterDefinitions.read(vendor, master, sorted(captured))
    for table in sorted(defined.locked):
        log.warning("%s: definitions of %s are not compared: a session has locked it, or waits to", task, table)
    number = _compare_captured(task, existing, captured, now)
    for name in slaves:
        one = task.of_slave(name)
        try:
            gaps = definition_gaps.of_slave(Pair.of(one.replication, name, one.connections), defined, is_updated)
        except SluiceError as failure:
            log.warning("%s: its definitions are not compared: %s", one, failure)
            continue
        if gaps is None:
            continue
        for issue in gaps:
            log.log(logging.INFO if issue.severity is Severity.NOTE else logging.WARNING, "%s: %s", task, issue)
        grave = [issue for issue in gaps if issue.severity is not Severity.NOTE]
        number += len(grave)
        facts = [(f"{issue.what}: {issue.why}", issue.statement or "") for issue in grave]
        Issues(task.redis, task.prefix, name).write(facts, now)
    return number


def compare_and_notify(task: TaskContext, slaves: Iterable[str]) -> None:
    """Calls `compare`, then sends notices, even if the comparison fails. Raises as `compare`."""
    try:
        compare(task, slaves)
    finally:
        notify.send_notices_of_run(task)


def _compare_captured(
    task: TaskContext, existing: list[TableName], captured: Mapping[TableName, str | None], now: str
) -> int:
    """Stores which tables are not captured; returns their number."""
    try:
        lost = definition_gaps.not_captured(task.replication, existing, captured)
    except SluiceError as failure:
        log.warning("%s: which tables are not captured is not known: %s", task, failure)
        return 0
    faults = [(f"{table}: {why}", "") for table, why in sorted(lost.items())]
    for what, _ in faults:
        log.warning("%s: %s. %s", task, what, how_to_capture(task.prefix))
    Issues(task.redis, task.prefix).write(faults, now)
    return len(faults)
