"""Compares one table of a pair, repairs it on request, and compares it again."""

import logging
import time
from dataclasses import dataclass, replace
from enum import StrEnum

from redis import Redis

from sluice.control.rejects import RejectStore
from sluice.database.registry import reach
from sluice.errors import SluiceError
from sluice.model.names import TableName
from sluice.model.reject import Reject, RejectStatus
from sluice.model.table_state import how_to_load
from sluice.pair import Pair
from sluice.verify import offline_compare
from sluice.verify.compare_options import CompareOptions
from sluice.verify.executor_reads import compare_where_it_pays
from sluice.verify.findings import CouldNotCompare, Outcome, TableFinding
from sluice.verify.pinned_sessions import at_one_position
from sluice.verify.pinned_side import Side
from sluice.verify.repair import NotRepaired, RepairTooLarge, repair

log = logging.getLogger("sluice.verify")

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
    """Whether a resynchronisation repairs differences."""

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
    """Compares a table at a position of its own, again where its definition changed meanwhile.

    Does not raise where it cannot compare: the finding says so.
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
    """Compares a table, and repairs it where `action` says so.

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
