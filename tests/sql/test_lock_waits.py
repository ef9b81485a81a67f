"""DDL on the master: how long the application's statements queue behind it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.capture import uninstall
from sluice.database import lock_waits
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.write_guard import Guard
from tests.sql.master import ORDERS, Master
from tests.waiting import until

SPY = """
    CREATE TABLE spied (command text, lock_timeout text);
    CREATE FUNCTION spy() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
    BEGIN
        INSERT INTO spied VALUES (tg_tag, current_setting('lock_timeout'));
    END $$;
    CREATE EVENT TRIGGER spy ON ddl_command_start EXECUTE FUNCTION spy();
"""
"""Notes for each DDL command how long it would wait for a lock. Made by an administrator."""

WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"


@pytest.fixture
def master(database: Callable[..., ConnectionInfo]) -> Master:
    """A master whose account is no superuser: changes of definitions are found by comparison."""
    made = Master(database(role=True))
    made.sql(ORDERS, "CREATE TABLE others (id int PRIMARY KEY, v text)")
    return made


def remove(master: Master) -> None:
    with connect(master.info, application="test") as connection:
        uninstall.uninstall(connection, master.prefix, master.schema)


def guard(master: Master) -> None:
    """Makes the master read-only, and writable again."""
    with connect(master.info, application="test") as connection:
        made = Guard(connection, Prefix("DEMO_"), "public")
        made.close("a failover is under way")
        made.release()


def compare(master: Master) -> None:
    master.sql("SELECT demo_check_structure()")


def test_no_ddl_on_the_master_waits_longer_for_a_lock_than_half_a_second(
    master: Master, postgres: PostgresServer
) -> None:
    with postgres.connect(master.info.database) as administrator:
        administrator.execute(SPY)
    seen: dict[str, set[str]] = {}

    def spied(what: str, do: Callable[[], object]) -> None:
        with postgres.connect(master.info.database) as administrator:
            administrator.execute("TRUNCATE spied")
            do()
            rows = administrator.execute("SELECT DISTINCT lock_timeout FROM spied").fetchall()
        seen[what] = {str(row[0]) for row in rows}

    spied("install", master.install)
    spied("reconcile", lambda: master.register("orders", "others"))
    master.sql("ALTER TABLE orders ADD w int")
    spied("compare", lambda: compare(master))
    spied("guard", lambda: guard(master))
    master.sql("UPDATE demo_info SET value = 'older' WHERE name = 'functions'")
    spied("upgrade", master.install)
    spied("uninstall", lambda: remove(master))
    assert seen == {what: {"500ms"} for what in seen}


@contextmanager
def held(master: Master, *statements: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """An open transaction of the application, and its locks."""
    transaction = master.session(autocommit=False)
    for statement in statements:
        transaction.execute(statement.encode())
    try:
        yield transaction
    finally:
        transaction.rollback()
        transaction.close()


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("ddl", "held_by", "behind"),
    [
        (compare, "INSERT INTO orders VALUES (1, 'a', 1, 1)", "INSERT INTO orders VALUES (2, 'b', 2, 2)"),
        (
            lambda master: master.register("orders", "others"),
            "INSERT INTO others VALUES (1, 'a')",
            "INSERT INTO others VALUES (2, 'b')",
        ),
        (guard, "INSERT INTO orders VALUES (1, 'a', 1, 1)", "INSERT INTO orders VALUES (2, 'b', 2, 2)"),
        (remove, "INSERT INTO orders VALUES (1, 'a', 1, 1)", "INSERT INTO orders VALUES (2, 'b', 2, 2)"),
        (Master.install, "UPDATE demo_tables SET debug = 0", "UPDATE demo_tables SET debug = 0 WHERE false"),
    ],
    ids=["compare", "reconcile", "guard", "uninstall", "upgrade"],
)
def test_a_writer_behind_ddl_of_ours_goes_on_while_the_transaction_before_it_is_still_open(
    master: Master, ddl: Callable[[Master], object], held_by: str, behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_waits, "back_off", lambda attempt: 0.05)
    master.install()
    master.register("orders")
    master.sql("ALTER TABLE orders ADD w int DEFAULT random()")
    if ddl is not compare:
        compare(master)
    if ddl is Master.install:
        master.sql("UPDATE demo_info SET value = 'older' WHERE name = 'functions'")
    errors: list[BaseException] = []

    def run() -> None:
        try:
            ddl(Master(master.info))
        except BaseException as error:
            errors.append(error)

    with held(master, held_by) as transaction:
        writer = master.session()
        ours = threading.Thread(target=run)
        ours.start()
        blocked = "SELECT 1 FROM pg_stat_activity a WHERE %s = ANY (pg_blocking_pids(a.pid))"
        until(lambda: master.rows(blocked, [transaction.info.backend_pid]) or not ours.is_alive())
        writer.execute(behind.encode())
        assert transaction.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    ours.join(60)
    assert not ours.is_alive()
    assert not errors
    writer.close()


def test_the_locks_of_a_table_are_not_held_while_another_one_is_waited_for(
    master: Master, postgres: PostgresServer
) -> None:
    master.install()
    master.register("orders", "others")
    master.sql("ALTER TABLE orders ADD w int DEFAULT random()", "ALTER TABLE others ADD w int DEFAULT random()")
    with postgres.connect(master.info.database) as administrator:
        administrator.execute(SPY)
        assert master.value("SELECT demo_check_structure()") == 2
        assert administrator.execute("SELECT DISTINCT lock_timeout FROM spied ORDER BY 1").fetchall() == [
            ("10ms",),
            ("500ms",),
        ]
