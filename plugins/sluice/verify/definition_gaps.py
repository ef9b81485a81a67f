"""Definitions that master and slave do not both have, and that no change reports: compared, never repaired."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.configuration.model import Replication
from sluice.control.checkpoint import CheckpointStore
from sluice.control.own_tables import LoadOwner
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of, reach
from sluice.database.schema import Constraint, DomainCheck, Index
from sluice.database.session import Session
from sluice.model.issue import Issue, slave_side
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.transform import fitting

LOCK_SECONDS = 3.0
"""How long a statement waits for one table of the master."""


@dataclass(frozen=True)
class MasterDefinitions:
    """The master's definitions for its captured tables, other than columns."""

    tables: Sequence[TableName]
    indexes: Sequence[Index]
    constraints: Sequence[Constraint]
    domain_checks: Sequence[DomainCheck]
    locked: frozenset[TableName] = frozenset()
    """Tables that are left out: a session has locked them, or waits to, and reading their definitions would wait."""

    @classmethod
    def read(cls, vendor: str, master: Session, tables: Sequence[TableName]) -> "MasterDefinitions":
        """Raises the driver's errors; `LockNotAvailable` if a table is locked at that moment."""
        schemas = master_of(vendor).schemas
        master.limit_lock_waits(LOCK_SECONDS)
        locked = frozenset(schemas.locked(master, tables))
        tables = [table for table in tables if table not in locked]
        return cls(
            tables,
            schemas.indexes(master, tables),
            schemas.constraints(master, tables),
            schemas.domain_checks(master, tables),
            locked,
        )


def not_captured(
    replication: Replication, existing: Iterable[TableName], captured: Mapping[TableName, str | None]
) -> dict[TableName, str]:
    """Tables of the master whose changes are lost, and why. Nothing is lost of one that was dropped there.

    Raises `tables-missing`, `own-table`.
    """
    on_master = set(existing)
    uncaptured = {
        each.table: "it is not captured" for each in replication.resolve(on_master) if each.table not in captured
    }
    return uncaptured | {table: fault for table, fault in captured.items() if fault and table in on_master}


def of_slave(
    pair: Pair, defined: MasterDefinitions, is_updated: Callable[[str | None, str], bool]
) -> list[Issue] | None:
    """Indexes, constraints and checks of domains that a slave lacks, constraints that only it has, and what fixes that.

    None if that says nothing: the slave is not NORMAL, or an initial update still makes them. `is_updated`: whether
    the update of that id continues for a slave. Raises `Transient`.
    """
    vendor = vendor_at(pair)
    schemas = vendor.schemas
    with reach(pair.slave_info, f"{pair.application} compare") as slave:
        checkpoint = CheckpointStore.of(pair, slave).read()
        if checkpoint is None or checkpoint.state is not SlaveState.NORMAL:
            return None
        owner = LoadOwner(slave, pair.prefix, pair.slave.schema, pair.slave.name).read()
        if owner is not None and is_updated(owner.update_id, pair.slave.name):
            return None
        slave_shapes = vendor.rows.shapes(slave, defined.tables)
        names = {table for table in defined.tables if table in slave_shapes and checkpoint.tables.ready(table)}
        indexes = fitting.possible([one for one in defined.indexes if one.table in names], pair).kept
        constrained = fitting.possible([one for one in defined.constraints if one.table in names], pair).kept
        issues = schemas.lacking(
            slave,
            [index for index in indexes if fitting.wanted(index, pair)],
            [constraint for constraint in constrained if fitting.wanted(constraint, pair)],
            names,
        )
        issues += schemas.surplus(slave, indexes, constrained, sorted(names))
        issues += schemas.missing_domain_checks(defined.domain_checks, schemas.domain_checks(slave, sorted(names)))
    return [issue.at(slave_side(pair.slave.name), pair.slave_info.server) for issue in issues]
