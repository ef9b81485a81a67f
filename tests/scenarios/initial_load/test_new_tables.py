"""A table with rows joins a running replication: no slave stops or shows a part of it, each loads it alone."""

import random
import signal
import threading
from contextlib import suppress
from functools import partial

import psycopg
import pytest

from sluice.capture import reconcile as reconciling
from sluice.capture import resources, wildcards
from sluice.control.blocks import BlockStore
from sluice.coordination.gate import Gate
from sluice.load import steps
from sluice.load.load_ownership import LoadEnded
from sluice.load.partial_load import SelectionRefused
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.vendors.postgres import catalog, sessions
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.tables_registry import Registry
from sluice.vendors.postgres.target import load_ownership
from tests.rig.rig import MakePair, Rig, rows_of
from tests.scenarios.initial_load.killable import begun_or_ended, killable
from tests.scenarios.initial_load.traffic import Traffic, Writable
from tests.waiting import until

ORDERS = Writable("public.orders", ("id",), "floor(random() * 900)::int")
COUPONS = Writable('public."Select ""é"', ("id",), "floor(random() * 900)::int")
JOINING = TableName("public", 'Select "é')


def filled(pair: Rig, table: str, rows: int = 1_000) -> None:
    pair.master.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)".encode())
    pair.master.execute(f"INSERT INTO {table} SELECT g, 'old' FROM generate_series(1, {rows}) g".encode())


def reconcile(pair: Rig) -> reconciling.ReconcileReport:
    """Runs the DAG's tasks install_resources and reconcile."""
    prefix, schema = pair.replication.prefix, pair.replication.master.schema
    resources.install(pair.master, prefix, schema)
    return reconciling.reconcile(pair.master, prefix, schema, pair.replication.resolve(catalog.tables(pair.master)))


def normal_slave(pair_of: MakePair, **options: object) -> Rig:
    """A slave that is NORMAL with one table."""
    pair = pair_of(block_rows=100, seconds=0.05, **options)
    if pair.master.execute("SELECT to_regclass('public.orders') IS NULL").fetchone() == (True,):
        filled(pair, "public.orders")
    reconcile(pair)
    update = pair.update("first")
    pair.prepare(update)
    with pair.apply():
        pair.load_to_normal(update)
    return pair


def absent(pair: Rig) -> list[TableName]:
    found = pair.checkpoints.read()
    assert found is not None
    return list(found.tables)


def there(pair: Rig, table: TableName) -> bool:
    return catalog.shape(pair.slave, table) is not None


def await_joined(pair: Rig) -> None:
    """Returns when the apply knows that the table joins. Raises the apply's error."""
    pair.await_that(lambda: JOINING in absent(pair))


def test_a_filled_table_joins_under_traffic_and_no_slave_stops(pair_of: MakePair) -> None:
    dr1 = normal_slave(pair_of)
    dr2 = normal_slave(pair_of, master=dr1.master_info, name="dr2")
    with dr1.apply(), dr2.apply(), Traffic(dr1.master_info, [ORDERS], writers=1):
        filled(dr1, COUPONS.name)
        reconcile(dr1)
        dr1.master.execute(f"UPDATE {COUPONS.name} SET v = 'new' WHERE id <= 10".encode())
        dr1.master.execute(f"DELETE FROM {COUPONS.name} WHERE id = 11".encode())
        for pair in (dr1, dr2):
            await_joined(pair)
            pair.await_current()
            assert pair.state() is SlaveState.NORMAL
            assert not there(pair, JOINING), "no part of it is shown"
        with Traffic(dr1.master_info, [COUPONS], writers=2):
            update = dr1.update(tables=[COUPONS.name])
            dr1.prepare(update)
            dr1.load_to_normal(update)
        dr1.await_current()
        dr2.await_current()
        assert absent(dr1) == []
        assert absent(dr2) == [JOINING] and not there(dr2, JOINING)
        assert dr2.state() is SlaveState.NORMAL
        assert Gate(dr2.store, dr2.replication.prefix, "dr2").closures() == []
    with dr1.apply(), dr2.apply():
        dr1.await_current()
        dr2.await_current()
        dr1.assert_equal()
        dr2.assert_equal([TableName("public", "orders")])


@pytest.mark.long
def test_a_table_without_rows_is_there_from_its_first_row(pair_of: MakePair) -> None:
    pair = normal_slave(pair_of)
    with pair.apply():
        filled(pair, COUPONS.name, rows=0)
        reconcile(pair)
        pair.master.execute(f"INSERT INTO {COUPONS.name} SELECT g, 'first' FROM generate_series(1, 50) g".encode())
        pair.master.execute(f"UPDATE {COUPONS.name} SET v = 'then' WHERE id = 7".encode())
        pair.await_current()
        assert absent(pair) == []
        pair.assert_equal()


