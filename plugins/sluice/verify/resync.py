"""Compares one table of a pair, repairs it on request, and compares it again."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from redis import Redis

from sluice.control.rejects import RejectStore
from sluice.counted import counted
from sluice.database.registry import reach
from sluice.errors import SluiceError, Terminal, Transient
from sluice.model.names import TableName
from sluice.model.reject import Reject, RejectStatus
from sluice.model.requests import Refused, Repaired, RepairRequest
from sluice.model.table_state import how_to_load
from sluice.pair import Pair
from sluice.verify import offline_compare
from sluice.verify.apply_client import ask_apply
from sluice.verify.compare import CompareOptions
from sluice.verify.executor_reads import compare_where_it_pays
from sluice.verify.findings import CouldNotCompare, Outcome, TableFinding
from sluice.verify.pinned_sessions import at_one_position
from sluice.verify.pinned_side import Side

log = logging.getLogger("sluice.verify")

# Makes rows of a slave equal to the master's, through its apply.
#
# The apply gets the keys, reads the rows on the master at the end of a window, and writes them before the next
# window begins (`sluice.apply.request_handler`). So they are right even if something changed since the comparison.


ROWS_A_REQUEST = 1_000


class RepairTooLarge(Terminal):
    """A repair would change more rows than its limit."""

    def __init__(self, table: TableName, rows: int, limit: int):
        super().__init__(
            f"{table}: a repair would change {counted(rows, 'row')}, and max_repair_rows is {limit:,}. See the report. "
            "If it is right, approve the repair, or raise max_repair_rows; an initial update may be the better way."
        )


class NotRepaired(Transient):
    """The apply did not write all rows; `done`: how many it wrote."""

    def __init__(self, finding: TableFinding, done: int, reason: str):
        rows = len(finding.to_repair)
        super().__init__(f"{finding.table}: repaired {done:,} of {counted(rows, 'row')}, the others not: {reason}")
        self.done = done


def repair(pair: Pair, store: "Redis", finding: TableFinding, limit: int | None = None) -> int:
    """Repairs the rows of `finding`. Returns how many. Raises `RepairTooLarge`, before any change, and `NotRepaired`.

    If the slave refuses one part, the others are written nevertheless: the repair of another table may need them.
    """
    if limit is not None and finding.faults > limit:
        raise RepairTooLarge(finding.table, finding.faults, limit)
    done, kept, refusals = 0, 0, []
    try:
        for part in _parts(finding):
            with ask_apply(pair, store, part, Repaired.read) as answer:
                if isinstance(answer, Refused):
                    refusals.append(answer.reason)
                else:
                    done += len(part.rows) - answer.kept
                    kept += answer.kept
                    finding.settled += answer.settled
    except SluiceError as lost:
        raise NotRepaired(finding, done, str(lost)) from lost
    if refusals:
        raise NotRepaired(finding, done, refusals[0])
    log.info("%s: %s of %s repaired", pair, counted(done, "row"), finding.table)
    if kept:
        text = (
            "%s: %s of %s left: by conflict_rules the slave's row wins. Repair the replication in the other direction."
        )
        log.warning(text, pair, counted(kept, "row"), finding.table)
    return done


def _parts(finding: TableFinding) -> Iterator[RepairRequest]:
    """The requests: first rows to delete, then to update, then to insert."""
    columns = tuple(zip(finding.compared, finding.types, strict=True))
    for rows in finding.by_kind():
        for start in range(0, len(rows), ROWS_A_REQUEST):
            part = tuple(tuple(row) for row in rows[start : start + ROWS_A_REQUEST])
            yield RepairRequest(finding.table, tuple(finding.key), columns, part)


TRIES = 4
PAUSE_SECONDS = 1.0


class NotLoaded(CouldNotCompare):
    """The slave has not loaded the table, so missing rows are no difference."""

    def __init__(self, pair: Pair, table: TableName):
        super().__init__(
            f"{pair} has not loaded {table}, its changes are left out. "
            f"{how_to_load(pair.prefix, pair.slave.name, [table])}"
        )


class Action(StrEnum):
    """Whether a resynchronization repairs differences."""

    VERIFY = "verify"
    REPAIR = "repair"


@dataclass
class TableResult:
    """The first finding, the repair, and the finding after it."""

    finding: TableFinding
    repaired: int = 0
    refused: str = ""
    """Why a requested repair was not done."""
    after: TableFinding | None = None
    """The comparison after the repair."""

    @property
    def outcome(self) -> Outcome:
        return (self.after or self.finding).outcome


def compare_table(pair: Pair, store: "Redis", table: TableName, options: CompareOptions) -> TableFinding:
    """Compares a table at its own position, and again if its definition changed meanwhile.

    Does not raise if it cannot compare: the finding says so.
    """
    reason = ""
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE_SECONDS)
        try:
            with at_one_position(pair, store, sessions=options.sessions) as view:
                _expect_loaded(pair, view.slave, table)
                finding = compare_where_it_pays(view, table, options)
            if finding.faults:
                finding.explain(_rejects(pair, table))
            elif finding.outcome is Outcome.IDENTICAL:
                _drop_differing(pair, table)
            return finding
        except SluiceError as failure:
            reason = str(failure)
            log.info("%s: %s could not be compared: %s", pair, table, reason)
            if not (isinstance(failure, CouldNotCompare) and failure.again):
                break
    return TableFinding(table, Outcome.COULD_NOT_COMPARE, reason)


def resync(
    pair: Pair, store: "Redis", table: TableName, options: CompareOptions, action: Action, limit: int | None
) -> TableResult:
    """Compares a table, and repairs it if `action` says so.

    `limit`: the most rows that a repair may change, None for any number.
    """
    result = TableResult(compare_table(pair, store, table, options))
    if action is Action.VERIFY or result.finding.outcome is not Outcome.DIFFERENT:
        return result
    try:
        result.repaired = repair(pair, store, result.finding, limit)
    except RepairTooLarge as large:
        result.refused = str(large)
        return result
    except NotRepaired as failure:
        result.repaired, result.refused = failure.done, str(failure)
    result.after = compare_table(pair, store, table, replace(options, sample=0))
    return result


def _expect_loaded(pair: Pair, slave: Side, table: TableName) -> None:
    """Raises `NotLoaded`, as of the position of the slave's session."""
    checkpoint = offline_compare.checkpoint(pair, slave, slave.first)
    if checkpoint is not None and not checkpoint.tables.ready(table):
        raise NotLoaded(pair, table)


def _drop_differing(pair: Pair, table: TableName) -> None:
    """Settles the rejects that say that the table differs."""
    with reach(pair.slave_info, f"{pair.application} verify") as session, session.transaction():
        store = RejectStore.of(pair, session)
        ids = [reject.id for reject in store.differing() if reject.table == table]
        store.move(ids, RejectStatus.DROPPED, "resync found the table equal")


def _rejects(pair: Pair, table: TableName) -> list[Reject]:
    """The open rejects of the table."""
    with reach(pair.slave_info, f"{pair.application} verify") as session:
        store = RejectStore.of(pair, session)
        return [reject for reject in store.open() if reject.table == table] if store.ready() else []
