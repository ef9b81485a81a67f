"""A load of a part of a NORMAL slave delays neither other tables nor other rows."""

import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import psycopg
import pytest

from sluice.control.definitions import DefinitionStore
from sluice.coordination.gate import Gate
from sluice.load import steps
from sluice.load.read_modes import SnapshotLost
from sluice.load.steps import PartUnderWay
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from tests.errors import raises_code
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig, rows_of
from tests.scenarios.initial_load.killable import begun_or_ended, killable
from tests.waiting import until

NAMES = ("parents", "orders", "heap")
PARENTS, ORDERS, HEAP = (TableName("public", name) for name in NAMES)


COMMENT = "obj_description('public.orders'::regclass, 'pg_class')"


def normal(pair_of: MakePair, **options: object) -> Rig:
    """A slave that is NORMAL, with three tables of 600 rows: two with a key, one refers to the other, one without."""
    pair = pair_of(block_rows=100, seconds=0.05, **options)
    if not pair.tables(pair.master):
        pair.master.execute("CREATE TABLE public.parents (id int PRIMARY KEY, v text)")
        pair.master.execute(
            "CREATE TABLE public.orders (id int PRIMARY KEY, v text, parent int REFERENCES public.parents)"
        )
        pair.master.execute("CREATE TABLE public.heap (n int, v text)")
        pair.master.execute("INSERT INTO public.parents SELECT g, 'old' FROM generate_series(1, 600) g")
        pair.master.execute("INSERT INTO public.orders SELECT g, 'old', g FROM generate_series(1, 600) g")
        pair.master.execute("INSERT INTO public.heap SELECT g, 'old' FROM generate_series(1, 600) g")
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
    steps.finish(first)
    return pair


@contextmanager
def held(pair: Rig, update_of: str, **choice: object) -> Iterator[Background]:
    """A load of a part whose blocks stay begun until the context ends, which waits for the end of the load."""
    update = pair.update(tables=[update_of], **choice)
    pair.prepare(update)
    holder = pair.hold(update_of)
    if choice:  # Rows outside of the range are not held.
        pair.slave.execute(f"DROP TRIGGER slow ON {update_of}".encode())
        pair.slave.execute(
            f"CREATE TRIGGER slow BEFORE INSERT ON {update_of} FOR EACH ROW WHEN (NEW.id BETWEEN 200 AND 299)"
            " EXECUTE FUNCTION public.slow()".encode()
        )
        pair.slave.execute(f"ALTER TABLE {update_of} ENABLE ALWAYS TRIGGER slow".encode())
    loading = Background(lambda: pair.load(update))
    try:
        until(lambda: not loading.is_alive() or any(block.state is BlockState.BEGUN for block in pair.blocks()))
        yield loading
    finally:
        holder.close()
        assert loading.end() is None


def await_ready(pair: Rig) -> None:
    pair.await_that(lambda: not pair.checkpoint.tables.not_ready)
    pair.await_current()


def one(pair: Rig, query: str) -> object:
    row = pair.slave.execute(query.encode()).fetchone()
    return row and row[0]


@pytest.mark.long
@pytest.mark.parametrize("table", ["public.orders", pytest.param("public.heap", marks=pytest.mark.long)])
def test_while_a_block_is_read_other_tables_and_a_second_slave_go_on(pair_of: MakePair, table: str) -> None:
    pair = normal(pair_of)
    second = normal(pair_of, master=pair.master_info, name="dr2")
    with pair.apply(), second.apply():
        with held(pair, table):
            pair.master.execute(f"UPDATE {table} SET v = 'both'".encode())
            with pair.master.transaction():
                pair.master.execute(f"INSERT INTO {table} VALUES (1001, 'with the parent')".encode())
                pair.master.execute("UPDATE public.parents SET v = 'now'")
            pair.await_current()
            second.await_current()
            assert one(pair, "SELECT count(*) FROM public.parents WHERE v = 'now'") == 600
            assert pair.checkpoint.state is SlaveState.NORMAL
            assert pair.checkpoint.tables.not_ready == {TableName.parse(table): TableState.LOADING}
            assert Gate(pair.store, pair.replication.prefix, "dr1").closures() == []
            assert not second.checkpoint.tables.not_ready and second.state() is SlaveState.NORMAL
            second.assert_equal()
            with pytest.raises(PartUnderWay, match=r"loads a part of slave dr1\. Wait until its run has ended"):
                steps.begin(pair.update(tables=["public.parents"]), pair.store)
        await_ready(pair)
        pair.assert_equal()
        second.await_current()
        second.assert_equal()


