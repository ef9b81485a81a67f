"""Rows read for a repair are those of the snapshot; a table that was replaced since is refused."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from sluice.database.digests import Compared, ComparedTable
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres import fetch_rows
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source import snapshot
from tests.errors import raises_code

pytestmark = pytest.mark.releases

TABLE = TableName("public", "t")
COLUMNS = (Compared("id", "integer"), Compared("v", "text"))


@contextmanager
def of_one_snapshot(info: ConnectionInfo) -> Iterator[tuple["psycopg.Connection[Any]", "psycopg.Connection[Any]"]]:
    """A session with a snapshot of a table with one row, and another session."""
    with (
        connect(info, application="test", autocommit=True) as reader,
        connect(info, application="test", autocommit=True) as other,
    ):
        other.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t VALUES (1, 'a')")
        snapshot.begin(reader)
        snapshot.export(reader)
        yield reader, other


@pytest.mark.parametrize("statement", [
    "TRUNCATE public.t",
    "ALTER TABLE public.t ALTER v TYPE varchar(9)",
    "DROP TABLE public.t; CREATE TABLE public.t (id int PRIMARY KEY, v text)",
    "ALTER TABLE public.t RENAME TO former; CREATE TABLE public.t (id int PRIMARY KEY, v text)",
    "DROP TABLE public.t",
])  # fmt: skip
def test_a_table_that_was_changed_since_has_no_rows_to_give(
    database: Callable[..., ConnectionInfo], statement: str
) -> None:
    with of_one_snapshot(database()) as (reader, other):
        other.execute(statement.encode())
        with raises_code("table-changed", match=r"table public\.t (is gone|was .*); look at it again"):
            fetch_rows.rows(reader, ComparedTable(TABLE, COLUMNS, ("id",)), [("1",), ("2",)])


def test_later_rows_are_not_read(database: Callable[..., ConnectionInfo]) -> None:
    with of_one_snapshot(database()) as (reader, other):
        other.execute("UPDATE public.t SET v = 'b'; INSERT INTO public.t VALUES (2, 'c')")
        other.execute("ALTER TABLE public.t ADD COLUMN w int DEFAULT 5")
        assert fetch_rows.rows(reader, ComparedTable(TABLE, COLUMNS, ("id",)), [("1",), ("2",)]) == [("1", "a"), None]
