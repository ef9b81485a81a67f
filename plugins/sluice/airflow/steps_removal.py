"""The tasks that remove something for good: a transaction from a queue, a prefix from its databases."""

import logging

from sluice.airflow.step import step
from sluice.airflow.task_context import ReasonMissing, TaskContext
from sluice.apply import waiting_changes
from sluice.capture import uninstall as uninstalling
from sluice.coordination import lease
from sluice.coordination.records import FailoverClaim
from sluice.coordination.records import forget as forget_keys
from sluice.counted import counted
from sluice.database.registry import master_of, no_database, vendor_of
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.issue import MASTER
from sluice.model.vendors import VENDORS
from sluice.pair import Pair
from sluice.paths import PROGRAM

log = logging.getLogger("sluice.airflow")


def applies_running(task: TaskContext, slaves: list[str]) -> Terminal:
    """An apply is still running."""
    named = ", ".join(slaves)
    return Terminal(
        f"{task}: applies run for {named}. Mark their runs of cdc_apply as failed, then start again.",
        code="applies-running",
    )


def failover_under_way(task: TaskContext, slave: str) -> Terminal:
    """A failover has begun to change the databases."""
    return Terminal(
        f"{task}: a failover to {slave} is under way. Wait until it is through, or trigger the DAG failover with "
        "the action abort, then start again.",
        code="failover-under-way",
    )


@step
def remove(task: TaskContext) -> str:
    """Removes the first waiting transaction from the slave's queue, whose tables become inconsistent; or clears all
    that waits, and the slave becomes INCONSISTENT."""
    reason = str(task.context["params"]["reason"] or "").strip()
    if not reason:
        raise ReasonMissing("Say why: it is kept with what happened to the slave.")
    assert task.slave_name is not None, "the form has a slave"
    pair = Pair.of(task.replication, task.slave_name, task.connections)
    remove = waiting_changes.clear if task.context["params"]["which"] == "all" else waiting_changes.remove
    done = remove(
        pair, task.redis, task.person("the DAG remove_transaction"), reason, f"sluice {task.prefix} remove_transaction"
    )
    log.warning("%s: %s", task, done)
    return str(done)


@step
def check_removal(task: TaskContext) -> None:
    """Fails unless the prefix was typed, no apply is running, no failover is under way, and the accounts can drop
    everything."""
    if task.replication.master.stream:
        raise no_database(task.replication.master.stream.vendor)
    if str(task.context["params"]["confirm"] or "").strip().upper() != str(task.prefix):
        raise Terminal(
            f"{task}: to uninstall it, type its prefix into confirm. Changes that wait in ITEMS are lost by it, and "
            "every slave needs a new initial update afterwards.",
            code="not-confirmed",
        )
    if running := [name for name in task.replication.slaves if lease.taken(task.redis, task.prefix, name)]:
        raise applies_running(task, running)
    if (claim := FailoverClaim(task.redis, task.prefix).read()) is not None:
        raise failover_under_way(task, claim["slave"])
    endpoint = task.replication.master
    with task.master() as master:
        _expect_no_administrators_triggers(task, master, MASTER, endpoint.schema)
        uninstalling.expect_free(master, task.prefix, endpoint.schema)
    for slave in task.replication.slaves.values():
        if VENDORS[slave.vendor].fails_over:
            with task.at(slave) as session:
                _expect_no_administrators_triggers(task, session, slave.name, slave.schema)


def _expect_no_administrators_triggers(task: TaskContext, session: Session, side: str, schema: str) -> None:
    vendor = master_of(session.vendor)
    triggers = vendor.capture(session, task.prefix, schema).has_event_triggers()
    if triggers and not vendor.contents.is_superuser(session):
        raise Terminal(
            f"{task}: its event triggers belong to a superuser of {side}. Run {PROGRAM} remove with --admin "
            f"{side}=LOGIN instead, which takes them away as well.",
            code="administrator-needed",
        )


@step
def leave_slaves(task: TaskContext) -> str:
    """Removes CHECKPOINT, BLOCKS and REJECTS from each slave; its tables and their rows stay."""
    for slave in task.replication.slaves.values():
        try:
            accounts = vendor_of(slave.vendor).accounts
        except Terminal:  # Sluice does not manage accounts of this vendor
            tables = f"{task.prefix}CHECKPOINT, {task.prefix}BLOCKS, {task.prefix}REJECTS and the others of the prefix"
            log.warning("%s → %s: drop %s there by hand", task.prefix, slave.name, tables)
            continue
        with task.at(slave) as session:
            uninstalling.leave_slave(session, accounts, task.prefix, slave.schema, slave.name)
        log.info("%s → %s: CHECKPOINT, BLOCKS and REJECTS are removed", task.prefix, slave.name)
    return counted(len(task.replication.slaves), "slave")


@step
def uninstall(task: TaskContext) -> str:
    """Removes triggers, ITEMS and all other resources of the prefix from the master; its tables stay."""
    with task.master() as master:
        done = uninstalling.leave_master(
            master, task.prefix, task.replication.master.schema, tuple(task.replication.slaves)
        )
    return "removed" if done else "nothing was installed"


@step
def forget(task: TaskContext) -> str:
    """Deletes the replication's keys in Redis."""
    return f"{counted(forget_keys(task.redis, task.prefix), 'key')} deleted"
