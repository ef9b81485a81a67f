"""Making rows of a slave equal to the master's again, through its apply.

The rows are not written here: the apply is told which ones, reads them on the master at the end of a window and
writes them before the next begins (`sluice.apply.asked`). So they are right whatever happened since the comparison.
"""

import logging
import time
from contextlib import suppress

from redis import Redis

from sluice.domain.names import TableName
from sluice.errors import SluiceError, Terminal, Transient
from sluice.pair import Pair
from sluice.stores.requests import REPAIR, Requests
from sluice.verify.findings import TableFinding

log = logging.getLogger("sluice.verify")

ROWS_A_REQUEST = 1_000
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.01


class RepairTooLarge(Terminal):
    """A repair would rewrite more rows than it may."""

    def __init__(self, table: TableName, rows: int, limit: int):
        super().__init__(
            f"{table}: {rows:,} rows would have to be repaired, and max_repair_rows is {limit:,}. See the report. If "
            "it is right, approve the repair, or raise max_repair_rows; an initial update may be the better way."
        )
        self.table = table
        self.rows = rows
        self.limit = limit


class NotRepaired(Transient):
    """The apply did not, or could not, write what it was asked to."""


def repair(pair: Pair, store: "Redis", finding: TableFinding, limit: int | None = None) -> int:
    """Repairs what `finding` found; how many rows. Raises `RepairTooLarge` (before any is touched), `NotRepaired`."""
    if limit is not None and finding.faults > limit:
        raise RepairTooLarge(finding.table, finding.faults, limit)
    requests = Requests(store, pair.prefix, pair.slave.name)
    rows = finding.to_repair
    for start in range(0, len(rows), ROWS_A_REQUEST):
        values = {
            "table": [finding.table.schema, finding.table.name],
            "key": list(finding.key),
            "columns": list(finding.compared),
            "rows": [list(row) for row in rows[start : start + ROWS_A_REQUEST]],
        }
        name = requests.ask(REPAIR, values, PATIENCE_SECONDS)
        try:
            _await(pair, requests, name, finding.table)
        finally:
            with suppress(SluiceError):  # then it expires
                requests.withdraw(name)
    log.info("%s: %d rows of %s repaired", pair, len(rows), finding.table)
    return len(rows)


def _await(pair: Pair, requests: Requests, name: str, table: TableName) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while (answer := requests.answered(name)) is None:
        if time.monotonic() > end:
            raise NotRepaired(f"{pair}: the apply did not repair {table} within {PATIENCE_SECONDS:.0f} s.")
        time.sleep(LOOK_SECONDS)
    if "refused" in answer:
        raise NotRepaired(f"{pair}: {table} was not repaired: {answer['refused']}")
