"""What the owner of a table changes while the account waits, or what it does not see yet, runs none of his code."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.database.errors import DatabaseError
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres import sessions
from sluice.vendors.postgres.connection import PostgresSession
from sluice.vendors.postgres.source.owner_code import OwnerCode
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.vendor import POSTGRES
from tests.sql.intruder import Intruder, intruding
from tests.waiting import until

pytestmark = pytest.mark.releases

MINE = TableName("app", "mine")
NOW_TRUE = (
    "CREATE FUNCTION app.now_true() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
    "$$ BEGIN PERFORM app.say('constant part of a key'); RETURN true; END $$"
)
KEY = "LIST ((CASE WHEN app.now_true() THEN id / 100 END))"
AUDIT = (
    "CREATE TABLE app.audit (what text)",
    "CREATE FUNCTION app.audit() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO app.audit VALUES (TG_OP); RETURN NULL; END $$",
    "CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON app.mine FOR EACH ROW EXECUTE FUNCTION app.audit()",
)
"""A trigger that may change rows of the table again: the capture reads the present row then."""


@pytest.fixture
def intruder(database: Callable[..., ConnectionInfo], postgres: PostgresServer) -> Iterator[Intruder]:
    with intruding(database, postgres, event_triggers=False) as made:
        yield made


def _while_it_waits(
    intruder: Intruder, account: psycopg.Connection[tuple[object, ...]], work: Callable[[], object], *changes: str
) -> None:
    """Runs `work` in the account's session, and commits `changes` once it waits for their locks."""
    with closing(intruder.session()) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN")
        for change in changes:
            other.execute(change.encode())
        intruder.heard.clear()
        pid = account.info.backend_pid
        working = pool.submit(work)
        blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
        until(lambda: working.done() or intruder.administrator.value(blocked, [pid]), pause=0.005)
        assert not working.done(), working.exception()
        other.execute("COMMIT")
        with suppress(SluiceError, psycopg.Error):
            working.result()


def test_a_partitioned_table_that_takes_the_name_while_a_trigger_waits_gets_none(intruder: Intruder) -> None:
    intruder.run("CREATE TABLE app.mine (id int PRIMARY KEY, v text)", NOW_TRUE)
    intruder.master.register(MINE)
    intruder.run("DROP TABLE app.mine")
    intruder.compare()
    intruder.run(
        "CREATE TABLE app.mine (id int PRIMARY KEY, v text)",
        f"CREATE TABLE app.tree (id int, v text) PARTITION BY {KEY}",
        "CREATE TABLE app.tree_1 PARTITION OF app.tree FOR VALUES IN (1)",
    )
    _while_it_waits(
        intruder, intruder.master.connection, intruder.compare,
        "ALTER TABLE app.mine RENAME TO former", "ALTER TABLE app.tree RENAME TO mine",
    )  # fmt: skip
    assert intruder.gained() == []
    intruder.compare()
    assert intruder.gained() == []


def test_a_partition_that_is_attached_while_a_trigger_waits_gets_none(intruder: Intruder) -> None:
    intruder.run(
        "CREATE TABLE app.mine (id int, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES FROM (0) TO (100)",
        NOW_TRUE,
        f"CREATE TABLE app.tree (id int, v text) PARTITION BY {KEY}",
        "CREATE TABLE app.tree_1 PARTITION OF app.tree FOR VALUES IN (1)",
    )
    intruder.master.register(MINE)
    ((name,),) = intruder.administrator.rows(
        "SELECT tgname FROM pg_trigger WHERE tgrelid = 'app.mine'::regclass AND tgname LIKE '!%\\_i'"
    )
    intruder.run(f'DROP TRIGGER "{name}" ON app.mine', *AUDIT)
    attach = "ALTER TABLE app.mine ATTACH PARTITION app.tree FOR VALUES FROM (100) TO (200)"
    with closing(intruder.session()) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN")
        other.execute(attach.encode())
        intruder.heard.clear()
        comparing = pool.submit(intruder.compare)
        blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
        pid = intruder.master.connection.info.backend_pid
        until(lambda: comparing.done() or intruder.administrator.value(blocked, [pid]), pause=0.005)
        other.execute("COMMIT")
        comparing.result()
    assert intruder.gained() == []
    intruder.compare()
    assert intruder.gained() == []
    assert [item.action for item in intruder.master.items() if item.table == MINE][-1] == "DIFFER"


