"""Views and sequences that no column owns follow where `replicate` says so, also past changes of columns they read."""

from collections.abc import Callable

import pytest

from sluice.configuration.options import ReplicateOptions
from sluice.control.definitions import DefinitionStore
from sluice.model.names import TableName
from sluice.model.views import replicated
from sluice.vendors.postgres.vendor import POSTGRES
from tests.rig.rig import Rig

TABLES = """
CREATE TYPE public.mood AS ENUM ('fine');
CREATE TABLE public.t (id int PRIMARY KEY, n int, v text, mood public.mood);
"""
ODD = 'public."Odd ]]> ""view"""'
OWN = "CREATE VIEW public.own AS SELECT 1 AS one"
OWN_OF_MASTER = "CREATE VIEW public.own AS SELECT id AS one FROM public.base"
"""It reads a view that changes; the slave has another one under the name, which must stay."""
BASE = 'CREATE VIEW public.base (id, "select", mood) WITH (security_barrier=true) AS SELECT id, n, mood FROM public.t'
SUMS = 'CREATE VIEW public.sums AS SELECT mood, sum("select") AS s, now() AS at FROM public.base GROUP BY mood'
ON_TOP = f"CREATE VIEW {ODD} AS SELECT s.*, t.v FROM public.sums s LEFT JOIN public.t ON t.mood = s.mood"
OF_OTHERS = "CREATE VIEW public.of_others AS SELECT relname FROM pg_catalog.pg_class"
CALLS = (
    "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'; "
    "CREATE VIEW public.calls AS SELECT id, public.mine() AS m FROM public.t"
)
READERS = f"{SUMS}; {ON_TOP}; {OWN_OF_MASTER}"
ANEW = f"DROP VIEW public.base CASCADE; ALTER TABLE public.t ALTER n TYPE bigint; {BASE}; {READERS}"


def views(rig: Rig) -> tuple[dict[TableName, str], dict[TableName, str]]:
    """The master's views that can follow, and those that the slave has from it."""
    prefix, table = rig.replication.prefix, TableName("public", "t")
    of_master = replicated(POSTGRES.schemas.views(rig.master, prefix), [table])
    of_slave = POSTGRES.schemas.views(rig.slave, prefix)
    own = ("calls", "own")
    return (
        {view.name: view.definition for view in of_master if view.name.name not in own},
        {view.name: view.definition for view in of_slave if view.name.name not in own},
    )


def numbers(rig: Rig) -> list[object]:
    return [POSTGRES.schemas.free_sequences(one, rig.replication.prefix, ["public"]) for one in (rig.master, rig.slave)]


def same(rig: Rig) -> bool:
    master, slave = views(rig)
    return master == slave


def await_same(rig: Rig, count: int) -> None:
    rig.await_that(lambda: same(rig))
    assert len(views(rig)[1]) == count


def test_views_and_sequences_follow_past_changes_of_the_columns_they_read(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    pair = rig(TABLES)
    with pair.replication.source.open("a") as file:
        file.write("replicate: {views: true, sequences: true}\n")
    pair = pair.with_options(replicate=ReplicateOptions(views=True, sequences=True))
    execute = pair.master.execute
    for statement in (BASE, SUMS, ON_TOP, OF_OTHERS, CALLS, OWN_OF_MASTER):
        execute(statement.encode())
    execute("CREATE SEQUENCE public.numbers AS int START 5 INCREMENT BY 5 CYCLE")
    execute("SELECT nextval('public.numbers'), nextval('public.numbers')")
    pair.slave.execute(OWN.encode())
    with pair.apply():
        await_same(pair, 3)
        pair.await_that(lambda: numbers(pair)[0] == numbers(pair)[1])
        pair.await_that(lambda: "view public.own does not follow: the slave has another one" in caplog.text)
        assert "view public.calls does not follow: “•••” (SQLSTATE 42883)" in caplog.text
        pair.slave.execute("CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        # A type that changes below them, while rows come.
        execute("INSERT INTO public.t VALUES (1, 1, 'a', 'fine')")
        execute(ANEW.encode())
        execute("UPDATE public.t SET n = 3000000000")
        await_same(pair, 3)
        assert pair.slave.execute(f"SELECT s FROM {ODD}".encode()).fetchone() == (3000000000,)
        # One in the middle is replaced, and one that others read gets another column.
        execute('CREATE OR REPLACE VIEW public.base AS SELECT id, n AS "select", mood, v AS more FROM public.t')
        await_same(pair, 3)
        fewer = 'CREATE VIEW public.base AS SELECT id, n AS "select", mood FROM public.t'
        execute(f"DROP VIEW public.base CASCADE; {fewer}; {READERS}".encode())
        execute("ALTER SEQUENCE public.numbers INCREMENT BY -7 MINVALUE -100")
        await_same(pair, 3)
        pair.await_that(lambda: numbers(pair)[0] == numbers(pair)[1])
        execute("DROP SEQUENCE public.numbers")
        execute("ALTER TABLE public.t DROP COLUMN v CASCADE")
        await_same(pair, 2)
        assert "view public.calls does not follow: public.calls: an expression calls public.mine()" in caplog.text
        pair.await_that(lambda: numbers(pair)[1] == [])
        pair.await_current()
    assert pair.differences() == {}
    assert pair.slave.execute("SELECT one FROM public.own").fetchone() == (1,)


@pytest.mark.long
def test_nothing_follows_that_the_configuration_does_not_name(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.master.execute(f"{BASE}; CREATE SEQUENCE public.numbers".encode())
    with pair.apply() as running:
        store = DefinitionStore(pair.slave, pair.pair.prefix, pair.schema, pair.name)
        pair.await_that(lambda: store.read() is not None and not running.loop.follower.busy)
        assert not views(pair)[1] and not numbers(pair)[1]
