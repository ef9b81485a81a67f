"""What takes something away for good: a transaction out of a queue, a prefix out of its databases."""

import logging

from sluice.airflow.step import step
from sluice.airflow.task_context import TaskContext
from sluice.apply import first_transaction
from sluice.capture import uninstall as uninstalling
from sluice.coordination import lease
from sluice.coordination.forget import forget as forget_keys
from sluice.counted import counted
from sluice.database.registry import NoDatabase, vendor_of
from sluice.errors import Terminal
from sluice.pair import Pair

log = logging.getLogger("sluice.airflow")


class ReasonMissing(Terminal):
    """Nobody removes a transaction without a reason."""

    def __init__(self) -> None:
        super().__init__("Say why the transaction is removed: it is kept with what happened to the slave.")


class NotConfirmed(Terminal):
    """The prefix was not typed."""

    def __init__(self, task: TaskContext) -> None:
        super().__init__(
            f"{task}: to uninstall it, type its prefix into confirm. Changes that wait in ITEMS are lost by it, and "
            "every slave needs a new initial update afterwards."
        )


class StillApplied(Terminal):
    """An apply runs."""

    def __init__(self, task: TaskContext, slaves: list[str]) -> None:
        named = ", ".join(slaves)
        super().__init__(f"{task}: applies run for {named}. Mark their runs of cdc_apply as failed, then start again.")


class AdministratorNeeded(Terminal):
    """Only a superuser can take event triggers away."""

    def __init__(self, task: TaskContext) -> None:
        super().__init__(
            f"{task}: its event triggers belong to a superuser of the master. Run ./sluice remove with --admin "
            "master=LOGIN instead, which takes them away as well."
        )


@step
def remove_first(task: TaskContext) -> str:
    """Takes the first transaction that waits for the slave out of its queue; its tables are inconsistent then."""
    reason = str(task.context["params"]["reason"] or "").strip()
    if not reason:
        raise ReasonMissing
    assert task.slave_name is not None, "the form has a slave"
    pair = Pair.of(task.replication, task.slave_name, task.connections)
    by = task.person("the DAG remove_transaction")
    removed = first_transaction.remove(pair, task.redis, by, reason, f"sluice {task.prefix} remove_transaction")
    log.warning("%s: %s", task, removed)
    return str(removed)


@step
def check_removal(task: TaskContext) -> None:
    """Ends the run unless the prefix was typed, no apply runs, and the master's account can take everything away."""
    if task.replication.master.stream:
        raise NoDatabase(task.replication.master.stream.vendor)
    if str(task.context["params"]["confirm"] or "").strip().upper() != str(task.prefix):
        raise NotConfirmed(task)
    if running := [name for name in task.replication.slaves if lease.held(task.redis, task.prefix, name)]:
        raise StillApplied(task, running)
    place = task.replication.master
    contents = vendor_of(place.vendor).contents
    with task.master() as master:
        made = contents.has_event_triggers(master, task.prefix, place.schema)
        if made and not contents.is_superuser(master):
            raise AdministratorNeeded(task)


@step
def leave_slaves(task: TaskContext) -> str:
    """Removes CHECKPOINT, BLOCKS and REJECTS from each slave; its tables and their rows stay."""
    for slave in task.replication.slaves.values():
        try:
            accounts = vendor_of(slave.vendor).accounts
        except Terminal:  # of a vendor whose accounts nobody makes here
            tables = f"{task.prefix}CHECKPOINT, {task.prefix}BLOCKS, {task.prefix}REJECTS and the others of the prefix"
            log.warning("%s → %s: drop %s there by hand", task.prefix, slave.name, tables)
            continue
        with task.at(slave) as session:
            accounts.remove_slave(session, task.prefix, slave.schema, slave.name)
        log.info("%s → %s: CHECKPOINT, BLOCKS and REJECTS are removed", task.prefix, slave.name)
    return counted(len(task.replication.slaves), "slave")


@step
def uninstall(task: TaskContext) -> str:
    """Removes triggers, ITEMS and all other resources of the prefix from the master; its tables stay."""
    with task.master() as master:
        done = uninstalling.uninstall(master, task.prefix, task.replication.master.schema)
    return "removed" if done else "nothing was installed"


@step
def forget(task: TaskContext) -> str:
    """Deletes what Redis has of the replication."""
    return f"{counted(forget_keys(task.redis, task.prefix), 'key')} deleted"
