"""A table that cannot be read or stored while it is loaded keeps no other one from being loaded.

The refusals come when the load has begun: its owner gives it code of his own, or the slave's own trigger refuses rows.
"""

from collections.abc import Callable, Iterator

import pytest

from sluice.errors import Terminal
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.model.blocks import BlockState
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from tests.errors import raises_code
from tests.rig.rig import MakePair, Rig

BAD, GOOD, OTHER = (TableName("public", name) for name in ("bad", "good", "other"))


def owners_code(pair: Rig) -> None:
    owner = owner_of(pair)
    pair.master.execute(
        f"CREATE ROLE {owner}; GRANT CREATE ON SCHEMA public TO {owner}; ALTER TABLE public.bad OWNER TO {owner}; "
        f"SET ROLE {owner}; CREATE FUNCTION public.code(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS "
        "'BEGIN RETURN n; END'; CREATE INDEX planned ON public.bad ((id + public.code(1))); RESET ROLE; "
        f"REVOKE CREATE ON SCHEMA public FROM {owner}".encode()
    )


def owner_of(pair: Rig) -> str:
    return f"owner_{pair.pair.master_info.database}"[:60]


def drops_code(pair: Rig) -> None:
    pair.master.execute("DROP INDEX public.planned")


def slave_refuses(pair: Rig) -> None:
    pair.slave.execute(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'the budget is closed'; END $$; "
        "CREATE TRIGGER refuse BEFORE INSERT ON public.bad FOR EACH ROW EXECUTE FUNCTION public.refuse(); "
        "ALTER TABLE public.bad ENABLE ALWAYS TRIGGER refuse"
    )


def slave_accepts(pair: Rig) -> None:
    pair.slave.execute("DROP TRIGGER refuse ON public.bad")


Do = Callable[[Rig], None]
KINDS: dict[str, tuple[Do, Do, str]] = {
    "owner's code": (owners_code, drops_code, r"public.code(integer)"),
    "slave's trigger": (slave_refuses, slave_accepts, "the budget is closed"),
}
"""Name → refusal, its remedy, and what the reason says."""
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def make(pair_of: MakePair) -> Iterator[Callable[..., Rig]]:
    """Pairs with three tables."""
    pairs: list[Rig] = []

    def made(**options: object) -> Rig:
        pair = pair_of(block_rows=50, seconds=0.05, interval=0.1, **options)
        pairs.append(pair)
        for table in (BAD, GOOD, OTHER):
            pair.master.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)".encode())
            pair.master.execute(f"INSERT INTO {table} SELECT g, 'v' || g FROM generate_series(1, 200) g".encode())
        return pair

    yield made
    for pair in pairs:
        owner = owner_of(pair)
        pair.master.execute(
            f"DO $$ BEGIN IF to_regrole('{owner}') IS NOT NULL THEN "
            f"DROP OWNED BY {owner} CASCADE; DROP ROLE {owner}; END IF; END $$".encode()
        )


def change(pair: Rig) -> None:
    for table in (BAD, GOOD, OTHER):
        pair.master.execute(f"INSERT INTO {table} VALUES (1001, 'new')".encode())
        pair.master.execute(f"UPDATE {table} SET v = 'changed' WHERE id % 7 = 0".encode())
        pair.master.execute(f"DELETE FROM {table} WHERE id % 11 = 0".encode())


def expect_left_out(pair: Rig, kind: str) -> None:
    states = pair.checkpoint.tables
    assert pair.state() is SlaveState.NORMAL
    assert states.not_ready == {BAD: TableState.INCONSISTENT}
    assert KINDS[kind][2] in states.explain(BAD)
    pair.assert_equal([GOOD, OTHER])


def load_again(pair: Rig, kind: str) -> None:
    KINDS[kind][1](pair)
    update = pair.update(tables=[str(BAD)])
    pair.prepare(update)
    pair.load_to_normal(update)
    steps.finish(update)
    pair.await_current()
    assert not pair.checkpoint.tables.not_ready
    pair.assert_equal()


@kinds
@pytest.mark.parametrize("read", ["committed", pytest.param("snapshot", marks=pytest.mark.long)])
def test_a_whole_load_goes_on_without_it(make: Callable[..., Rig], kind: str, read: str) -> None:
    pair = make()
    pair.prepare(update := pair.update("first", read=read))
    KINDS[kind][0](pair)
    with pair.apply():
        change(pair)
        pair.load(update, 3)
        pair.await_normal()
        assert [what for what, _ in steps.finish(update).left_out] == [f"table {BAD}"]
        change_more = "UPDATE public.{} SET v = 'later' WHERE id < 20"
        for table in (BAD, GOOD, OTHER):
            pair.master.execute(change_more.format(table.name).encode())
        pair.await_current()
        expect_left_out(pair, kind)
        load_again(pair, kind)


@pytest.mark.long
@kinds
def test_also_when_some_of_its_blocks_are_stored(make: Callable[..., Rig], kind: str) -> None:
    pair = make()
    pair.prepare(update := pair.update("first"))
    with LoadJob(update) as job:
        once = iter([False, True])
        load_worker(update, job.loader(1), lambda: next(once, True))
    assert [block.table for block in pair.blocks() if block.state is BlockState.STORED] == [BAD]
    KINDS[kind][0](pair)
    with pair.apply():
        change(pair)
        pair.load(update, 3)
        pair.await_normal()
        pair.await_current()
        expect_left_out(pair, kind)
        load_again(pair, kind)


@pytest.mark.long
@kinds
def test_a_load_of_some_tables_goes_on_without_it(make: Callable[..., Rig], kind: str) -> None:
    pair = make()
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
        steps.finish(first)
        KINDS[kind][0](pair)
        pair.slave.execute("DELETE FROM public.bad; DELETE FROM public.other")
        update = pair.update(tables=[str(BAD), str(OTHER)])
        pair.prepare(update)
        pair.load(update, 2)
        with raises_code("tables-not-ready", match=r"public\.bad is inconsistent"):
            steps.finish(update)
        change(pair)
        pair.await_current()
        expect_left_out(pair, kind)
        load_again(pair, kind)


@pytest.mark.long
@kinds
def test_the_load_fails_where_on_error_is_stop_and_goes_on_once_the_reason_is_gone(
    make: Callable[..., Rig], kind: str
) -> None:
    pair = make(slave_options={"on_error": "stop"})
    pair.prepare(update := pair.update("first"))
    KINDS[kind][0](pair)
    with pytest.raises(Terminal, match="code" if kind == "owner's code" else "budget"):
        pair.load(update)
    assert not pair.checkpoint.tables.not_ready
    KINDS[kind][1](pair)
    with pair.apply():
        pair.load_to_normal(update)
    pair.assert_equal()
