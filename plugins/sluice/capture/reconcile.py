"""Makes TABLES and the triggers on the master what the configuration says."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sluice.capture.plan import Add, Alter, Remove, Reorder, Step, plan
from sluice.configuration.resolve import ResolvedTable
from sluice.counted import counted
from sluice.database import lock_waits
from sluice.database.capture import Capture, TablesUnfit
from sluice.database.errors import DatabaseRefused, LockNotAvailable
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.names import Prefix, TableName

log = logging.getLogger(__name__)


def tables_busy(prefix: Prefix, tables: Iterable[TableName], see_locks: str) -> Terminal:
    """These tables were never without writers for long enough to create a trigger; `tables` lists them."""
    tables = tuple(tables)
    return Terminal(
        f"{prefix}: {', '.join(str(table) for table in tables)} could not be locked for a moment: "
        f"some transaction writes to it for very long. End it ({see_locks}), "
        "then run reconcile_tables again.",
        code="tables-busy",
    )


def tables_refused(prefix: Prefix, reasons: Mapping[TableName, str]) -> Terminal:
    """These tables could not be captured; `reasons` says why of each."""
    return Terminal(
        f"{prefix}: not captured: {'; '.join(f'{table}: {reason}' for table, reason in reasons.items())}. "
        "The other tables are. Fix this, then run reconcile_tables again.",
        code="tables-refused",
    )


@dataclass(frozen=True)
class ReconcileReport:
    """The plan of a run, and what it noticed. `steps` is empty if nothing had to be done."""

    prefix: Prefix
    steps: tuple[Step, ...]
    notices: tuple[str, ...]
    refused: Mapping[TableName, str] = field(default_factory=dict)
    """Tables that could not be captured as planned → why. All others are."""

    def __str__(self) -> str:
        lines = [
            f"{self.prefix}: {counted(len(self.steps), 'step')}" if self.steps else f"{self.prefix}: nothing to do"
        ]
        return "\n".join([*lines, *(f"  {step}" for step in self.steps), *(f"  note: {note}" for note in self.notices)])


def propose(connection: Session, prefix: Prefix, schema: str, configured: Iterable[ResolvedTable]) -> ReconcileReport:
    """Compares TABLES with the configuration, and changes neither; but where a table seems to leave, it first looks
    whether it was renamed or dropped, which slaves follow.

    Raises `TablesUnfit` for configured tables that cannot be captured, `Terminal` if the resources are missing or
    not of this release.
    """
    entries = list(configured)
    connection.expect_idle()
    vendor = master_of(connection.vendor)
    capture = vendor.capture(connection, prefix, schema)
    registry = capture.registry
    with connection.transaction():
        capture.require()
        unfit = registry.examine(entry.table for entry in entries)
        if unfit:
            raise TablesUnfit(prefix, unfit)
        steps = plan(entries, registry.read())
    if any(isinstance(step, Remove) for step in steps):
        vendor.queue(connection, prefix, schema).check_definitions()
        with connection.transaction():
            steps = plan(entries, registry.read())
    with connection.transaction():
        shapes = vendor.rows.shapes(connection, (entry.table for entry in entries))
    notices = tuple(
        f"{shape.table} has no primary key and no unique NOT NULL index: it is replicated as a multiset of rows, "
        "which is slower"
        for shape in shapes.values()
        if shape.keyless
    )
    return ReconcileReport(prefix, tuple(steps), notices)


def apply_plan(
    connection: Session,
    prefix: Prefix,
    schema: str,
    steps: Iterable[Step],
) -> dict[TableName, str]:
    """Takes the steps, each in its own transaction, so that no lock is held longer than for its table.

    A table whose writers do not end is tried again after the others. Raises `tables-busy` if that did not help;
    completed steps stay, and a new run continues. Returns the tables that this account may not capture → why: slaves
    are told, and the other tables continue.
    """
    refused: dict[TableName, str] = {}
    connection.expect_idle()
    vendor = master_of(connection.vendor)
    capture = vendor.capture(connection, prefix, schema)
    registry = capture.registry

    def take(step: Step) -> None:
        try:
            _take(connection, capture, step)
            log.info("%s: %s: done", prefix, step)
        except LockNotAvailable:
            log.info("%s: %s: the table is being written to, trying again", prefix, step)
            raise
        except DatabaseRefused as refusal:
            log.warning("%s: %s: %s", prefix, step, refusal)
            refused[step.table] = refusal.reason or str(refusal)
            registry.refused(step.table, refused[step.table])

    if busy := lock_waits.with_each(steps, take):
        raise tables_busy(prefix, (step.table for step in busy), vendor.sessions.SEE_LOCKS)
    return refused


def reconcile(connection: Session, prefix: Prefix, schema: str, configured: Iterable[ResolvedTable]) -> ReconcileReport:
    """Reports the plan, then carries it out."""
    report = propose(connection, prefix, schema, configured)
    log.info("%s", report)
    return replace(report, refused=apply_plan(connection, prefix, schema, report.steps))


def _take(connection: Session, capture: Capture, step: Step) -> None:
    """Takes a step, unless another run, such as the initial update of another slave, has just taken the same one."""
    table, registry = step.table, capture.registry
    if isinstance(step, Add):
        # Committed alone: should the trigger fail, the row says CREATING and the next run repairs it.
        with connection.transaction():
            capture.lock()
            if not registry.has(table):
                registry.register(table, actions=step.actions, trigger=step.trigger, debug=step.debug)
    with connection.transaction():
        vendor_of(connection.vendor).sessions.limit_lock_waits(connection, lock_waits.LOCK_SECONDS)
        capture.lock()
        if isinstance(step, Remove):
            if registry.has(table):
                registry.remove(table)
        elif isinstance(step, Reorder):
            registry.put_last(table)
        else:
            if isinstance(step, Alter):
                registry.change(table, actions=step.actions, trigger=step.trigger, debug=step.debug)
            registry.capture(table)