@pytest.mark.parametrize("changes", [
    ("CREATE INDEX planned ON app.mine_2 ((n + app.constant(1)))",),
    ("CREATE INDEX planned ON app.mine_2 (n) WHERE n > app.constant(1)",),
    ("CREATE TABLE app.mine_3 PARTITION OF app.mine FOR VALUES IN ('c')",
     "CREATE INDEX planned ON app.mine_3 ((n + app.constant(1)))"),
], ids=["expression", "predicate", "partition"])  # fmt: skip
def test_what_a_transaction_does_not_see_yet_is_not_computed_for_it(
    intruder: Intruder, changes: tuple[str, ...]
) -> None:
    intruder.run(
        "CREATE TYPE app.kind AS ENUM ('a', 'b', 'c')",
        "CREATE TABLE app.mine (k app.kind, id int, n int, PRIMARY KEY (k, id)) PARTITION BY LIST (k)",
        "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES IN ('a')",
        "CREATE TABLE app.mine_2 PARTITION OF app.mine FOR VALUES IN ('b')",
        *AUDIT,
        "INSERT INTO app.mine VALUES ('a', 1, 1), ('a', 2, 2), ('b', 3, 3)",
    )
    intruder.master.register(MINE)
    intruder.connection = intruder.session()
    intruder.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class")
    with closing(intruder.session()) as other:
        for change in changes:
            other.execute(change.encode())
    intruder.heard.clear()
    # Its own query needs only the first partition, and computes nothing of the others.
    intruder.run("DELETE FROM app.mine WHERE k = 'a' AND id = 2", "COMMIT")
    assert intruder.gained() == []
    assert "DIFFER" in [item.action for item in intruder.master.items()]


def test_one_that_it_sees_keeps_nothing_from_being_captured_in_any_isolation(intruder: Intruder) -> None:
    intruder.run(
        "CREATE TABLE app.mine (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)",
        "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES FROM (0) TO (1000000)",
        "CREATE INDEX ON app.mine (n)",
        *AUDIT,
        "INSERT INTO app.mine VALUES (1, 1), (2, 2), (3, 3)",
    )
    intruder.master.register(MINE)
    for isolation in ("REPEATABLE READ", "SERIALIZABLE"):
        intruder.run(f"BEGIN ISOLATION LEVEL {isolation}", "SELECT count(*) FROM pg_class")
        with closing(intruder.session()) as other:  # the indexes grow meanwhile
            first = 1000 + len(isolation)
            other.execute(f"INSERT INTO app.mine SELECT g, g FROM generate_series({first}, 20000, 20) g".encode())
        intruder.run("DELETE FROM app.mine WHERE id = 2", "INSERT INTO app.mine VALUES (2, 2)", "COMMIT")
    assert "DIFFER" not in [item.action for item in intruder.master.items()]


def test_a_rewrite_of_a_transaction_that_does_not_see_an_index_computes_nothing(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=True) as intruder:
        intruder.run("CREATE TABLE app.mine (id int PRIMARY KEY, n int, m int)")
        intruder.run("INSERT INTO app.mine VALUES (1, 1, 1)")
        intruder.master.register(MINE)
        intruder.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class")
        with closing(intruder.session()) as other:
            other.execute("CREATE INDEX planned ON app.mine ((n + app.constant(1)))")
        intruder.run("ALTER TABLE app.mine ALTER m TYPE bigint USING m * 2", "COMMIT")
        assert intruder.gained() == []


def test_a_table_that_is_made_again_with_a_key_of_the_owner_fails_no_statement(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=True) as intruder:
        intruder.run("CREATE TABLE app.mine (id int PRIMARY KEY, v text)", NOW_TRUE)
        intruder.master.register(MINE)
        intruder.run(
            "DROP TABLE app.mine",
            f"CREATE TABLE app.mine (id int, v text) PARTITION BY {KEY}",
            "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES IN (1)",
            "INSERT INTO app.mine VALUES (100, 'a')",
        )
        intruder.compare()
        intruder.compare()
        assert intruder.gained() == []
        told = [item.content or "" for item in intruder.master.items() if item.action == "DIFFER"]
        assert len(told) == 1 and "the partition key of app.mine calls app.now_true()" in told[0]


@contextmanager
def _reader(intruder: Intruder) -> Iterator[PostgresSession]:
    """A session of the product on the master, whose warnings are heard."""
    info = replace(intruder.master.info, trusts_owners=False)
    with closing(sessions.connect(info, application="test", autocommit=True)) as session:
        session.execute("SET client_min_messages = warning")
        intruder.listen(session)
        yield session