@pytest.mark.long
def test_the_rest_of_a_table_goes_on_while_a_range_of_it_is_loaded(pair_of: MakePair) -> None:
    pair = normal(pair_of)
    with pair.apply():
        pair.slave.execute("UPDATE public.orders SET v = 'wrong' WHERE id BETWEEN 200 AND 299")
        with held(pair, "public.orders", key_from="200", key_to="300"):
            pair.master.execute("UPDATE public.orders SET v = 'new' WHERE id % 2 = 0")
            pair.master.execute("UPDATE public.orders SET id = id + 5000 WHERE id IN (210, 410)")
            pair.master.execute("UPDATE public.orders SET id = 210 WHERE id = 411")
            pair.master.execute("DELETE FROM public.orders WHERE id IN (220, 420)")
            pair.await_current()
            outside = "SELECT id, v, parent FROM public.orders WHERE id NOT BETWEEN 200 AND 299 ORDER BY 1"
            # Rows that were moved out of the range are known outside of it as well.
            assert pair.slave.execute(outside.encode()).fetchall() == pair.master.execute(outside.encode()).fetchall()
            assert one(pair, "SELECT count(*) FROM public.orders WHERE v = 'wrong'") == 100, "readers have the old rows"
        await_ready(pair)
        pair.assert_equal()


@pytest.mark.parametrize(
    "statements",
    [
        ["TRUNCATE public.orders", "INSERT INTO public.orders VALUES (7, 'after', 7)"],
        ["ALTER TABLE public.orders ADD COLUMN w int DEFAULT 3", "UPDATE public.orders SET w = id WHERE id % 3 = 0"],
        ["ALTER TABLE public.orders DROP COLUMN v", "UPDATE public.orders SET parent = 1 WHERE id % 3 = 0"],
        ["DROP TABLE public.orders"],
    ],
    ids=["emptied", "column added", "column dropped", "dropped"],
)
@pytest.mark.long
def test_a_table_is_emptied_altered_or_dropped_while_a_range_of_it_is_loaded(
    pair_of: MakePair, statements: list[str]
) -> None:
    pair = normal(pair_of)
    update = pair.update(tables=["public.orders"], key_from="200", key_to="300")
    pair.prepare(update)
    loading = Background(lambda: pair.load(update))
    # Nothing is applied: the blocks are stored, and none has caught up.
    until(lambda: not loading.is_alive() or all(block.state is BlockState.STORED for block in pair.blocks()))
    pair.master.execute("UPDATE public.orders SET v = 'before' WHERE id BETWEEN 150 AND 250")
    for statement in statements:
        pair.master.execute(statement.encode())
    pair.master.execute("UPDATE public.parents SET v = 'now'")
    with pair.apply():
        assert loading.end() is None
        await_ready(pair)
        assert one(pair, "SELECT count(*) FROM public.parents WHERE v = 'now'") == 600
        assert (pair.slave.execute("SELECT to_regclass('public.orders')").fetchone() == (None,)) == (
            pair.master.execute("SELECT to_regclass('public.orders')").fetchone() == (None,)
        )
        pair.assert_equal()


@pytest.mark.long
def test_a_table_that_is_renamed_while_it_is_loaded_is_left_out_with_the_reason(pair_of: MakePair) -> None:
    pair = normal(pair_of)
    renamed = TableName("public", "renamed")
    update = pair.update(tables=["public.orders"])
    with pair.apply():
        pair.prepare(update)
        pair.master.execute("ALTER TABLE public.orders RENAME TO renamed")
        pair.master.execute("UPDATE public.parents SET v = 'continues'")
        pair.await_current()
        assert pair.checkpoint.tables.explain(renamed) == (
            "inconsistent: it was renamed on the master while it was loaded"
        )
        assert one(pair, "SELECT min(v) FROM public.parents") == "continues" and not pair.blocks()
        again = pair.update(tables=["public.renamed"])
        pair.prepare(again)
        pair.load_to_normal(again)
        await_ready(pair)
        pair.assert_equal()


def test_a_table_that_is_left_out_is_told_by_the_end_of_its_update(pair_of: MakePair) -> None:
    pair = normal(pair_of)
    update = pair.update(tables=["public.orders"])
    pair.prepare(update)
    with raises_code("tables-not-ready", match=r"public\.orders are still loading"):
        steps.finish(update)
    with pair.slave.transaction():
        states = pair.checkpoint.tables.put(ORDERS, TableState.INCONSISTENT, "its row 5 is odd")
        pair.checkpoints.put_tables(states)
    with raises_code("tables-not-ready", match=r"public\.orders is inconsistent: its row 5 is odd\. Start the DAG"):
        steps.finish(update)