@pytest.mark.long
def test_a_table_that_a_wildcard_means_is_ready_on_every_slave_without_a_load(pair_of: MakePair) -> None:
    dr1 = normal_slave(pair_of)
    dr2 = normal_slave(pair_of, master=dr1.master_info, name="dr2", slave_options={"new_tables": "wait"})
    wildcards.note(dr1.master, dr1.replication)
    with dr1.apply(), dr2.apply(), Traffic(dr1.master_info, [ORDERS], writers=1):
        with dr1.master.transaction():
            filled(dr1, COUPONS.name)
            dr1.master.execute(f"DELETE FROM {COUPONS.name} WHERE id = 11".encode())
        with Traffic(dr1.master_info, [COUPONS], writers=2):
            for pair in (dr1, dr2):
                pair.await_current()
                assert there(pair, JOINING) and absent(pair) == []
        assert reconcile(dr1).steps == ()
    with dr1.apply(), dr2.apply():
        for pair in (dr1, dr2):
            pair.await_current()
            pair.assert_equal()


@pytest.mark.long
def test_its_load_is_killed_half_way_and_goes_on(pair_of: MakePair) -> None:
    pair = normal_slave(pair_of)
    with pair.apply(), Traffic(pair.master_info, [ORDERS], writers=1):
        filled(pair, COUPONS.name, rows=3_000)
        reconcile(pair)
        await_joined(pair)
        with Traffic(pair.master_info, [COUPONS], writers=1):
            update = pair.update(tables=[COUPONS.name])
            pair.prepare(update)
            killed = killable(update)
            until(partial(begun_or_ended, pair, killed))
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            pair.load_to_normal(update)
        pair.await_current()
        assert absent(pair) == []
    with pair.apply():
        pair.await_current()
        pair.assert_equal()


@pytest.mark.long
@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", ["slave", "redis"])
def test_it_joins_leaves_and_joins_again(pair_of: MakePair, kept: str) -> None:
    pair = normal_slave(pair_of, slave_options={"checkpoint": kept})
    registry = Registry(pair.master, pair.replication.prefix, "public")
    with pair.apply():
        filled(pair, COUPONS.name)
        for turn in range(2):
            reconcile(pair)
            assert reconcile(pair).steps == (), "a second run changes nothing"
            await_joined(pair)
            update = pair.update(tables=[COUPONS.name])
            pair.prepare(update)
            pair.load_to_normal(update)
            pair.master.execute(f"UPDATE {COUPONS.name} SET v = 'loaded {turn}' WHERE id % 7 = {turn}".encode())
            with pair.master.transaction():
                registry.remove(JOINING)
            pair.master.execute(f"UPDATE {COUPONS.name} SET v = 'missed {turn}' WHERE id % 5 = {turn}".encode())
            pair.master.execute(f"DELETE FROM {COUPONS.name} WHERE id % 11 = {turn}".encode())
        reconcile(pair)
        await_joined(pair)
        update = pair.update(tables=["public.*"], read="snapshot")
        pair.prepare(update)
        pair.load_to_normal(update)
        assert absent(pair) == []
    with pair.apply():
        pair.master.execute(f"UPDATE {COUPONS.name} SET v = 'last' WHERE id % 3 = 0".encode())
        until(lambda: rows_of(pair.slave, JOINING, pair.master) == rows_of(pair.master, JOINING, pair.master))
        pair.assert_equal()


