"""Makes rows of a slave equal to the master's, through its apply.

The apply gets the keys, reads the rows on the master at the end of a window, and writes them before the next window
begins (`sluice.apply.request_handler`). So they are right whatever changed since the comparison.
"""

import logging
from collections.abc import Iterator

from redis import Redis

from sluice.counted import counted
from sluice.errors import SluiceError, Terminal, Transient
from sluice.model.names import TableName
from sluice.model.requests import Refused, Repaired, RepairRequest
from sluice.pair import Pair
from sluice.verify.apply_client import ask_apply
from sluice.verify.findings import TableFinding

log = logging.getLogger("sluice.verify")

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

    Where the slave refuses one part, the others are written nevertheless: the repair of another table may need them.
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
