"""The slave's tables: created like the master's, with every type and name, and completed after the load."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from devstack.demo import accounts, master
from devstack.postgres import PostgresServer
from sluice.database.schema import Constraint
from sluice.load import steps
from sluice.model.compatibility import TablesDiffer
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres import catalog, sessions
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.target import constraints
from tests.errors import raises_code
from tests.rig.rig import MakePair, Rig


@pytest.fixture
def demo(postgres: PostgresServer, pair_of: MakePair) -> Iterator[Rig]:
    """The demo's master with all its types and names, read by an account that owns none of its tables."""
    master.make(postgres, 1)
    reader = postgres.info(accounts.DATABASE, accounts.ACCOUNT)
    pair = pair_of("public.*", '"Mixed Case".*', master=reader, role=True, block_rows=40_000, schema=accounts.SCHEMA)
    with postgres.connect() as admin:
        admin.execute(sessions.allow_silence(pair.slave).encode())
    yield pair
    pair.master.close()
    with postgres.connect() as admin:
        admin.execute(f"DROP OWNED BY {pair.slave_info.user}".encode())
        admin.execute(f"DROP DATABASE {accounts.DATABASE} WITH (FORCE)".encode())


@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.long)], ids=["once", "again"])
def test_every_type_and_name_travels_without_a_superuser(demo: Rig, again: bool) -> None:
    update = demo.update()
    demo.prepare(update)
    demo.load(update)
    demo.assert_equal()
    demo.declare_normal()
    done = steps.finish(update)
    assert done.left_out == []
    assert steps.finish(update).made == []
    tables = [resolved.table for resolved in demo.replication.resolve(catalog.tables(demo.master))]
    there, here = catalog.shapes(demo.master, tables), catalog.shapes(demo.slave, tables)
    for table in tables:
        for wanted, made in zip(there[table].columns, here[table].columns, strict=True):
            assert (wanted.name, wanted.type, wanted.nullable, wanted.key, wanted.generated, wanted.collation) == (
                made.name, made.type, made.nullable, made.key, made.generated, made.collation,
            ), table  # fmt: skip
            assert wanted.default == made.default
            assert made.identity == ("d" if wanted.identity else "")
    for read in (constraints.indexes, constraints.constraints):
        assert {str(found) for found in _comparable(read(demo.master, tables))} == {
            str(found) for found in _comparable(read(demo.slave, tables))
        }
    if not again:
        return
    # A second update finds all of this there, empties it, and ends the same.
    second = demo.update()
    demo.prepare(second)
    demo.load(second)
    demo.assert_equal()
    demo.declare_normal()
    # Checks stay where they are during a load.
    assert {*steps.finish(second).made, "check lines_amount_check on public.lines"} == {*done.made}


def _comparable(found: Any) -> Any:
    """The foreign keys as they are on a slave: deferrable."""
    return [constraints.definition(one) if isinstance(one, Constraint) else one for one in found]


