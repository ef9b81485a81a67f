"""Windows of ITEMS are read whole, once, in order, and in shares that keep the changes of a key together."""

from collections.abc import Callable
from typing import Any

import pytest

from sluice import sql_files
from sluice.database.changes import Cut, Share
from sluice.database.errors import DatabaseUnreachable
from sluice.database.items import ITEMS
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position, Window
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.reader import PostgresReader

pytestmark = pytest.mark.releases

PREFIX = Prefix("DEMO_")


@pytest.fixture
def master(database: Callable[..., ConnectionInfo]) -> ConnectionInfo:
    info = database()
    with connection.connect(info, application="test", autocommit=True) as link:
        for name in ("resources_v1", "resources_v6", "resources_v7", "values"):
            link.execute(sql_files.render("postgres", name, prefix="demo_", schema='"public"'))
    return info


def put(link: Any, *rows: tuple[str, str | None, str]) -> None:
    for table, guid, action in rows:
        link.execute(
            "INSERT INTO public.demo_items (tablename, guid, db_action, db_schema, content, oldcontent) "
            "VALUES (%s, %s, %s, 'public', 'new', 'old')",
            [table, guid, action],
        )


def take(link: Any, previous: Position | None = None) -> Position:
    return PostgresQueue(link, PREFIX, "public").take(previous)


def test_a_late_commit_comes_in_the_window_that_sees_it_and_in_no_other(master: ConnectionInfo) -> None:
    connect = connection.connect
    with connect(master, application="a", autocommit=True) as link, connect(master, application="b") as late:
        start = take(link)
        put(late, ("t", "1", "INSERT"))
        put(link, ("t", "2", "INSERT"))
        first = take(link, start)
        late.commit()
        second = take(link, first)
        with PostgresReader(master, PREFIX, "public") as reader:
            assert reader.items(Window(start, first)).column("guid").to_pylist() == ["2"]
            assert reader.items(Window(first, second)).column("guid").to_pylist() == ["1"]
            assert reader.items(Window(start, second)).column("guid").to_pylist() == ["1", "2"]
            assert reader.items(Window(start, second)).schema == ITEMS


def test_shares_are_disjoint_and_leave_key_changes_to_the_driver(master: ConnectionInfo) -> None:
    with connection.connect(master, application="a", autocommit=True) as link:
        start = take(link)
        for number in range(50):
            put(link, ("t", str(number), "INSERT"), ("t", str(number), "UPDATE"), ("keyless", "", "INSERT"))
        put(link, ("t", None, "UPDATE"), ("t", "O'\\x", "DELETE"), ("t", None, "TRUNCATE"))
        end = take(link, start)
    with PostgresReader(master, PREFIX, "public") as reader:
        shares = [reader.items(Window(start, end), share=Share(number, 3)).to_pylist() for number in range(3)]
        seen = [(row["table"], row["guid"], row["action"]) for share in shares for row in share]
        assert len(seen) == 151
        assert all(guid is not None for _, guid, _ in seen)
        for share in shares:
            keys = {row["guid"] for row in share}
            others = {row["guid"] for other in shares if other is not share for row in other}
            assert not keys & others
            assert [row["repl_key"] for row in share] == sorted(row["repl_key"] for row in share)
        apart = reader.key_changes(Window(start, end), guids={TableName("public", "t"): {"7", "O'\\x"}})
        assert [(row["guid"], row["action"]) for row in apart.to_pylist()] == [
            ("7", "INSERT"),
            ("7", "UPDATE"),
            (None, "UPDATE"),
            ("O'\\x", "DELETE"),
        ]


def test_old_content_travels_only_where_it_is_needed(master: ConnectionInfo) -> None:
    with connection.connect(master, application="a", autocommit=True) as link:
        start = take(link)
        put(
            link,
            ("t", "1", "INSERT"),
            ("t", "1", "UPDATE"),
            ("t", None, "UPDATE"),
            ("t", "", "UPDATE"),
            ("t", "1", "DELETE"),
        )
        end = take(link, start)
    with PostgresReader(master, PREFIX, "public") as reader:
        assert reader.items(Window(start, end)).column("oldcontent").to_pylist() == [None, None, "old", "old", "old"]
        assert reader.items(Window(start, end), images=True).column("oldcontent").to_pylist() == ["old"] * 5


def test_a_survey_says_where_a_slice_ends_and_what_cuts_it(master: ConnectionInfo) -> None:
    with connection.connect(master, application="a", autocommit=True) as link:
        start = take(link)
        put(link, ("t", "1", "INSERT"), ("t", None, "UPDATE"), ("t", None, "TRUNCATE"), ("t", "2", "INSERT"))
        end = take(link, start)
    with PostgresReader(master, PREFIX, "public") as reader:
        whole = reader.survey(Window(start, end))
        *_, truncation, last = reader.items(Window(start, end)).to_pylist()
        assert (whole.changes, whole.last, whole.key_changes) == (4, last["repl_key"], 1)
        cut = Cut(truncation["repl_key"], truncation["trans_key"], "TRUNCATE", TableName("public", "t"))
        assert whole.cuts == (cut,)
        assert reader.items(Window(start, end, cut.repl_key - 1, cut.repl_key)).to_pylist() == [truncation]
        assert not whole.more
        slice_ = reader.survey(Window(start, end), limit=2)
        assert (slice_.changes, slice_.cuts, slice_.more) == (2, (), True)
        assert not reader.survey(Window(start, end), limit=4).more
        rest = reader.survey(Window(start, end, slice_.last or 0))
        assert rest.changes == 2
        assert reader.items(Window(start, end, slice_.last or 0)).column("action").to_pylist()[:1] == ["TRUNCATE"]
        nothing = reader.survey(Window(end, end))
        assert (nothing.changes, nothing.last, nothing.bytes, nothing.cuts, nothing.more) == (0, None, 0, (), False)


def test_a_slice_ends_before_its_contents_outgrow_the_memory(master: ConnectionInfo) -> None:
    with connection.connect(master, application="a", autocommit=True) as link:
        start = take(link)
        put(link, *[("t", str(number), "INSERT") for number in range(10)])
        link.execute(
            "INSERT INTO public.demo_items (tablename, guid, db_action, db_schema, content) "
            "VALUES ('t', 'x', 'INSERT', 'public', repeat('a', 10000000))"
        )
        put(link, ("t", "y", "INSERT"))
        end = take(link, start)
    with PostgresReader(master, PREFIX, "public") as reader:
        counts, above, more = [], 0, True
        while more:
            found = reader.survey(Window(start, end, above), max_bytes=48)
            counts.append((found.changes, found.bytes))
            above, more = found.last or 0, found.more
        assert counts == [(8, 48), (3, 12 + 10_000_000), (1, 6)]


def test_a_reader_connects_anew_after_an_outage(master: ConnectionInfo) -> None:
    with connection.connect(master, application="a", autocommit=True) as link:
        start = take(link)
        put(link, ("t", "1", "INSERT"))
        end = take(link, start)
        with PostgresReader(master, PREFIX, "public", application="the reader") as reader:
            assert reader.items(Window(start, end)).num_rows == 1
            link.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'the reader'")
            with pytest.raises(DatabaseUnreachable):
                reader.items(Window(start, end))
            assert reader.items(Window(start, end)).num_rows == 1
