"""Code of a table's owner never runs with the rights of the capture's account, and one owner stops nobody else."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.shape import TableShape
from sluice.vendors.postgres import row_selection, sessions
from sluice.vendors.postgres.connection import PostgresSession
from sluice.vendors.postgres.key_order import locate
from sluice.vendors.postgres.source.owner_code import OwnerCode
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.vendor import POSTGRES
from tests.sql.intruder import RUNS_TEXT, Intruder, intruding
from tests.sql.master import wanted

MINE = TableName("app", "mine")
OTHER = TableName("app", "other")

BUCKET = (
    "CREATE FUNCTION app.bucket(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
    "$$ BEGIN PERFORM app.say('bucket'); RETURN n / 100; END $$"
)
TREE = (
    BUCKET,
    "CREATE TABLE app.mine (id int, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES FROM (0) TO (100)",
    # Only the key of this sub-partitioned table calls the owner's function.
    "CREATE TABLE app.mine_2 PARTITION OF app.mine FOR VALUES FROM (100) TO (200) PARTITION BY LIST (app.bucket(id))",
    "CREATE TABLE app.mine_2_1 PARTITION OF app.mine_2 FOR VALUES IN (1)",
    "INSERT INTO app.mine VALUES (1, 'a'), (101, 'b')",
)


def test_a_recorded_bound_of_a_dropped_sub_partition_runs_no_function_of_the_owner_by_comparison(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=False) as intruder:
        intruder.run(*TREE)
        intruder.master.register(MINE)
        intruder.compare()
        intruder.heard.clear()
        intruder.run(
            "BEGIN",
            "DROP TABLE app.mine_2",  # with it goes all that pg_depend says of app.bucket
            "CREATE TABLE app.mine_3 PARTITION OF app.mine FOR VALUES FROM (100) TO (200)",
            "INSERT INTO app.mine VALUES (150, 'x')",
            "COMMIT",
        )
        intruder.compare()
        assert intruder.gained() == []


def test_nor_when_event_triggers_follow_the_drop(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=True) as intruder:
        intruder.run(*TREE)
        intruder.master.register(MINE)
        intruder.run(
            "CREATE FUNCTION app.now_true() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
            "$$ BEGIN PERFORM app.say('now_true'); RETURN true; END $$",
            # Inlined by the planner, which then calculates its constant part.
            "CREATE OR REPLACE FUNCTION app.bucket(n int) RETURNS int LANGUAGE sql IMMUTABLE AS "
            "'SELECT CASE WHEN app.now_true() THEN n / 100 END'",
        )
        intruder.heard.clear()
        intruder.run("DROP TABLE app.mine_2")
        assert intruder.gained() == []


def test_the_constant_part_of_a_partition_key_is_not_calculated_when_bounds_are_noted(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    """pg_get_partition_constraintdef() loads the key, and PostgreSQL then calculates its constant parts."""
    with intruding(database, postgres, event_triggers=False) as intruder:
        intruder.run(*TREE[:4])
        intruder.run("CREATE TABLE app.mine_2_1 PARTITION OF app.mine_2 FOR VALUES IN (1)")
        intruder.master.register(MINE)
        intruder.run(
            "CREATE FUNCTION app.now_true() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
            "$$ BEGIN PERFORM app.say('now_true'); RETURN true; END $$",
            "CREATE TABLE app.mine_4 PARTITION OF app.mine FOR VALUES FROM (400) TO (500)"
            " PARTITION BY LIST ((CASE WHEN app.now_true() THEN id / 100 END))",
            "CREATE TABLE app.mine_4_1 PARTITION OF app.mine_4 FOR VALUES IN (4)",
        )
        intruder.heard.clear()
        intruder.compare()
        intruder.compare()
        assert intruder.gained() == []


def test_the_judgement_on_unreadable_follows_leaves_of_sub_partitioned_tables(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=False) as intruder:
        intruder.run(
            "CREATE TYPE app.kind AS ENUM ('a', 'b', 'c')",
            "CREATE TABLE app.mine (k app.kind, id int, n int, PRIMARY KEY (k, id)) PARTITION BY LIST (k)",
            "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES IN ('a', 'b') PARTITION BY LIST (k)",
            "CREATE TABLE app.mine_1_1 PARTITION OF app.mine_1 FOR VALUES IN ('a')",
            "CREATE TABLE app.audit (what text)",
            "CREATE FUNCTION app.audit() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO app.audit VALUES (TG_OP); RETURN NULL; END $$",
            "CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON app.mine "
            "FOR EACH ROW EXECUTE FUNCTION app.audit()",
            "INSERT INTO app.mine VALUES ('a', 1, 1), ('a', 2, 2), ('a', 3, 3)",
        )
        intruder.master.register(MINE)
        # The session's functions are compiled, and "readable" is remembered.
        for _ in range(2):
            intruder.run("INSERT INTO app.mine VALUES ('a', 9, 9)", "DELETE FROM app.mine WHERE k = 'a' AND id = 9")
        other = intruder.session()
        other.execute("CREATE TABLE app.mine_1_2 PARTITION OF app.mine_1 FOR VALUES IN ('b')")
        other.execute("CREATE INDEX planned ON app.mine_1_2 ((n + app.constant(1)))")
        intruder.heard.clear()
        intruder.run("DELETE FROM app.mine WHERE k = 'a' AND id = 2")  # before the next comparison
        other.close()
        assert intruder.gained() == []


def test_one_owner_stops_not_the_comparison_of_other_tables(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=False) as intruder:
        intruder.run(
            "CREATE TABLE app.mine (id int PRIMARY KEY, v text)", "CREATE TABLE app.other (id int PRIMARY KEY, v text)"
        )
        intruder.master.register(MINE, OTHER)
        _takes_away_trigger(intruder)
        intruder.run("ALTER TABLE app.other ADD w int")
        intruder.compare()
        intruder.compare()
        items = [(item.action, item.table) for item in intruder.master.items(ddl=True)]
        assert items.count(("ALTER", OTHER)) == 1
        assert items.count(("DIFFER", MINE)) == 1, "told once"
        intruder.run(f'GRANT TRIGGER ON app.mine TO "{intruder.master.connection.info.user}"')
        intruder.compare()
        assert intruder.master.rows("SELECT * FROM sluice.demo_capture_faults()") == []


def _takes_away_trigger(intruder: Intruder) -> None:
    account = intruder.master.connection.info.user
    intruder.run(
        f'REVOKE TRIGGER ON app.mine FROM "{account}"',
        "CREATE FUNCTION app.again() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN UPDATE app.mine SET v = v WHERE false; RETURN NULL; END $$",
        "CREATE TRIGGER again AFTER INSERT ON app.mine FOR EACH ROW EXECUTE FUNCTION app.again()",
    )


def test_a_trigger_made_in_advance_under_our_name_concerns_its_table_alone(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=False) as intruder:
        intruder.run(
            "CREATE TABLE app.mine (id int PRIMARY KEY, v text)", "CREATE TABLE app.other (id int PRIMARY KEY, v text)"
        )
        intruder.master.register(MINE, OTHER)
        ((name,),) = intruder.administrator.rows("SELECT trigger_name FROM sluice.demo_tables WHERE tablename = 'mine'")
        intruder.run(
            "CREATE FUNCTION app.again() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN UPDATE app.mine SET v = v WHERE false; RETURN NULL; END $$",
            f'CREATE TRIGGER "!{name}_i" AFTER INSERT ON app.mine FOR EACH ROW EXECUTE FUNCTION app.again()',
            "ALTER TABLE app.other ADD w int",
        )
        intruder.compare()
        intruder.compare()
        items = [(item.action, item.table) for item in intruder.master.items(ddl=True)]
        assert items.count(("ALTER", OTHER)) == 1
        assert items.count(("DIFFER", MINE)) == 1


def test_a_table_that_may_not_be_captured_is_told_and_the_others_are_captured(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=False) as intruder:
        intruder.run(*TREE, "CREATE TABLE app.other (id int PRIMARY KEY, v text)")
        intruder.heard.clear()
        report = intruder.master.reconcile(wanted(MINE), wanted(OTHER))
        assert intruder.gained() == []
        assert "the partition key of app.mine_2 calls app.bucket(integer)" in report.refused[MINE]
        assert list(report.refused) == [MINE]
        intruder.run("INSERT INTO app.other VALUES (1, 'a')", "INSERT INTO app.mine VALUES (2, 'a')")
        assert [(item.action, item.table) for item in intruder.master.items()] == [("DIFFER", MINE), ("INSERT", OTHER)]
        intruder.run("DROP TABLE app.mine_2")
        assert not intruder.master.reconcile(wanted(MINE), wanted(OTHER)).refused
        intruder.run("INSERT INTO app.mine VALUES (3, 'a')")
        assert [item.action for item in intruder.master.items() if item.table == MINE] == ["DIFFER", "INSERT"]


def _block(session: PostgresSession, shape: TableShape) -> None:
    with PostgresQueue(session, Prefix("DEMO_"), "sluice").reading(shape) as block:
        session.execute(POSTGRES.rows.key_order(session, block.shape).select(shape.columns, None, None).encode())


def _digest(session: PostgresSession, shape: TableShape) -> None:
    POSTGRES.rows.begin_snapshot(session)
    POSTGRES.digests.hold(session, shape)
    session.execute(f"SELECT count(*) FROM {POSTGRES.rows.key_order(session, shape).source}".encode())
    session.execute("COMMIT")


def _condition(session: PostgresSession, shape: TableShape) -> None:
    row_selection.check(session, POSTGRES.rows.key_order(session, shape), "n > 0", "here")


def _bound(session: PostgresSession, shape: TableShape) -> None:
    POSTGRES.rows.key_order(session, shape).next_bound(session, ("0",), None, 1)


def _places(session: PostgresSession, shape: TableShape) -> None:
    """As the apply finds the block of a changed row."""
    locate(session, shape, [("0",)], [("1",)])


def _chosen_key(session: PostgresSession, shape: TableShape) -> None:
    row_selection.key_of(session, shape, "1")
    row_selection.in_order(session, shape, [("1",), ("0",)])


READERS: tuple[Callable[[PostgresSession, TableShape], None], ...] = (
    _block, _digest, _condition, _bound, _places, _chosen_key,
)  # fmt: skip


@contextmanager
def _reader(intruder: Intruder, *, trusts_owners: bool) -> Iterator[PostgresSession]:
    """A session of the product, whose warnings are heard."""
    info = replace(intruder.master.info, trusts_owners=trusts_owners)
    with closing(sessions.connect(info, application="test", autocommit=True)) as session:
        session.execute("SET client_min_messages = warning")
        intruder.listen(session)
        yield session


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("call", "function"), [
    ("CREATE INDEX planned ON app.mine_1 ((n + app.constant(1)))", r"app\.constant\(integer\)"),
    ("ALTER TABLE app.mine ADD CHECK (n > app.constant(1) OR n IS NULL)", r"app\.constant\(integer\)"),
    ("CREATE INDEX planned ON app.mine_1 ((n + public.mapalgebra(1, 'SELECT 1 FROM app.say(''text'')')))",
     r"public\.mapalgebra\(integer,text\)"),
    ("ALTER DOMAIN app.number ADD CHECK (app.boom())", r"app\.boom\(\)"),
    ("ALTER DOMAIN app.base ADD CHECK (app.boom())", r"app\.boom\(\)"),
    ("ALTER DOMAIN app.base ADD CHECK (ts_rewrite('a', $$ SELECT 'a'::tsquery, 'b'::tsquery FROM app.say('query') $$) "
     "IS NOT NULL)", r"ts_rewrite\(tsquery,text\)"),
], ids=["index", "check", "text", "domain", "domain below", "query of a domain"])  # fmt: skip
def test_rows_are_read_no_more_once_an_expression_calls_a_function_of_the_owner(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer, call: str, function: str
) -> None:
    """Loads, comparisons and conditions; the table was harmless when `check` saw it."""
    with intruding(database, postgres, event_triggers=False) as intruder:
        intruder.administrator.sql(RUNS_TEXT)
        intruder.run(
            "CREATE DOMAIN app.base AS int",
            "CREATE DOMAIN app.number AS app.base",
            "CREATE TABLE app.mine (id app.number PRIMARY KEY, n int) PARTITION BY RANGE (id)",
            "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES FROM (0) TO (100)",
            "INSERT INTO app.mine VALUES (1, 2)",
        )
        intruder.master.register(MINE)
        with _reader(intruder, trusts_owners=False) as session, _reader(intruder, trusts_owners=True) as trusting:
            shape = POSTGRES.rows.shape(session, MINE)
            assert shape is not None
            for read in READERS:
                read(session, shape)
            exporter = intruder.master.session()
            POSTGRES.rows.begin_snapshot(exporter)  # type: ignore[arg-type]
            exported = POSTGRES.rows.export_snapshot(exporter)  # type: ignore[arg-type]
            intruder.run(call)
            intruder.heard.clear()
            for read in READERS:
                with pytest.raises(OwnerCode, match=f"app.mine is not read: .* calls {function} of .*allow_"):
                    read(session, shape)
                session.execute("ROLLBACK")
            with (
                pytest.raises(OwnerCode),
                POSTGRES.rows.reading_exported(session, shape, exported, None),  # type: ignore[arg-type]
            ):
                raise AssertionError("a snapshot that is older than the index hides it, and planning runs the function")
            exporter.close()
            assert intruder.gained() == []
            for read in READERS:
                read(trusting, shape)
            assert intruder.gained(), "allow_owner_code: true reads it, with what that runs"


KEYS = (
    "CREATE TABLE app.ranged (a int, b text, c timestamptz, d bigint) PARTITION BY RANGE (a, c, b)",
    "CREATE TABLE app.r1 PARTITION OF app.ranged FOR VALUES FROM (0, MINVALUE, MINVALUE)"
    " TO (10, '2024-01-01', 'x''y\\z')",
    "CREATE TABLE app.r2 PARTITION OF app.ranged FOR VALUES FROM (10, '2024-01-01', 'x''y\\z')"
    " TO (MAXVALUE, MAXVALUE, MAXVALUE)",
    "CREATE TABLE app.r0 PARTITION OF app.ranged DEFAULT",
    "CREATE TABLE app.listed (a int, b text, c timestamptz, d bigint) PARTITION BY LIST (b)",
    "CREATE TABLE app.l1 PARTITION OF app.listed FOR VALUES IN ('a', NULL, 'it''s, (b)', E'x\\ny')",
    "CREATE TABLE app.l2 PARTITION OF app.listed FOR VALUES IN ('z')",
    "CREATE TABLE app.l0 PARTITION OF app.listed DEFAULT PARTITION BY LIST (d)",
    "CREATE TABLE app.l3 PARTITION OF app.l0 FOR VALUES IN (1, -5)",
    "CREATE TABLE app.l4 PARTITION OF app.l0 FOR VALUES IN (NULL)",
    "CREATE TABLE app.l5 PARTITION OF app.l0 DEFAULT PARTITION BY HASH (a, c)",
    "CREATE TABLE app.l6 PARTITION OF app.l5 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    "CREATE TABLE app.l7 PARTITION OF app.l5 FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
)


@pytest.mark.releases
def test_a_bound_put_together_from_the_catalogue_means_the_rows_of_its_partition(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=False) as intruder:
        administrator = intruder.administrator
        intruder.run(*KEYS)
        for table in ("ranged", "listed"):
            administrator.sql(
                f"INSERT INTO app.{table} SELECT a, b, c, d FROM (VALUES (NULL), (-5), (0), (9), (10), (30)) a (a), "
                "(VALUES (NULL), ('a'), ('it''s, (b)'), (E'x\\ny'), ('x''y\\z'), ('x''y\\zz'), ('z'), ('')) b (b), "
                "(VALUES (NULL), (timestamptz '2024-01-01'), ('2023-12-31'), ('2025-01-01')) c (c), "
                "(VALUES (NULL), (1), (-5), (7)) d (d)"
            )
        leaves = administrator.rows(
            "SELECT relid::text, pg_partition_root(relid)::text, sluice.demo_rows_of_leaf(relid) FROM "
            "(SELECT relid, isleaf FROM pg_partition_tree('app.ranged') "
            "UNION ALL SELECT relid, isleaf FROM pg_partition_tree('app.listed')) t WHERE isleaf"
        )
        assert len(leaves) == 9
        for leaf, root, condition in leaves:
            assert administrator.value(f"SELECT count(*) FROM {leaf}") > 0
            wrong = f"({condition}) IS TRUE <> (tableoid = '{leaf}'::regclass)"
            assert administrator.value(f"SELECT count(*) FROM {root} WHERE {wrong}") == 0, condition
