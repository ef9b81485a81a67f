"""The changes between two positions, in partitions of whole ranges of REPL_KEY."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from sluice.database import positions
from sluice.database.changes import LARGEST_CHANGE, ChangeTooLarge
from sluice.database.items import oversized
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.feed import arrow_columns, change_rows
from sluice.feed.change_rows import ChangeSchema
from sluice.feed.master import Master
from sluice.feed.table_rows import feed_changes_purged
from sluice.model.feed import FeedPosition
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.purging import lost
from sluice.model.window import Window

PARTITION_CHANGES = 100_000
MAX_PARTITIONS = 200
"""Keys of a source may have large gaps: most parts of a long window would be empty, and each costs a session."""
"""About the number of changes of one partition, including those of others, and the most that are read at once."""


@dataclass(frozen=True)
class Span:
    """A part of a window, as sent to an executor."""

    begin: str
    end: str
    """Positions, as their texts."""
    above: int
    up_to: int


@dataclass(frozen=True)
class ChangeRead:
    """A read of changes; sent to where partitions are read."""

    master: Master
    schema: ChangeSchema

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:
        """The changes of a part, in REPL_KEY order. Raises `feed-changes-purged`, what `batches` raises."""
        master = self.master
        begin, end = positions.parse(span.begin), positions.parse(span.end)
        above: int | None = span.above
        with master.reader() as reader:
            while above is not None:
                window = Window(begin, end).between(above, span.up_to)
                above = None
                if span.up_to - window.above > PARTITION_CHANGES:
                    survey = reader.survey(window, limit=PARTITION_CHANGES)
                    if survey.more and survey.last is not None:
                        above = survey.last
                        window = window.between(window.above, above)
                items = reader.items(window, images=True)
                for change in oversized(items):
                    raise ChangeTooLarge(change, LARGEST_CHANGE)
                with master.session() as session:
                    # Asked after the read: what was purged while it went on is among it.
                    expect_held(master, session, begin)
                yield from change_rows.batches(items, self.schema, master.vendor.images, str(end))


def schema_of(master: Master, session: Session, table: TableName | None, texts: tuple[str, ...]) -> ChangeSchema:
    """Raises `table-not-replicated`, `Terminal` for texts that are no columns."""
    if table is None:
        return ChangeSchema(None, ())
    columns = master.columns(session, master.shape(session, table))
    arrow_columns.schema(columns, texts)  # raises
    return ChangeSchema(table, columns, texts)


def spans(begin: Position, end: Position, keys: int | None = None) -> list[Span]:
    """The window `(begin, end]` in at most `MAX_PARTITIONS` parts of at least `keys` REPL_KEYs; none if it can have no
    change. No I/O."""
    if end.covers_all_of(begin) and begin.covers_all_of(end):
        return []
    low, high = begin.floor(end), end.high
    if low >= high:
        return []
    count = min(MAX_PARTITIONS, -(-(high - low) // (keys or PARTITION_CHANGES * begin.keys_a_change)))
    edges = [low + (high - low) * number // count for number in range(count + 1)]
    texts = begin.text(), end.text()
    return [Span(*texts, above, up_to) for above, up_to in pairwise(edges)]


def begun(master: Master, session: Session, feed: str, table: str) -> Position:
    """The position up to which a feed has read `table`. A new feed begins now: from here on it holds the purge."""
    queue = master.queue(session)
    for read in queue.feeds():
        if (read.feed, read.table) == (feed, table):
            expect_held(master, session, read.position)
            return read.position
    position = queue.take()
    queue.secure(position)
    queue.note_feed(FeedPosition(feed, table, position))
    return position


def expect_held(master: Master, session: Session, begin: Position) -> None:
    """Raises `changes-purged` if changes after `begin` may be deleted, `DataLost` if the master was restored."""
    master.queue(session).expect_continued([begin])
    if lost(begin, master.queue(session).purged()):
        raise feed_changes_purged(f"{master.prefix} from {begin} on")


def expect_ordered(begin: Position, end: Position) -> None:
    """Raises `Terminal` where `end` lies before `begin`."""
    if not end.covers_all_of(begin):
        raise Terminal(
            f"option to: {end} lies before {begin}, at which the read begins. Exchange the two.",
            code="positions-reversed",
        )