@pytest.mark.long
@pytest.mark.parametrize("emptied", [False, True], ids=["restarted", "restarted, Redis emptied"])
def test_it_is_emptied_renamed_and_comes_again_where_the_checkpoint_is_in_redis(
    pair_of: MakePair, emptied: bool
) -> None:
    pair = normal_slave(pair_of, slave_options={"checkpoint": "redis"})
    renamed = TableName("public", 'Re"named')
    under_one_name = [
        f"INSERT INTO {COUPONS.name} VALUES (5001, 'goes')",
        f"TRUNCATE {COUPONS.name}",
        f"INSERT INTO {COUPONS.name} SELECT g, 'again' FROM generate_series(1, 40) g",
        f"UPDATE {COUPONS.name} SET id = id + 100 WHERE id <= 5",
    ]
    under_the_other = [
        f"UPDATE {renamed} SET v = 'renamed' WHERE id % 2 = 0",
        f"DELETE FROM {renamed} WHERE id % 7 = 0",
        f"INSERT INTO {renamed} SELECT g, 'late' FROM generate_series(1000, 1010) g",
    ]
    rename = f"ALTER TABLE {COUPONS.name} RENAME TO {quoted(renamed.name)}"
    back = f"ALTER TABLE {renamed} RENAME TO {quoted(JOINING.name)}"

    def equal(table: TableName) -> bool:
        return rows_of(pair.slave, table, pair.master) == rows_of(pair.master, table, pair.master)

    def change(statements: list[str]) -> None:
        for statement in statements:
            pair.master.execute(statement.encode())

    with pair.apply():
        filled(pair, COUPONS.name)
        reconcile(pair)
        await_joined(pair)
        update = pair.update(tables=[COUPONS.name])
        pair.prepare(update)
        change(under_one_name[:1])
        pair.load_to_normal(update)
        change([*under_one_name[1:], rename, *under_the_other])
        until(partial(equal, renamed))
    if emptied:
        # What followed the last change of a definition comes again.
        pair.store.flushdb()
    # The whole once more, while nobody applies.
    change([under_the_other[1], back, *under_one_name, rename, *under_the_other])
    with pair.apply():
        until(partial(equal, renamed))
        assert not there(pair, JOINING)
        change([back, under_one_name[1], under_one_name[2]])
        until(partial(equal, JOINING))
    if emptied:
        pair.store.flushdb()
    with pair.apply():
        change(under_one_name[3:])
        until(partial(equal, JOINING))
        pair.assert_equal()
    assert absent(pair) == []


@pytest.mark.long
def test_it_joins_while_the_slave_is_loaded_and_comes_afterwards(pair_of: MakePair) -> None:
    pair = normal_slave(pair_of)
    update = pair.update("again")
    with pair.apply():
        pair.prepare(update)
        filled(pair, COUPONS.name)
        reconcile(pair)
        pair.master.execute(f"UPDATE {COUPONS.name} SET v = 'new'".encode())
        pair.load_to_normal(update)
        pair.await_current()
        assert absent(pair) == [JOINING] and not there(pair, JOINING)
        # A part of it is not enough.
        with pytest.raises(SelectionRefused, match="as a whole first"):
            steps.begin(pair.update(tables=[COUPONS.name], key_from="7"), pair.store)
        update = pair.update(tables=[COUPONS.name])
        pair.prepare(update)
        pair.load_to_normal(update)
        pair.await_current()
        pair.assert_equal()


