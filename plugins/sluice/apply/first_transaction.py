"""Removes the first transaction that waits for a slave, because a person asks for it.

The tables that it changes become inconsistent: none of their changes is applied, this transaction's included, until
they are loaded again. All other tables are applied as before. So no change is skipped silently, and positions stay
true.
"""

from dataclasses import dataclass

import redis

from sluice.apply import waiting_changes
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.gate import Gate
from sluice.counted import counted
from sluice.database.changes import WaitingTable
from sluice.database.registry import NoDatabase, has_rows, master_of, reach
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.checkpoint import Checkpoint, CheckpointMoved
from sluice.model.event import EventKind
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState, how_to_load
from sluice.pair import Pair


@dataclass(frozen=True)
class Removed:
    """The tables of the removed transaction."""

    tables: tuple[WaitingTable, ...]
    remedy: str

    def __str__(self) -> str:
        named = ", ".join(str(table) for table in self.tables)
        inconsistent = counted(len(self.tables), "table")
        return f"The transaction is removed. INCONSISTENT until loaded again: {inconsistent}: {named}. {self.remedy}"


def remove(pair: Pair, store: "redis.Redis", by: str, reason: str, application: str) -> Removed:
    """Removes the first transaction of the pair's queue.

    Raises `gate-open`, `no-transaction-to-remove`, `CheckpointMoved` where something was applied or loaded meanwhile,
    and outages.
    """
    if not has_rows(pair.master_info.vendor):
        raise NoDatabase(pair.master_info.vendor)
    if not Gate(store, pair.prefix, pair.slave.name).closures():
        raise Terminal(
            f"{pair}: the apply is not held, so its queue has no first transaction for long. Close the gate, with the "
            "DAG gate and the action close, then remove the transaction.",
            code="gate-open",
        )
    with reach(pair.slave_info, application) as slave, reach(pair.master_info, application) as master:
        before = _configured(pair, slave)
        tables = _first(pair, store, master, before)
        with slave.transaction(durable=True):
            checkpoints = CheckpointStore.of(pair, slave)
            if not checkpoints.configured(lock=True).same_place(before):
                raise CheckpointMoved(f"{pair}: something was applied meanwhile. Look again whether it is needed.")
            why = f"{by} removed its first transaction: {reason}"
            checkpoints.put_tables(before.tables.put_all([one.table for one in tables], TableState.INCONSISTENT, why))
    removed = Removed(tuple(tables), how_to_load(pair.prefix, pair.slave.name, [one.table for one in tables]))
    waiting_changes.remember(
        pair, store, EventKind.TABLE, f"{by} removed the first transaction of the queue ({reason}): {removed}"
    )
    return removed


def _configured(pair: Pair, slave: Session) -> Checkpoint:
    checkpoint = CheckpointStore.of(pair, slave).read()
    state = checkpoint.state if checkpoint else SlaveState.UNCONFIGURED
    if checkpoint is None or state is not SlaveState.NORMAL:
        raise Terminal(
            f"{pair}: the slave is {state}; a transaction is removed only where it is NORMAL.",
            code="no-transaction-to-remove",
        )
    return checkpoint


def _first(pair: Pair, store: "redis.Redis", master: Session, before: Checkpoint) -> list[WaitingTable]:
    queue = master_of(pair.master_info.vendor).queue(master, pair.prefix, pair.replication.master.schema)
    window = waiting_changes.rest_of(pair, store, master, before)
    first = queue.first_transaction(window, list(before.tables))
    if not first:
        raise Terminal(
            f"{pair}: no transaction waits that changes a table whose changes are applied.",
            code="no-transaction-to-remove",
        )
    tables = [one for one in first if one.table not in before.tables]
    if loading := [str(one.table) for one in tables if one.table in before.tables.loading]:
        raise Terminal(
            f"{pair}: {', '.join(loading)} is being loaded. Wait for that, or cancel it.",
            code="no-transaction-to-remove",
        )
    return tables
