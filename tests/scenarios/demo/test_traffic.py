"""The demo's master and its traffic: every type exists, every operation works, traffic survives a killed master."""

import os
import shutil
from collections.abc import Iterator
from random import Random

import pytest

from devstack.account import new_folder
from devstack.demo import master
from devstack.demo.accounts import DATABASE, OWNER
from devstack.demo.heartbeat import Heartbeat, LagMeter
from devstack.demo.traffic import Choice, Traffic
from devstack.postgres import PostgresServer
from devstack.process import await_true
from workload import zoo
from workload.odd_operations import odd_insert
from workload.operations import Operation, Work, define, pour, truncate
from workload.writer import ALL_OPERATIONS

SETTINGS = {"fsync": "off", "max_prepared_transactions": "20", "shared_buffers": "64MB"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server for this module only, because it is killed; the demo's master is created on it."""
    folder = new_folder("sluice-test-demo-")
    (folder / "logs").mkdir()
    found = PostgresServer(folder, name="demo", settings=SETTINGS)
    try:
        found.start(die_with_parent=True)
        master.make(found, 1)
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)


def balances(server: PostgresServer) -> set[int]:
    with server.connect(DATABASE) as connection:
        row = connection.execute(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),"
            " (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)"
        ).fetchone()
    assert row is not None
    return {int(value) for value in row}


def traffic(server: PostgresServer, rate: float = 2000) -> Traffic:
    environment = {**os.environ, "SLUICE_HOME": str(server.directory)}
    return Traffic(server, Choice(rate, scale=1, seed=7), environment)


def test_the_zoo_has_every_type_that_can_be_a_column_and_travels_as_text(server: PostgresServer) -> None:
    left_out = {
        # The server's own bookkeeping, and types that exist only to be looked at.
        "aclitem", "cid", "xid", "gtsvector", "refcursor", "oidvector", "txid_snapshot", "pg_node_tree", "pg_ndistinct",
        "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary",
        # Names of other objects, of which regtype stands for all.
        "regclass", "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator", "regproc",
        "regprocedure", "regrole", "regdatabase",
        # Takes no value where the server was built without libxml.
        "xml",
    }  # fmt: skip
    with server.connect(DATABASE) as connection:
        missing = connection.execute(
            "SELECT typname::text FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace"
            " AND typtype IN ('b', 'r') AND typelem = 0 AND typname <> ALL (%s) AND oid NOT IN"
            " (SELECT atttypid FROM pg_attribute WHERE attrelid = 'public.type_zoo'::regclass)",
            [sorted(left_out)],
        ).fetchall()
    assert missing == []


def test_the_first_rows_hold_every_extreme_of_every_type(server: PostgresServer) -> None:
    with server.connect(DATABASE) as connection:
        columns = zoo.columns(connection)
        row = connection.execute(
            "SELECT " + ", ".join(f"count(DISTINCT {column}::text)" for column in columns) + " FROM type_zoo"
        ).fetchone()
    assert row is not None
    few = {column for column, count in zip(columns, row, strict=True) if count < 2}
    assert few == set()
    assert len(zoo.first_rows(columns)) > max(len(zoo.EXTREMES[column.removeprefix("c_")]) for column in columns)


def test_making_the_master_again_forgets_the_last_demo_with_its_users_and_transactions(
    server: PostgresServer,
) -> None:
    with server.connect(DATABASE, OWNER) as user:
        user.execute("BEGIN")
        user.execute("CREATE TABLE public.left_over (a integer)")
        user.execute("PREPARE TRANSACTION 'demo writer 1 left over'")
        master.make(server, 1)
    with server.connect(DATABASE) as connection:
        assert connection.execute("SELECT to_regclass('public.left_over')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM pgbench_accounts").fetchone() == (100_000,)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "operation", dict.fromkeys((*ALL_OPERATIONS, truncate, define, pour)), ids=lambda operation: operation.__name__
)
def test_every_operation_works_and_changes_rows(server: PostgresServer, operation: Operation) -> None:
    chance = Random(3)
    with server.connect(DATABASE) as admin:
        admin.execute("CREATE OR REPLACE FUNCTION noticed() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'")
        admin.execute("DROP EVENT TRIGGER IF EXISTS noticing")
        admin.execute("CREATE EVENT TRIGGER noticing ON ddl_command_end EXECUTE FUNCTION noticed()")
    with server.connect(DATABASE, OWNER) as connection:
        with connection.transaction():
            for _ in range(400):  # rows to change
                odd_insert(Work(connection, 1), chance)
        changed = 0
        for _ in range(60):
            with connection.transaction():
                work = Work(connection, 1)
                before = work.digest("scratch", "true") if operation is truncate else None
                operation(work, chance)
                changed += work.changes
                if before and before[0]:
                    changed += work.digest("scratch", "true") == (0, 0)
                if operation is truncate:
                    work.change("scratch", "INSERT INTO public.scratch VALUES (1, 1)")
        assert changed > 0


@pytest.mark.long
def test_traffic_keeps_the_balances_and_leaves_nothing_behind(server: PostgresServer) -> None:
    running = traffic(server)
    running.start()
    try:
        assert await_true(lambda: running.tally.get("changes", 0) > 500, 30)
    finally:
        running.stop()
    assert len(balances(server)) == 1
    with server.connect(DATABASE) as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", [OWNER]).fetchone() == (
            0,
        )
        changed = connection.execute("SELECT count(*) FROM pgbench_history").fetchone()
    assert changed is not None and changed[0] > 100


@pytest.mark.long
def test_traffic_and_heartbeat_go_on_after_the_master_was_killed(server: PostgresServer) -> None:
    running, heart = traffic(server), Heartbeat(server.info(DATABASE, OWNER))
    meter = LagMeter(server.info(DATABASE), heart.beats)
    running.start()
    heart.start()
    meter.start()
    try:
        assert await_true(lambda: running.tally.get("changes", 0) > 200 and len(meter.lags()) > 5, 30)
        server.kill()
        assert await_true(lambda: running.tally.get("lost_connections", 0) > 0, 60)
        server.start(die_with_parent=True)
        before, beats = running.tally["changes"], len(meter.lags())
        assert await_true(lambda: running.tally["changes"] > before + 200 and len(meter.lags()) > beats + 5, 60)
        assert await_true(lambda: running.tally["restarts"] >= 1, 30)
    finally:
        heart.stop()
        meter.stop()
        running.stop()
    assert len(balances(server)) == 1
    assert all(0 <= lag < 60 for lag in meter.lags())
