"""The progress of an initial update, from BLOCKS and statistics; rows are never counted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sluice.control.blocks import BlockStore
from sluice.control.own_tables import ThrottleStore
from sluice.counted import counted
from sluice.database.control import TableProgress
from sluice.database.registry import master_of
from sluice.database.rows import Estimate
from sluice.database.session import Session
from sluice.load.load_ownership import owner_of
from sluice.load.throttle_rules import rate_of
from sluice.load.update import Update, on_master
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.throttle_state import ThrottleState

RATE_SECONDS = 10.0
TABLES_SHOWN = 5
"""Tables that are listed one by one."""


@dataclass(frozen=True)
class TableLoad(TableProgress):
    """The progress of one table, and how much there is to load."""

    estimate: int | None = None
    """Rows on the master by its statistics; None if there are none."""
    size: int | None = None
    """Bytes of the table on the master, None if it is not known."""

    @property
    def state(self) -> str:
        """`waiting`, `loading`, `exported` or `stored`."""
        if self.planned == self.begun == 0:
            return "exported" if self.exported else "stored"
        return "loading" if self.begun or self.stored or self.exported else "waiting"

    @property
    def expected(self) -> int | None:
        """The estimated number of its rows: statistics may be old."""
        if self.state in ("stored", "exported"):
            return self.rows
        if self.estimate is None:
            # Without statistics: from its size, by the average size of rows so far.
            return max(self.size * self.rows // self.bytes, self.rows) if self.size and self.bytes else None
        return max(self.estimate, self.rows)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left at the present rate; None when unknown."""
        return _left(self.expected, self.rows, self.rows_per_second)

    def __str__(self) -> str:
        if self.state == "waiting":
            return f"{self.table} waiting" + (
                f", about {counted(self.expected, 'row')}" if self.expected is not None else ""
            )
        text = f"{self.table} {self.state}, {_amount(self.rows, self.expected, self.bytes)}"
        return text if self.state in ("stored", "exported") else text + _pace(self.rows_per_second, self.seconds_left)


@dataclass(frozen=True)
class Progress:
    """The progress of a load at one moment."""

    state: SlaveState
    message: str
    tables: tuple[TableLoad, ...]
    throttle: ThrottleState = field(default_factory=ThrottleState)

    @property
    def stored_tables(self) -> int:
        return sum(table.state in ("stored", "exported") for table in self.tables)

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables)

    @property
    def rows_per_second(self) -> float:
        return sum(table.rows_per_second for table in self.tables)

    @property
    def expected(self) -> int | None:
        """Rows of all tables; None while a table has no statistics."""
        counts = [table.expected for table in self.tables]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left at the present rate; None when unknown."""
        return _left(self.expected, self.rows, self.rows_per_second)

    @property
    def loading(self) -> list[TableLoad]:
        """The tables with begun blocks that are not complete."""
        return [table for table in self.tables if table.state == "loading"]

    def __str__(self) -> str:
        tables = f"{self.stored_tables} of {counted(len(self.tables), 'table')}"
        size = _amount(self.rows, self.expected, self.bytes)
        if exported := sum(table.exported for table in self.tables):
            size += f", {counted(exported, 'block')} in files"
        rate = f" ({allowed})" if (allowed := rate_of(self.throttle)) else ""
        paused = f"; paused: {self.throttle.reason}" if self.throttle.paused else ""
        return f"{tables}, {size}{_pace(self.rows_per_second, self.seconds_left)}{rate}{paused}"

    def lines(self, most: int = TABLES_SHOWN) -> list[str]:
        """One line for all, and one for each table that is being loaded, at most `most` of them."""
        loading = self.loading
        more = [f"… and {len(loading) - most} more"] if len(loading) > most else []
        return [str(self), *(str(table) for table in loading[:most]), *more]


def next_block(tables: Sequence[TableLoad], ahead: int, block_rows: int, *, imports: bool = False) -> str:
    """`public.orders 12/40`: the number of the block that is probably begun next, and about how many its table has.

    `ahead`: how many others are begun before it. `block_rows`: rows of a block if none is stored yet, because a load
    divides a table into blocks while it reads it; an import knows all blocks. Empty if fewer blocks are left.
    """
    for table in tables:
        left = table.exported if imports else table.planned
        if not left:
            continue
        begun = table.planned + table.begun + table.stored + table.exported - left
        done = begun - table.begun
        rows = table.rows / done if table.rows and done else block_rows
        cut = 0 if imports else math.ceil((table.expected or 0) / rows)
        whole = max(begun + left, cut)
        if begun + ahead < whole:
            return f"{table.table} {begun + ahead + 1}/{whole}"
        ahead -= whole - begun
    return ""


def _left(expected: int | None, rows: int, rate: float) -> float | None:
    return None if expected is None or not rate else (expected - rows) / rate


def _amount(rows: int, expected: int | None, size: int) -> str:
    share = f" of about {expected:,}" if expected and expected != rows else ""
    return f"{rows:,}{share} {'row' if rows == 1 and not share else 'rows'}, {size / 1e6:,.1f} MB"


def _pace(rate: float, seconds: float | None) -> str:
    if not seconds:
        return f", {rate:,.0f} rows/s"
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    day = "" if seconds < 43_200 else f"{end:%Y-%m-%d} "
    return f", {rate:,.0f} rows/s, about {seconds:,.0f} s left (until {day}{end:%H:%M} UTC)"


def estimates(update: Update, tables: list[TableName]) -> dict[TableName, Estimate]:
    """Rows (None: no statistics) and bytes of the master's tables, never counted. Raises `Transient` for outages."""
    with on_master(update) as master:
        return dict(master_of(update.master_info.vendor).rows.estimates(master, tables))


def progress(
    update: Update,
    slave: Session | None = None,
    expected: Mapping[TableName, Estimate] | None = None,
) -> Progress:
    """The progress of the slave's load, of whichever update.

    `slave`: an open session to use; `expected`: the result of `estimates`, computed when None. Raises `Transient` for
    outages.
    """
    connection = slave or update.connect_slave()
    try:
        owner = owner_of(update, connection)
        blocks = BlockStore.of(update, connection).progress(RATE_SECONDS)
        throttle = _throttle_state(update, connection)
    finally:
        if slave is None:
            connection.close()
    if expected is None:
        expected = estimates(update, [entry.table for entry in blocks])
    return Progress(
        owner.state if owner else SlaveState.UNCONFIGURED,
        owner.message if owner else "",
        tuple(
            TableLoad(**vars(entry), estimate=known.rows if known else None, size=known.bytes if known else None)
            for entry in blocks
            for known in [expected.get(entry.table)]
        ),
        throttle,
    )


def _throttle_state(update: Update, slave: Session) -> ThrottleState:
    store = ThrottleStore.of(update, slave)
    throttle: ThrottleState = store.read() if store.exists() else ThrottleState()
    return throttle