def act(pair: Rig, chance: random.Random, names: Sequence[str] = NAMES) -> None:
    """One random change on the master."""
    low, table = chance.randint(-20, 640), f"public.{chance.choice(names)}"
    key = "n" if table == "public.heap" else "id"
    statement = chance.choice([
        f"UPDATE {table} SET v = '{low}' WHERE {key} BETWEEN {low} AND {low} + 30",
        f"DELETE FROM {table} WHERE {key} BETWEEN {low} AND {low} + 3",
        f"INSERT INTO {table} SELECT g, 'in' FROM generate_series({low}, {low} + 5) g ON CONFLICT DO NOTHING",
        f"UPDATE {table} SET {key} = {key} + {chance.choice([-300, 300, 7000])} WHERE {key} = {low}",
        chance.choice(["TRUNCATE public.orders", f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS c{low % 4} int"])
        if chance.random() < 0.15
        else f"DELETE FROM {table} WHERE {key} = {low}",
    ])  # fmt: skip
    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.ForeignKeyViolation):
        pair.master.execute(statement.encode())


def load(pair: Rig, update: Update) -> None:
    """Loads like the load job: again if the snapshot was lost."""
    with suppress(SnapshotLost):
        pair.load(update)
        return
    load(pair, update)


def load_at_random(pair: Rig, chance: random.Random, names: Sequence[str] = NAMES) -> None:
    """Loads a part in a random way, under changes, sometimes killed or canceled."""
    table = chance.choice(names)
    ranged = {"key_from": str(chance.randint(0, 300)), "key_to": str(chance.randint(301, 700))}
    update = pair.update(
        tables=[f"public.{table}"],
        read=chance.choice(["committed", "committed", "snapshot", "locked"]),
        **(ranged if table != "heap" and chance.random() < 0.6 and not pair.checkpoint.tables.not_ready else {}),
    )
    pair.prepare(update)
    killed = killable(update) if chance.random() < 0.3 else None
    for _ in range(chance.randint(0, 12)):
        act(pair, chance, names)
    if killed is not None:
        until(partial(begun_or_ended, pair, killed))
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    if chance.random() < 0.2:
        steps.cancel(update, pair.store)
        return
    loading = Background(lambda: load(pair, update))
    while loading.is_alive():
        act(pair, chance, names)
        loading.join(0.02)  # it takes turns with this thread
    assert loading.end() is None
    pair.await_normal()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_parts_in_any_order_with_restarts_end_equal_and_a_second_slave_never_notices(
    pair_of: MakePair, seed: int
) -> None:
    chance = random.Random(seed)
    kept = chance.choice(["slave", "slave", "redis"])
    tables = [PARENTS, ORDERS] if kept == "redis" else [PARENTS, ORDERS, HEAP]
    pair = normal(pair_of)
    second = normal(pair_of, master=pair.master_info, name="dr2")
    with second.apply():
        for _ in range(2):
            with pair.apply():
                for _ in range(3):
                    act(pair, chance)
                    load_at_random(pair, chance)
                    assert pair.state() is SlaveState.NORMAL
        second.await_current()
        assert second.state() is SlaveState.NORMAL and not second.checkpoint.tables.not_ready
        second.assert_equal()
    with pair.apply():
        if left := list(pair.checkpoint.tables):
            update = pair.update(tables=[str(table) for table in left])
            pair.prepare(update)
            pair.load_to_normal(update)
        await_ready(pair)
        for table in tables:
            assert rows_of(pair.slave, table, pair.master) == rows_of(pair.master, table, pair.master), str(table)


@pytest.mark.long
@pytest.mark.parametrize("loading", [False, True], ids=["ready", "loading"])
def test_a_key_column_gets_another_name_where_nothing_tells_of_it_at_once(pair_of: MakePair, loading: bool) -> None:
    pair = normal(pair_of, role=True)
    if loading:
        update = pair.update(tables=["public.orders"], key_from="200", key_to="300")
        pair.prepare(update)
        job = Background(lambda: pair.load(update))
        # Nothing is applied: the blocks are stored, and none has caught up.
        until(lambda: not job.is_alive() or all(block.state is BlockState.STORED for block in pair.blocks()))
    pair.master.execute("UPDATE public.orders SET id = id + 5000 WHERE id IN (220, 420)")
    pair.master.execute("ALTER TABLE public.orders RENAME id TO ident")
    pair.master.execute("UPDATE public.orders SET ident = ident + 5000 WHERE ident IN (210, 410)")
    pair.master.execute("UPDATE public.orders SET v = 'new' WHERE ident % 7 = 0")
    pair.master.execute("DELETE FROM public.orders WHERE ident % 50 = 1")
    with pair.apply():
        await_ready(pair)
        if loading:
            assert job.end() is None
        pair.assert_equal()


@pytest.mark.long
def test_a_foreign_key_to_a_table_that_is_loading_comes_when_both_are_ready(
    pair_of: MakePair, caplog: pytest.LogCaptureFixture
) -> None:
    pair = normal(pair_of)
    pair.master.execute("CREATE TABLE public.later (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.later SELECT g FROM generate_series(1, 600) g")
    store = DefinitionStore(pair.slave, pair.pair.prefix, pair.schema, pair.name)
    with pair.apply():
        pair.await_that(lambda: store.read() is not None)  # what is there by then counts as known
        with held(pair, "public.later"):
            pair.master.execute(
                "ALTER TABLE public.orders ADD CONSTRAINT to_later FOREIGN KEY (id) REFERENCES public.later"
            )
            for text in ("one", "another"):  # the second one comes in a round after that of the first
                pair.master.execute(f"COMMENT ON TABLE public.orders IS '{text}'".encode())
                pair.await_that(partial(one, pair, f"SELECT {COMMENT} = '{text}'"))
            assert "to_later" not in caplog.text
        await_ready(pair)
        pair.await_that(partial(one, pair, "SELECT convalidated FROM pg_constraint WHERE conname = 'to_later'"))
    pair.assert_equal()
