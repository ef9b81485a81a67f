"""A reader that expects ITEMS as xmlBlaster documents it reads a view."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice import sql_files
from sluice.capture import uninstall
from sluice.model import content
from sluice.vendors.postgres.connection import connect
from tests.examples import examples
from tests.sql.master import Master

TEXTS = ("", None, "]]>", "a]", "a]]", "<![CDATA[", "</col>", '<col name="n">x</col>', "\x01", "&amp;", "'\"", "x" * 9)
NAMED = 'CREATE TABLE odd (id int PRIMARY KEY, v text, n int, "a""b<&>" text)'


@pytest.fixture
def viewed(master: Master) -> Master:
    """A master with the view, and a table with an odd column."""
    master.sql(sql_files.render("postgres", "items_view", prefix="demo_", schema="public"), NAMED)
    master.register("odd")
    return master


def test_the_columns_have_the_documented_types(viewed: Master) -> None:
    found = viewed.rows(
        "SELECT a.attname, a.atttypid::regtype::text FROM pg_attribute a "
        "WHERE a.attrelid = 'demo_items_view'::regclass AND a.attnum > 0 ORDER BY a.attnum"
    )
    others = {"repl_key": "numeric", "content": "text", "oldcontent": "text"}
    assert all(kind == others.get(name, "character varying") for name, kind in found)
    assert [name for name, _ in found] == [
        "repl_key", "trans_key", "dbid", "tablename", "guid", "db_action", "db_catalog", "db_schema", "content",
        "oldcontent", "version",
    ]  # fmt: skip


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(before=st.lists(st.sampled_from(TEXTS), min_size=2, max_size=2),
       after=st.lists(st.sampled_from(TEXTS), min_size=2, max_size=2))  # fmt: skip
def test_oldcontent_of_an_update_is_the_whole_row_before_it(
    viewed: Master, before: list[str | None], after: list[str | None]
) -> None:
    viewed.sql("DELETE FROM odd")
    viewed.connection.execute("INSERT INTO odd VALUES (1, %s, 7, %s)", before)
    viewed.connection.execute('UPDATE odd SET v = %s, "a""b<&>" = %s WHERE id = 1', after)
    ((old, new),) = viewed.rows(
        "SELECT oldcontent, content FROM demo_items_view WHERE db_action = 'UPDATE' ORDER BY repl_key DESC LIMIT 1"
    )
    row = {"id": "1", "v": before[0], "n": "7", 'a"b<&>': before[1]}
    assert content.parse(old) == list(row.items())
    assert dict(content.parse(new)) == {**row, "v": after[0], 'a"b<&>': after[1]}


def test_other_changes_are_as_in_items_and_the_view_goes_with_the_prefix(viewed: Master) -> None:
    viewed.sql("INSERT INTO odd VALUES (1, 'a<b', 7, 'c')", "DELETE FROM odd", "TRUNCATE odd")
    for column in ("content", "oldcontent", "db_action", "tablename"):
        assert viewed.rows(f"SELECT {column} FROM demo_items_view ORDER BY repl_key") == viewed.rows(
            f"SELECT {column} FROM demo_items ORDER BY repl_key"
        )
    with connect(viewed.info, application="test", autocommit=True) as connection:
        assert uninstall.leave_master(connection, viewed.prefix, viewed.schema, ())
    assert viewed.value("SELECT to_regclass('demo_items_view') IS NULL")
