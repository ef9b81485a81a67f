"""Tables that join a running replication: the loads that they need, and the messages for people."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.counted import counted
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableStates, how_to_load

LISTED = 50
"""The tables of a plan."""
LOAD, WAIT = "load", "wait"
"""What `new_tables` of a slave requests for a table that joins with rows."""


@dataclass(frozen=True)
class Rows:
    """The number of rows of a table; `exact`: counted, otherwise an estimate from statistics."""

    number: int
    exact: bool

    def __str__(self) -> str:
        return counted(self.number, "row") if self.exact else f"about {counted(self.number, 'row')}"


@dataclass(frozen=True)
class Slave:
    """What is known of a slave when tables join; `state` is None if it did not answer."""

    name: str
    policy: str
    state: SlaveState | None

    @property
    def whole_later(self) -> bool:
        """Whether it needs an initial update of all tables, which also loads those that join now."""
        return self.state in (SlaveState.UNCONFIGURED, SlaveState.INCONSISTENT)


@dataclass(frozen=True)
class StartedLoad:
    """A run of `initial_update` that has started and not ended."""

    run: str
    tables: tuple[TableName, ...]


def remaining(missing: Iterable[TableName], started: StartedLoad | None) -> list[TableName]:
    """The tables that a slave lacks and that nobody loads."""
    return [table for table in missing if started is None or table not in started.tables]


def next_run(name: str, exists: Callable[[str], bool], is_active: Callable[[str], bool]) -> tuple[str, bool]:
    """The run that loads tables, and whether it is running; `name`: a result of `run_id`.

    Earlier loads of the same tables may have failed, or the tables left and joined again after them.
    """
    run, earlier = name, 0
    while exists(run):
        if is_active(run):
            return run, True
        earlier += 1
        run = f"{name}_{earlier}"
    return run, False


def what_loads(prefix: Prefix, slave: str, missing: Collection[TableName], started: StartedLoad | None) -> str:
    """Which run loads the tables that a slave lacks, or what a person has to start."""
    rest = remaining(missing, started)
    if started is None or len(rest) == len(missing):
        return how_to_load(prefix, slave, missing)
    them = "them" if not rest else ", ".join(map(str, sorted(set(missing) - set(rest))))
    running = f"The run {started.run} of initial_update was started and loads {them}."
    return f"{running} {how_to_load(prefix, slave, rest)}" if rest else running


def to_load(
    states: TableStates, pending: Mapping[TableName, bool], configured: Collection[TableName]
) -> list[TableName]:
    """The configured tables that a slave has not loaded.

    `states`: as stored on the slave. `pending`: tables that join in changes which it has not applied yet, and whether
    all of their rows follow in the stream.
    """
    joins = {table for table, complete in pending.items() if not complete}
    return [table for table in configured if table in states or (table in joins and table not in states.loading)]


def plan(prefix: Prefix, joins: Mapping[TableName, Rows], slaves: Sequence[Slave]) -> list[str]:
    """The message about tables that join, before anything is done."""
    lines = []
    for table, rows in list(joins.items())[:LISTED]:
        if rows == Rows(0, True):
            lines.append(f"{table} joins without rows: what comes into it follows, no slave need load it")
            continue
        lines.append(f"{table} joins with {rows} on the master")
        lines += [f"  {slave.name} lacks them: {_next(prefix, slave, table)}" for slave in slaves]
    if len(joins) > LISTED:
        lines.append(f"and {counted(len(joins) - LISTED, 'table')} more")
    return lines


def run_id(prefix: Prefix, slave: str, tables: Iterable[TableName]) -> str:
    """The id of the run of `initial_update` that loads new `tables`, in characters that Airflow allows.

    Two runs that reconcile compute the same id, so that the load is started once.
    """
    digest = hashlib.sha256("\0".join(sorted(map(str, tables))).encode()).hexdigest()[:8]
    return f"new_tables_{re.sub('[^A-Za-z0-9_.-]', '-', f'{prefix}_{slave}')}_{digest}"


def _next(prefix: Prefix, slave: Slave, table: TableName) -> str:
    if slave.state is None:
        return f"it is not reached. When it is NORMAL: {how_to_load(prefix, slave.name, [table])}"
    if slave.state is not SlaveState.NORMAL:
        return f"it is {slave.state}. When its initial update is complete, a load of what is still lacking is started"
    if slave.policy == WAIT:
        return f"new_tables is wait. {how_to_load(prefix, slave.name, [table])}"
    return "the task load_new_tables starts an initial_update of this table; until then its changes are left out"


def run_of(update_id: str, slave: str) -> str:
    """The id of the run in which an initial update of several slaves continues for one of them."""
    return f"{update_id}~{slave}"