@pytest.mark.long
def test_it_joins_between_the_look_at_the_tables_and_the_start_position(
    pair_of: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = normal_slave(pair_of)
    take = PostgresQueue.take

    def late(*arguments: object) -> Position:
        monkeypatch.setattr(PostgresQueue, "take", take)
        filled(pair, COUPONS.name)
        reconcile(pair)
        return take(*arguments)  # type: ignore[arg-type]

    update = pair.update("again")
    steps.begin(update, pair.store)
    steps.create_tables(update)
    monkeypatch.setattr(PostgresQueue, "take", late)
    steps.plan(update, pair.store)
    with pair.apply():
        pair.master.execute(f"UPDATE {COUPONS.name} SET v = 'new'".encode())
        pair.load_to_normal(update)
        pair.await_current()
        assert absent(pair) == [JOINING]


@pytest.mark.long
def test_a_block_claimed_while_its_load_is_canceled_leaves_no_block(pair_of: MakePair) -> None:
    pair = normal_slave(pair_of)
    filled(pair, COUPONS.name)
    update = pair.update(tables=[COUPONS.name])
    pair.prepare(update)
    store = BlockStore(pair.slave, update.prefix, "public", update.slave.name)
    cancel = threading.Thread(target=steps.cancel, args=(update, pair.store))
    with connect(pair.slave_info, application="look", autocommit=True) as look:
        with pair.slave.transaction():
            load_ownership.claiming(pair.slave, update.prefix, update.slave.name, "job")
            claim = store.claim()
            assert claim is not None
            cancel.start()
            until(lambda: sessions.holders(look, f"no load claims {update.prefix} {update.slave.name}"))
            assert store.begin(claim.block, ("500",), "job/1")
        cancel.join()
    assert pair.state() is SlaveState.NORMAL and not pair.blocks()


@pytest.mark.long
@pytest.mark.parametrize("moment", ["begun", "planned", "loading"])
def test_a_load_that_is_canceled_leaves_its_tables_out_and_all_else_goes_on(pair_of: MakePair, moment: str) -> None:
    pair = normal_slave(pair_of)
    orders = TableName("public", "orders")
    with pair.apply(), Traffic(pair.master_info, [ORDERS], writers=1):
        filled(pair, "public.ready", rows=500)
        filled(pair, COUPONS.name, rows=3_000)
        reconcile(pair)
        await_joined(pair)
        load_again = pair.update(tables=["public.ready"])
        pair.prepare(load_again)
        pair.load_to_normal(load_again)
        update = pair.update(tables=[COUPONS.name, "public.ready"])
        if moment == "begun":
            steps.begin(update, pair.store)
        else:
            pair.prepare(update)
        if moment == "loading":
            pair.slow_down(COUPONS.name, 0.02)
            process = killable(update)
            until(partial(begun_or_ended, pair, process))
        assert steps.cancel(update, pair.store)
        if moment == "loading":
            assert process.wait(60) != 0, "the load ends by itself"
            pair.full_speed()
        assert pair.state() is SlaveState.NORMAL and not pair.blocks()
        found = pair.checkpoints.read()
        assert found is not None
        ready = TableName("public", "ready")
        if moment == "begun":
            assert found.tables.not_ready == {JOINING: TableState.ABSENT}, "nothing was done to either"
        else:
            assert found.tables.not_ready == dict.fromkeys((JOINING, ready), TableState.INCONSISTENT)
            assert found.tables.reasons == dict.fromkeys((JOINING, ready), steps.INTERRUPTED)
        assert Gate(pair.store, update.prefix, "dr1").closures() == []
        with pytest.raises(LoadEnded):
            steps.create_tables(update)
        for table in (COUPONS.name, "public.ready"):
            pair.master.execute(f"UPDATE {table} SET v = 'left out' WHERE id % 3 = 0".encode())
    with pair.apply():
        pair.await_current()
        pair.assert_equal([orders])
        again = pair.update(tables=[COUPONS.name, "public.ready"])
        pair.prepare(again)
        pair.load_to_normal(again)
        assert absent(pair) == []
        pair.assert_equal()
    assert steps.finish(again).left_out == []


@pytest.mark.long
@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
def test_joins_loads_traffic_and_restarts_in_any_order_end_equal(pair_of: MakePair, seed: int) -> None:
    chance = random.Random(seed)
    pair = normal_slave(pair_of)
    registry = Registry(pair.master, pair.replication.prefix, "public")
    tables: list[str] = []

    def change(table: str) -> None:
        low = chance.randint(-50, 900)
        for statement in chance.sample(
            [
                f"INSERT INTO {table} SELECT generate_series({low}, {low} + 9), 'fresh' ON CONFLICT DO NOTHING",
                f"UPDATE {table} SET v = 'at {low}' WHERE id BETWEEN {low} AND {low} + 19",
                f"DELETE FROM {table} WHERE id BETWEEN {low} AND {low} + 4",
                f"UPDATE {table} SET id = id + 5000 WHERE id BETWEEN {low} AND {low} + 2",
                f"TRUNCATE {table}" if chance.random() < 0.1 else f"DELETE FROM {table} WHERE id = {low}",
            ],
            2,
        ):
            with suppress(psycopg.errors.UniqueViolation):
                pair.master.execute(statement.encode())

    def load_one() -> None:
        wanted = chance.sample(sorted(tables), 1)
        update = pair.update(tables=wanted, read=chance.choice(["committed", "snapshot", "locked"]))
        pair.await_normal()
        pair.prepare(update)
        for table in wanted:
            change(table)
        pair.load_to_normal(update)

    def join(rows: int) -> None:
        name = f"public.joins{len(tables)}"
        filled(pair, name, rows)
        reconcile(pair)
        tables.append(name)

    def leave() -> None:
        table = TableName.parse(chance.choice(tables))
        with pair.master.transaction():
            registry.remove(table)
        change(str(table))
        reconcile(pair)

    join(300)
    for _ in range(6):
        with pair.apply():
            for _ in range(4):
                act = chance.random()
                if act < 0.25 and len(tables) < 4:
                    join(chance.choice([0, 1, 400]))
                elif act < 0.35:
                    leave()
                elif act < 0.65:
                    load_one()
                change(chance.choice([*tables, "public.orders"]))
            if chance.random() < 0.3:
                pair.store.flushdb()
    with pair.apply():
        pair.await_current()
        if left := absent(pair):
            update = pair.update(tables=[str(table) for table in left])
            pair.prepare(update)
            pair.load_to_normal(update)
        pair.await_current()
        pair.assert_equal()
