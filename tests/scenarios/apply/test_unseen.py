"""Rows that change without a trigger: the table is left out, with the reason, until it is loaded; others continue."""

from collections.abc import Callable

import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.table_state import TableState
from sluice.vendors.postgres.source.tables_registry import Registry
from tests.rig.rig import Rig

T, OTHER = TableName("public", "t"), TableName("public", "other")
TABLES = "CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE TABLE public.other (id int PRIMARY KEY, v text)"
PARTED = (
    "CREATE TABLE public.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); "
    "CREATE TABLE public.t_1 PARTITION OF public.t FOR VALUES FROM (0) TO (100)"
)


@pytest.mark.parametrize(
    ("tables", "statement", "reason"),
    [
        (TABLES, "ALTER TABLE public.t SET UNLOGGED", "t is unlogged: a crash of the master empties it"),
        (TABLES, "ALTER TABLE public.t DISABLE TRIGGER ALL", "is disabled"),
        (TABLES, 'ALTER TABLE public.t ENABLE REPLICA TRIGGER "%s"', "is disabled"),
        (
            f"{PARTED}; CREATE TABLE public.other (id int PRIMARY KEY, v text)",
            "ALTER TABLE public.t_1 SET UNLOGGED",
            "t_1 is unlogged",
        ),
        (
            f"{PARTED}; CREATE TABLE public.other (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); "
            "CREATE TABLE public.other_1 PARTITION OF public.other DEFAULT",
            "ALTER TABLE public.other ATTACH PARTITION public.t FOR VALUES FROM (0) TO (100)",
            "it has become a partition of public.other",
        ),
    ],
)
def test_a_table_whose_changes_no_trigger_sees_is_left_out(
    rig: Callable[..., Rig], tables: str, statement: str, reason: str
) -> None:
    pair = rig(tables)
    with pair.apply() as running:
        pair.await_normal_mode(running)
        (trigger,) = pair.master.execute(
            "SELECT min(tgname) FROM pg_trigger WHERE tgrelid = 'public.t'::regclass AND tgname ~ '_i$'"
        ).fetchone() or ("",)
        pair.master.execute(statement.replace("%s", trigger).encode())
        pair.master.execute("SELECT public.demo_tell_unseen()")
        pair.await_that(lambda: T in pair.checkpoint.tables)
        assert reason in pair.checkpoint.tables.explain(T)
        pair.master.execute("INSERT INTO public.other VALUES (1, 'a')")
        pair.await_current()
        pair.assert_equal([OTHER])
        assert pair.checkpoint.tables.not_ready == {T: TableState.INCONSISTENT}


def test_triggers_that_are_disabled_for_a_moment_are_told_of_by_event_triggers(
    rig: Callable[..., Rig], postgres: PostgresServer
) -> None:
    pair = rig(TABLES)
    with postgres.connect(pair.master_info.database) as administrator:
        administrator.execute(sql_files.render("postgres", "event_triggers", prefix="demo_", schema="public"))
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.master.execute("ALTER TABLE public.t DISABLE TRIGGER ALL")
        pair.master.execute("INSERT INTO public.t VALUES (1, 'unseen')")
        pair.master.execute("ALTER TABLE public.t ENABLE TRIGGER ALL")
        pair.await_that(lambda: T in pair.checkpoint.tables)
        assert "is disabled" in pair.checkpoint.tables.explain(T)


@pytest.mark.long
def test_a_table_that_a_subscription_writes_is_refused_and_left_out(
    rig: Callable[..., Rig], database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    source = database()
    pair = rig(TABLES)
    with postgres.connect(source.database) as at_source, postgres.connect(pair.master_info.database) as administrator:
        at_source.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE public.t")
        at_source.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        with pair.apply() as running:
            pair.await_normal_mode(running)
            # On one server the slot must be there before.
            administrator.execute(
                f"CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port={source.port} dbname={source.database} "
                f"user={source.user} password={source.password}' PUBLICATION p WITH (create_slot = false)".encode()
            )
            try:
                at_source.execute("INSERT INTO public.t VALUES (1, 'by the subscription')")
                # Found by the apply, within half a minute.
                pair.await_that(lambda: T in pair.checkpoint.tables)
                assert "the subscription s writes into it" in pair.checkpoint.tables.explain(T)
                unfit = Registry(pair.master, pair.pair.prefix, "public").examine([T, OTHER])
                assert list(unfit) == [T] and "is written by the subscription s" in unfit[T]
            finally:
                administrator.execute("ALTER SUBSCRIPTION s DISABLE")
                administrator.execute("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
                administrator.execute("DROP SUBSCRIPTION s")
                at_source.execute("SELECT pg_drop_replication_slot('s') FROM pg_replication_slots WHERE NOT active")