VIEW = "CREATE VIEW app.mine AS SELECT id, n FROM app.former WHERE app.boom() AND app.constant(1) = 1"


def test_a_view_that_takes_the_name_while_a_reader_waits_is_not_read(intruder: Intruder) -> None:
    intruder.run("CREATE TABLE app.mine (id int PRIMARY KEY, n int)", "INSERT INTO app.mine VALUES (1, 1), (2, 2)")
    intruder.run(f'ALTER DEFAULT PRIVILEGES IN SCHEMA app GRANT SELECT ON TABLES TO "{intruder.master.info.user}"')
    with _reader(intruder) as session:
        shape = POSTGRES.rows.shape(session, MINE)
        assert shape is not None
        order = POSTGRES.rows.key_order(session, shape)
        queue = PostgresQueue(session, Prefix("DEMO_"), "sluice")

        def block() -> None:
            with queue.reading(shape) as read:
                session.execute(order.select(read.shape.columns, None, None).encode())

        for read in (
            lambda: order.next_bound(session, ("0",), None, 1),
            lambda: queue.row_counts([MINE]),
            block,
            lambda: POSTGRES.selection.check(session, order, "n > 0", "here"),
        ):
            _while_it_waits(intruder, session, read, "ALTER TABLE app.mine RENAME TO former", VIEW)
            assert intruder.gained() == []
            session.rollback()
            with suppress(OwnerCode, DatabaseError):
                read()
            assert intruder.gained() == [], "nor of one that has the name"
            session.rollback()
            intruder.run("DROP VIEW app.mine", "ALTER TABLE app.former RENAME TO mine")


def test_rows_of_a_table_that_joins_are_not_counted_where_that_runs_code_of_its_owner_or_waits(
    intruder: Intruder,
) -> None:
    intruder.run(
        "CREATE TABLE app.mine (id int PRIMARY KEY, n int)", "INSERT INTO app.mine VALUES (1, 1)",
        "ALTER TABLE app.mine ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON app.mine USING (app.boom())",
        "CREATE TABLE app.hidden (id int PRIMARY KEY)", "ALTER TABLE app.hidden ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON app.hidden USING (xpath_exists('/x', query_to_xml('SELECT app.boom()', false, false, '')))",
        "CREATE TABLE app.plain (id int PRIMARY KEY)", "INSERT INTO app.plain VALUES (1), (2)",
        "CREATE TABLE app.locked (id int PRIMARY KEY)",
    )  # fmt: skip
    names = [TableName("app", name) for name in ("mine", "hidden", "locked", "plain")]
    with _reader(intruder) as session, closing(intruder.session()) as other:
        other.execute("BEGIN; LOCK TABLE app.locked")
        counts = PostgresQueue(session, Prefix("DEMO_"), "sluice").row_counts(names)
    assert intruder.gained() == []
    assert [counts[name].exact for name in names] == [False, False, False, True]
    assert counts[names[3]].number == 2


@pytest.mark.parametrize("multirange", [False, True], ids=["range", "multirange"])
def test_a_key_whose_range_measures_itself_by_a_function_of_the_owner_is_not_compared(
    intruder: Intruder, multirange: bool
) -> None:
    value = "app.spans(app.span(g, g + 1))" if multirange else "app.span(g, g + 1)"
    intruder.run(
        "CREATE FUNCTION app.apart(a float8, b float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS "
        "$$ BEGIN PERFORM app.say('difference of a range'); RETURN a - b; END $$",
        "CREATE TYPE app.span AS RANGE (subtype = float8, subtype_diff = app.apart, multirange_type_name = app.spans)",
        f"CREATE TABLE app.mine (id {'app.spans' if multirange else 'app.span'} PRIMARY KEY, n int)",
        f"INSERT INTO app.mine SELECT {value}, g FROM generate_series(1, 500) g",
        "ANALYZE app.mine",
    )
    key = "{[7,8)}" if multirange else "[7,8)"
    with _reader(intruder) as session:
        shape = POSTGRES.rows.shape(session, MINE)
        assert shape is not None
        order = POSTGRES.rows.key_order(session, shape)
        intruder.heard.clear()
        with pytest.raises(OwnerCode, match=r"app\.apart"):
            order.next_bound(session, (key,), None, 1)
        assert intruder.gained() == []
        session.trusts_owners = True
        order.next_bound(session, (key,), None, 1)
        assert intruder.gained(), "so it is needed"
