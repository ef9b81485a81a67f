"""A feed of a MariaDB master: rows as of one position, and the changes between two."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from sluice.cli import status
from sluice.database.session import Session
from sluice.feed import arrow_columns
from sluice.feed.change_read import ChangeRead, begun, schema_of, spans
from sluice.feed.master import Master as FeedMaster
from sluice.feed.table_rows import plan
from sluice.model.connection import ConnectionInfo
from sluice.model.feed import FeedPosition
from sluice.model.names import TableName
from tests.scenarios.binlog.beside import Beside, writing
from tests.scenarios.binlog.master import Master
from tests.scenarios.binlog.test_beside import fill, transaction

T, PAIRS, BAG = (TableName("public", name) for name in ("t", "pairs", "bag"))


@pytest.fixture
def rig(
    master: Master,
    database: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Beside:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    fill(master)
    return Beside(master, "postgres", database(), redis_url, more="feeds: lake")


def slowly(connection: "pymysql.Connection[Any]", chance: random.Random) -> None:
    transaction(connection, chance)
    time.sleep(0.02)


def rows_as_of(feed: FeedMaster, session: Session, table: TableName, position: object) -> list[tuple[object, ...]]:
    """All rows of a table, read in partitions of 150."""
    read = plan(feed, session, table, position, 150)  # type: ignore[arg-type]
    wanted = arrow_columns.schema(read.columns, ("*",))
    batches = [batch for number in range(read.partitions) for batch in read.read(number, wanted)]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def folded(rows: list[tuple[object, ...]], read: ChangeRead, changes: pa.Table) -> list[tuple[object, ...]]:
    """The rows after the changes."""
    left = list(rows)
    for change in changes.to_pylist():
        for image, do in (("before", left.remove), ("after", left.append)):
            if change[image] is not None:
                do(tuple(change[image].values()))
    return sorted(left, key=repr)


def test_rows_as_of_a_position_and_the_changes_after_it_are_the_rows_of_a_later_one(rig: Beside) -> None:
    feed = FeedMaster.of(rig.pair.replication, rig.master.info)
    with rig.recording(), feed.session() as session:
        began = {table: begun(feed, session, "lake", str(table)) for table in (T, PAIRS, BAG)}
        with writing(rig.master, slowly, 1):
            first = {table: rows_as_of(feed, session, table, began[table]) for table in began}
            # Again, later: what came since is undone.
            assert {table: rows_as_of(feed, session, table, began[table]) for table in began} == first
        assert all(begun(feed, session, "lake", str(table)) == position for table, position in began.items())
        end = feed.queue(session).take()
        for table, position in began.items():
            read = ChangeRead(feed, schema_of(feed, session, table, ("*",)))
            batches = [batch for span in spans(position, end, 40) for batch in read.read(span)]
            changes = pa.Table.from_batches(batches, read.schema.arrow)
            assert folded(first[table], read, changes) == rows_as_of(feed, session, table, end), table
        (line,) = [one for one in status.stream(rig.pair.replication, rig.pair.master_info) if str(T) in one]
        assert "feed lake, public.t: " in line and "behind" in line
        feed.queue(session).note_feed(FeedPosition("lake", str(T), end))
        (line,) = [one for one in status.stream(rig.pair.replication, rig.pair.master_info) if str(T) in one]
        assert line.strip() == "feed lake, public.t: has all changes"
