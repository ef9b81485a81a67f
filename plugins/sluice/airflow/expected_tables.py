"""Notes at once which tables a slave has, for pages and terminals: housekeeping, which notes them too, runs every ten
minutes. What cannot be noted now is noted by it."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from sluice.airflow.task_context import TaskContext
from sluice.configuration.resolve import ResolvedTable
from sluice.coordination.records import Status
from sluice.coordination.verification_log import VerificationLog
from sluice.errors import SluiceError
from sluice.model.slave_state import SlaveState

log = logging.getLogger("sluice.airflow")


def covered(task: TaskContext, tables: Iterable[ResolvedTable]) -> list[str]:
    """Of the replicated tables those that are to be verified."""
    return [str(one.table) for one in tables if task.replication.verify.covers(one.table)]


def of_slave(task: TaskContext) -> None:
    """For the slave of the task, which is NORMAL."""
    if not task.replication.comparable:
        return
    try:
        with task.rows() as master:
            tables = task.replication.resolve(task.existing_tables(master))
        _expect(task, task.slave.name, covered(task, tables))
    except SluiceError as failure:
        log.info("%s: its tables are noted by housekeeping: %s", task, failure)


def of_all(task: TaskContext, tables: Iterable[ResolvedTable]) -> None:
    """For each slave whose apply last said that it is NORMAL. No slave is asked."""
    if not task.replication.comparable:
        return
    names = covered(task, tables)
    for slave in task.replication.slaves:
        try:
            if Status(task.redis, task.prefix, slave).read().get("state") == SlaveState.NORMAL:
                _expect(task, slave, names)
        except SluiceError as failure:
            log.info("%s: the tables of %s are noted by housekeeping: %s", task, slave, failure)


def _expect(task: TaskContext, slave: str, tables: list[str]) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    VerificationLog(task.redis, task.prefix, slave).expect(tables, now)