@pytest.mark.long
def test_sequences_stand_behind_their_columns_for_the_day_of_a_fail_over(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE SEQUENCE public.shared START 100 INCREMENT BY 10")
    pair.master.execute(
        "CREATE TABLE public.t (a serial PRIMARY KEY, b bigint GENERATED ALWAYS AS IDENTITY (START 7), "
        "c int DEFAULT nextval('public.shared'), d int GENERATED ALWAYS AS (a * 2) STORED)"
    )
    pair.master.execute("INSERT INTO public.t SELECT FROM generate_series(1, 20)")
    update = pair.update()
    pair.prepare(update)
    pair.load(update)
    pair.declare_normal()
    steps.finish(update)
    pair.assert_equal()
    for connection in (pair.master, pair.slave):
        connection.execute("INSERT INTO public.t DEFAULT VALUES")
    pair.assert_equal()


@pytest.mark.long
def test_a_default_that_calls_a_missing_function_is_left_out(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE FUNCTION public.mine(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'")
    pair.master.execute(
        "CREATE TABLE public.t "
        "(a int PRIMARY KEY, b int DEFAULT public.mine(1), CONSTRAINT fun CHECK (public.mine(a) > 0))"
    )
    pair.master.execute("CREATE INDEX on_mine ON public.t (public.mine(a))")
    pair.master.execute("CREATE INDEX fine ON public.t (b) WHERE b > 3")
    pair.master.execute("INSERT INTO public.t VALUES (1), (2)")
    update = pair.update()
    pair.prepare(update)
    pair.load(update)
    pair.declare_normal()
    done = steps.finish(update)
    pair.assert_equal()
    assert done.made == ["index fine on public.t"]
    assert [what for what, _ in done.left_out] == ["index on_mine on public.t", "check fun on public.t"]
    assert all("mine" in why for _, why in done.left_out)


@pytest.mark.long
def test_indexes_and_constraints_of_every_kind_are_made_also_after_a_broken_try(pair_of: MakePair) -> None:
    pair = pair_of()
    for connection in (pair.master, pair.slave):
        connection.execute("CREATE EXTENSION btree_gist SCHEMA public")
    nulls = "NULLS NOT DISTINCT" if pair.master.info.server_version >= 150000 else ""
    pair.master.execute(
        f"""CREATE TABLE public.t (
        id int PRIMARY KEY, a int, b text, c int4range, d text,
        CONSTRAINT "NOT DEFERRABLE" UNIQUE (b) DEFERRABLE INITIALLY DEFERRED,
        CONSTRAINT "ein ""Name"" so" UNIQUE {nulls} (a) INCLUDE (d),
        CONSTRAINT apart EXCLUDE USING gist (a public.gist_int4_ops WITH =, c WITH &&) WHERE (b <> ' DEFERRABLE'),
        CONSTRAINT positive CHECK (a > 0 AND b <> 'NOT VALID') NO INHERIT
    )""".encode()
    )
    pair.master.execute("CREATE UNIQUE INDEX lower_b ON public.t (lower(b) text_pattern_ops DESC) WHERE a > 5")
    pair.master.execute("CREATE INDEX hashed ON public.t USING hash (d)")
    pair.master.execute("CREATE INDEX covering ON public.t USING brin (a, id)")
    rows = "SELECT g, g, 'b' || g, int4range(g, g + 5), 'd' FROM generate_series(1, 50) g"
    pair.master.execute(f"INSERT INTO public.t {rows}".encode())
    update = pair.update()
    pair.prepare(update)
    pair.load(update)
    pair.declare_normal()
    pair.slave.execute("CREATE INDEX hashed ON public.t USING hash (d)")
    pair.slave.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'public.hashed'::regclass")
    pair.slave.execute('CREATE UNIQUE INDEX "NOT DEFERRABLE" ON public.t (b)')
    done = steps.finish(update)
    assert done.left_out == []
    table = [TableName("public", "t")]
    there = {index.name: index for index in constraints.indexes(pair.master, table)}
    here = {index.name: index for index in constraints.indexes(pair.slave, table)}
    # The apply may pass through states in between.
    assert str(here["apart"].constraint) == str(there["apart"].constraint) + " DEFERRABLE INITIALLY DEFERRED"
    del there["apart"], here["apart"]
    assert here == there
    assert steps.finish(update).made == []


@pytest.mark.long
def test_foreign_keys_do_not_cascade_on_the_slave_and_reach_only_replicated_tables(pair_of: MakePair) -> None:
    pair = pair_of("public.p", "public.c")
    pair.master.execute("CREATE TABLE public.elsewhere (id int PRIMARY KEY)")
    pair.master.execute("CREATE TABLE public.p (id int PRIMARY KEY, u int UNIQUE)")
    pair.master.execute(
        "CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p ON DELETE CASCADE, "
        "u int REFERENCES public.p (u) ON UPDATE SET NULL, e int REFERENCES public.elsewhere)"
    )
    pair.master.execute("INSERT INTO public.p VALUES (1, 10); INSERT INTO public.c VALUES (1, 1, 10, NULL)")
    update = pair.update()
    pair.prepare(update)
    pair.load(update)
    pair.declare_normal()
    done = steps.finish(update)
    assert done.left_out == [("foreign key c_e_fkey on public.c", "public.elsewhere is not replicated")]
    found = pair.slave.execute(
        "SELECT conname::text, confdeltype::text, confupdtype::text, condeferrable, convalidated FROM pg_constraint "
        "WHERE contype = 'f' ORDER BY 1"
    ).fetchall()
    assert found == [("c_p_fkey", "a", "a", True, True), ("c_u_fkey", "a", "a", True, True)]


def test_everything_that_stands_in_the_way_is_reported_at_once_and_nothing_is_changed(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TYPE public.mood AS ENUM ('sad', 'happy')")
    pair.master.execute("CREATE TABLE public.a (id int PRIMARY KEY, x text, m public.mood)")
    pair.master.execute("CREATE TABLE public.b (id bigint PRIMARY KEY)")
    pair.master.execute("CREATE TABLE public.v (id int PRIMARY KEY)")
    pair.slave.execute("CREATE TYPE public.mood AS ENUM ('sad')")
    pair.slave.execute("CREATE TABLE public.a (id int PRIMARY KEY, m public.mood); INSERT INTO public.a VALUES (1)")
    pair.slave.execute("CREATE TABLE public.b (id int PRIMARY KEY)")
    pair.slave.execute("CREATE VIEW public.v AS SELECT 1 AS id")
    pair.slave.execute("CREATE TABLE public.own (a int REFERENCES public.a)")
    pair.capture()
    update = pair.update()
    steps.begin(update, pair.store)
    with pytest.raises(TablesDiffer) as wrong:
        steps.create_tables(update)
    said = "\n".join(wrong.value.differences)
    for part in (
        "public.v is a view",
        "public.a lacks column x text",
        "public.b.id is integer, the master's bigint does not fit",
        "public.own is not replicated, but refers to public.a",
    ):
        assert part in said
    assert len(wrong.value.differences) == 4, "labels can be added"
    assert pair.slave.execute("SELECT enum_range(NULL::public.mood)::text[]").fetchone() == (["sad"],)
    assert pair.slave.execute("SELECT count(*) FROM public.a").fetchone() == (1,)
    assert pair.state() is SlaveState.INITIAL


@pytest.mark.long
def test_refuse_means_no_table_may_be_there_but_those_this_update_made(pair_of: MakePair) -> None:
    pair = pair_of(policy="refuse")
    pair.master.execute("CREATE TABLE public.a (id int PRIMARY KEY); CREATE TABLE public.b (id int PRIMARY KEY)")
    pair.slave.execute("CREATE TABLE public.a (id int PRIMARY KEY)")
    pair.capture()
    update = pair.update()
    steps.begin(update, pair.store)
    with raises_code("tables-exist", match=r"already has public\.a, "):
        steps.create_tables(update)
    pair.slave.execute("DROP TABLE public.a")
    assert len(steps.create_tables(update)) == 2
    assert steps.create_tables(update) == []
    steps.plan(update, pair.store)
    pair.load(update)


@pytest.mark.long
def test_kept_tables_stay_readable_and_end_equal(pair_of: MakePair) -> None:
    pair = pair_of(policy="keep", block_rows=100)
    definition = {
        "kept": "id int PRIMARY KEY, v text",
        "by_text": "id text PRIMARY KEY, v text",
        "with_unique": "id int PRIMARY KEY, v text UNIQUE",
        "keyless": "id int, v text",
    }
    for name, columns in definition.items():
        for connection, first in ((pair.master, 1), (pair.slave, 301)):
            connection.execute(f"CREATE TABLE public.{name} ({columns})".encode())
            rows = f"SELECT g, {first} || 'v' || g FROM generate_series({first}, {first} + 999) g"
            connection.execute(f"INSERT INTO public.{name} {rows}".encode())
    pair.capture()
    update = pair.update()
    steps.begin(update, pair.store)
    assert steps.create_tables(update) == []

    def count(name: str) -> int:
        found = pair.slave.execute(f"SELECT count(*) FROM public.{name}".encode()).fetchone()
        assert found is not None
        return int(found[0])

    # Where old rows could not be replaced range by range without a doubt, they go at once.
    assert {name: count(name) for name in definition} == {"kept": 1000, "by_text": 0, "with_unique": 0, "keyless": 1000}
    steps.plan(update, pair.store)
    pair.load(update)
    pair.assert_equal()
    assert len(pair.blocks("kept")) > 1


@pytest.mark.long
def test_a_kept_table_whose_keys_the_slave_orders_otherwise_loses_no_row(pair_of: MakePair) -> None:
    pair = pair_of(policy="keep", block_rows=20)
    for connection, labels in ((pair.master, "'a', 'b', 'c'"), (pair.slave, "'c', 'a', 'b'")):
        connection.execute(f"CREATE TYPE public.e AS ENUM ({labels})".encode())
        connection.execute("CREATE TABLE public.t (e public.e, id int, v text, PRIMARY KEY (e, id))")
    rows = "SELECT (array['a', 'b', 'c'])[1 + g % 3]::public.e, g, 'new' FROM generate_series(1, 200) g"
    pair.master.execute(f"INSERT INTO public.t {rows}".encode())
    pair.slave.execute(f"INSERT INTO public.t {rows.replace('new', 'old')}".encode())
    update = pair.update()
    pair.prepare(update)
    pair.load(update)
    assert len(pair.blocks()) > 2
    pair.assert_equal()


@pytest.mark.long
def test_ddl_between_preparing_and_planning_reaches_the_slave(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.a (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.a VALUES (1, 'x')")
    pair.capture()
    update = pair.update()
    steps.begin(update, pair.store)
    steps.create_tables(update)
    pair.master.execute("ALTER TABLE public.a ADD COLUMN w int DEFAULT 7, ALTER COLUMN id TYPE bigint")
    pair.capture()
    steps.plan(update, pair.store)
    pair.load(update)
    shape = catalog.shape(pair.slave, TableName("public", "a"))
    assert shape is not None
    assert [(column.name, column.type) for column in shape.columns] == [
        ("id", "bigint"),
        ("v", "text"),
        ("w", "integer"),
    ]
    pair.assert_equal()


def test_a_table_without_a_key_is_refused_where_changes_may_come_twice(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.keyed (id int PRIMARY KEY); CREATE TABLE public.log (line text)")
    pair.capture()
    update = pair.with_slave(checkpoint="redis").update()
    steps.begin(update, pair.store)
    with pytest.raises(TablesDiffer, match=r"- public\.log has no key, .* or set checkpoint: slave") as refused:
        steps.create_tables(update)
    assert len(refused.value.differences) == 1


@pytest.mark.long
def test_a_role_without_replica_rights_is_told_which_foreign_keys_stand_in_its_way(pair_of: MakePair) -> None:
    pair = pair_of(role=True)
    for connection in (pair.master, pair.slave):
        connection.execute("CREATE TABLE public.p (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p)")
    pair.capture()
    update = pair.update()
    steps.begin(update, pair.store)
    allow = re.escape(sessions.allow_silence(pair.slave))
    with pytest.raises(TablesDiffer, match=rf"c_p_fkey → public\.p would be violated .* {allow}"):
        steps.create_tables(update)
    pair.slave.execute("ALTER TABLE public.c DROP CONSTRAINT c_p_fkey")
    steps.create_tables(update)
    steps.plan(update, pair.store)
    pair.load(update)


OWN_TYPES = """
CREATE SCHEMA "Types Here";
CREATE SCHEMA "Other Schema";
CREATE COLLATION "Types Here"."My C" (COLLATION);
CREATE TYPE "Types Here"."E" AS ENUM ('it''s', '"', '');
CREATE DOMAIN "Types Here".d AS "Types Here"."E"[] DEFAULT '{}' NOT NULL CHECK (VALUE <> '{""}');
CREATE TYPE "Types Here".c AS (a "Types Here".d, "B b" text COLLATE "Types Here"."My C");
CREATE TYPE "Types Here".r AS RANGE (SUBTYPE = "Types Here"."E", MULTIRANGE_TYPE_NAME = "Types Here".rr);
CREATE TABLE "Other Schema"."T" (
    id text COLLATE "Types Here"."My C" PRIMARY KEY, c "Types Here".c[], r "Types Here".r, m "Types Here".rr
);
INSERT INTO "Other Schema"."T" VALUES
    ('a', ARRAY[ROW('{it''s}', 'x')::"Types Here".c], '["it''s",""]', '{["it''s","\\""]}'),
    ('b', NULL, NULL, NULL);
"""


@pytest.mark.long
def test_collations_schemas_and_types_are_made_with_the_tables(pair_of: MakePair) -> None:
    pair = pair_of('"Other Schema".*')
    with connect(pair.master_info, application="test", autocommit=True) as connection:
        own = "provider = builtin, locale = 'C.UTF-8'" if connection.info.server_version >= 170000 else "locale = 'C'"
        connection.execute(OWN_TYPES.replace("COLLATION);", f"{own});").encode())
    update = pair.update()
    pair.prepare(update)
    pair.load(update)
    pair.assert_equal()
    again = pair.update()
    steps.cancel(update, pair.store)
    pair.prepare(again)
