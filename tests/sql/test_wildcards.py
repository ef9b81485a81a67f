"""New tables that match a wildcard are captured in the transaction that creates them."""

from collections.abc import Callable
from fnmatch import fnmatchcase

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.capture import resources
from sluice.configuration.rule import ALL_ACTIONS, TablePattern
from sluice.database.capture import Line
from sluice.model import table_definition
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.resources import PostgresCapture, regular_expression
from tests.examples import examples
from tests.sql.master import ORDERS, Master

LINES = [
    Line(TablePattern.parse("public.private")),
    Line(TablePattern.parse("public.part*"), frozenset("ID")),
    Line(TablePattern.parse("public.log_?")),
    Line(TablePattern.parse("public.*"), ALL_ACTIONS),
]


@pytest.fixture
def watched(master: Master) -> Master:
    """A master with a wildcard for tables that are created from now on."""
    master.sql(ORDERS)
    master.register("orders")
    note(master, LINES)
    return master


def note(master: Master, lines: list[Line], *, keyed: bool = False) -> None:
    with connect(master.info, application="test", autocommit=True) as connection:
        PostgresCapture(connection, master.prefix, master.schema).note_wildcards(lines, keyed=keyed)


def registered(master: Master) -> dict[str, str]:
    return dict(master.rows("SELECT tablename, trim(actions) FROM demo_tables WHERE tablename <> 'orders'"))


def happened(master: Master) -> list[tuple[str, str]]:
    return [(item.table.name, item.action) for item in master.items(ddl=True) if item.table.name != "orders"]


@pytest.mark.releases
def test_a_table_is_captured_from_its_first_row_in_the_transaction_that_makes_it(watched: Master) -> None:
    with watched.connection.transaction():
        watched.sql(
            'CREATE TABLE "select ""é" (id int PRIMARY KEY, v text)',
            """INSERT INTO "select ""é" VALUES (1, 'first')""",
            """UPDATE "select ""é" SET v = 'then'""",
            "CREATE TABLE parts (id serial, v text)",
            "INSERT INTO parts (v) VALUES ('a')",
            "UPDATE parts SET v = 'not captured'",
        )
    assert registered(watched) == {'select "é': "IUD", "parts": "ID"}
    assert happened(watched) == [
        ('select "é', "CREATE"), ('select "é', "INSERT"), ('select "é', "UPDATE"),
        ("parts", "CREATE"), ("parts", "INSERT"),
    ]  # fmt: skip
    made = [item for item in watched.items(ddl=True) if item.action == "CREATE" and item.table.name != "orders"]
    assert all(table_definition.parse(item.content or "").complete for item in made)
    assert len({item.trans_key for item in watched.items(ddl=True) if item.table.name != "orders"}) == 1


@pytest.mark.releases
def test_a_table_is_renamed_to_the_same_name_again_and_again(watched: Master) -> None:
    """As by a job that builds a table again and puts it in place of the old one. No statement of it fails."""
    for _ in range(3):
        watched.sql(
            "CREATE TABLE built (id int PRIMARY KEY, v text)",
            "INSERT INTO built VALUES (1, 'a')",
            "ALTER TABLE built RENAME TO used",
            "CREATE TRIGGER same BEFORE UPDATE ON used FOR EACH ROW "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "ALTER TABLE used ALTER v TYPE varchar(9), ADD w int",
            "INSERT INTO used VALUES (2, 'b', 3)",
            "DROP TABLE used",
        )
    assert [(name, action) for name, action in happened(watched) if action == "INSERT"] == [
        ("built", "INSERT"), ("used", "INSERT"),
    ] * 3  # fmt: skip


@pytest.mark.releases
def test_a_rolled_back_creation_leaves_nothing(watched: Master) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), watched.connection.transaction():
        watched.sql("CREATE TABLE fleeting (id int PRIMARY KEY)", "SELECT 1 / 0")
    assert (registered(watched), happened(watched)) == ({}, [])
    watched.sql("CREATE TABLE fleeting (id int PRIMARY KEY)", "DROP TABLE fleeting", "CREATE TABLE fleeting (v text)")
    watched.sql("INSERT INTO fleeting VALUES ('a')")
    assert [action for _, action in happened(watched)] == ["CREATE", "DROP", "CREATE", "INSERT"]


def test_other_tables_and_filled_ones_are_not_captured(watched: Master) -> None:
    watched.sql(
        "CREATE TABLE private (id int)",
        "CREATE TABLE log_1 (id int)",
        "CREATE UNLOGGED TABLE quick (id int)",
        "CREATE TEMP TABLE own_session (id int)",
        "CREATE TABLE filled AS SELECT 1 AS id",
        "CREATE SCHEMA other; CREATE TABLE other.t (id int)",
        "CREATE VIEW seen AS SELECT 1 AS id",
        "CREATE TABLE shop_checkpoint (id int); CREATE TABLE shop_stage_1_2_t (id int)",
    )
    with connect(watched.info, application="test") as connection:
        resources.install(connection, Prefix("OTHER_"), "public")
    assert registered(watched) == {}
    watched.sql("CREATE TABLE range (id int) PARTITION BY RANGE (id)")
    watched.sql("CREATE TABLE range_1 PARTITION OF range FOR VALUES FROM (0) TO (9); INSERT INTO range VALUES (1)")
    watched.sql("CREATE TABLE order_items (id int)")
    assert registered(watched) == {"range": "IUD", "order_items": "IUD"}
    assert [item.new for item in watched.items() if item.table.name == "range"] == [{"id": "1"}]
    note(watched, LINES, keyed=True)
    watched.sql("CREATE TABLE keyless (id int)", "CREATE TABLE keyed (id int PRIMARY KEY)")
    note(watched, LINES[:1])
    watched.sql("CREATE TABLE later (id int PRIMARY KEY)")
    assert registered(watched).keys() == {"range", "order_items", "keyed"}


def test_no_statement_fails_where_the_table_cannot_be_captured(watched: Master) -> None:
    notices: list[str] = []
    watched.connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    watched.sql("UPDATE demo_info SET value = replace(value, '^.*$', '(') WHERE name = 'wildcards'")
    watched.sql("CREATE TABLE odd (id int PRIMARY KEY)", "INSERT INTO odd VALUES (1)")
    assert registered(watched) == {} and any("odd is not captured yet" in notice for notice in notices)


def test_it_is_complete_under_repeatable_read(watched: Master) -> None:
    with watched.session(default_transaction_isolation="repeatable read", autocommit=False) as session:
        session.execute("SELECT count(*) FROM orders")
        session.execute("CREATE TABLE made (id int PRIMARY KEY)")
        session.execute("INSERT INTO made VALUES (1)")
    assert happened(watched) == [("made", "CREATE"), ("made", "INSERT")]


def test_serializable_transactions_that_create_tables_at_once_neither_fail_nor_are_told_anything(
    watched: Master,
) -> None:
    heard: list[str] = []
    sessions = [watched.session(default_transaction_isolation="serializable", autocommit=False) for _ in range(2)]
    for number, session in enumerate(sessions):
        session.add_notice_handler(lambda notice: heard.append(str(notice.message_primary)))
        session.execute(f"CREATE TABLE made_{number} (id int PRIMARY KEY)".encode())
    for number, session in enumerate(sessions):
        session.execute(f"INSERT INTO made_{number} VALUES (1)".encode())
        session.commit()
        session.close()
    assert (heard, happened(watched)) == ([], []), "they join by reconcile_tables"


@pytest.mark.long
def test_a_wildcard_means_here_what_it_means_in_the_configuration(database: Callable[..., ConnectionInfo]) -> None:
    letters = st.text(alphabet="ab*?[]!-^\\.(){}|$+é_ \n'\"", max_size=8)
    with connect(database(), application="test", autocommit=True) as connection:

        @given(letters, letters)
        @example("[!]a]*", "b")
        @example("[]-a]", "^")
        @example("[z-a]", "z")
        @example("[!z-a]", "z")
        @example("[a-]", "-")
        @settings(max_examples=examples(400), deadline=None)
        def alike(wildcard: str, name: str) -> None:
            row = connection.execute("SELECT %s::text ~ %s", [name, regular_expression(wildcard)]).fetchone()
            assert row == (fnmatchcase(name, wildcard),), regular_expression(wildcard)

        alike()
