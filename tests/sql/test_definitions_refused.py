"""What an initial update and a failover create on a slave never runs code of the master's users."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from test_expressions_refused import APPLICATION, runs

from sluice.model.connection import ConnectionInfo
from sluice.model.failover import Sheet
from sluice.model.names import Prefix, TableName
from sluice.model.schema_definitions import Definition, differences
from sluice.vendors.postgres import connection, failover, types
from sluice.vendors.postgres.expressions import ExpressionRefused
from sluice.vendors.postgres.target import constraints, tables

pytestmark = pytest.mark.releases

T = TableName("public", "t")
DEMO = Prefix("DEMO_")
Links = tuple[psycopg.Connection[Any], psycopg.Connection[Any]]


@pytest.fixture
def ends(database: Callable[..., ConnectionInfo]) -> Iterator[Links]:
    with (
        connection.connect(database(), application="master", autocommit=True) as master,
        connection.connect(database(), application="slave", autocommit=True) as slave,
    ):
        master.execute(APPLICATION)
        slave.execute(APPLICATION)
        yield master, slave


def test_a_new_domain_that_calls_the_application_is_not_made(ends: Links) -> None:
    master, slave = ends
    slave.execute("DROP DOMAIN public.checked CASCADE; DROP TYPE public.part; DROP DOMAIN public.email")
    master.execute("CREATE TABLE public.t (id integer, c public.part, e public.email)")
    needed = types.needed(master, [T])
    with pytest.raises(ExpressionRefused, match=r"public\.boom\(integer\).*trusted_ddl: true"), slave.transaction():
        types.create(slave, needed)
    assert types.defined(slave, [("public", "checked")]) == {}
    master.execute("ALTER TABLE public.t DROP c")
    with slave.transaction():
        assert types.create(slave, types.needed(master, [T])) == ['type "public"."email"']
    with slave.transaction():
        types.create(slave, needed, trusted=True)
    assert not runs(slave)


def test_a_refused_statement_runs_as_printed(ends: Links) -> None:
    master, slave = ends
    master.execute(
        "CREATE SCHEMA shop; CREATE SCHEMA words; CREATE EXTENSION citext SCHEMA words; "
        "CREATE DOMAIN shop.code AS words.citext CHECK (public.boom(length(VALUE)) > 0); "
        "CREATE TABLE shop.t (c shop.code)"
    )
    needed = types.needed(master, [TableName("shop", "t")])
    with pytest.raises(ExpressionRefused, match="start initial_update again") as refused, slave.transaction():
        types.create(slave, needed)
    slave.execute(refused.value.statement.encode())
    with slave.transaction():
        assert types.create(slave, needed) == []
    master.execute(
        "CREATE SCHEMA new; CREATE TABLE new.t (id integer, g integer GENERATED ALWAYS AS (public.boom(id)) STORED)"
    )
    (wanted,) = tables.define(master, [TableName("new", "t")])
    with pytest.raises(ExpressionRefused) as refused, slave.transaction():
        tables.create(slave, wanted)
    slave.execute(refused.value.statement.encode())
    assert not runs(slave)


def test_a_new_table_stops_for_what_is_evaluated_and_leaves_a_default_out(
    ends: Links, caplog: pytest.LogCaptureFixture
) -> None:
    master, slave = ends
    made = {
        "t": "id integer, g integer GENERATED ALWAYS AS (public.boom(id)) STORED",
        "u": "id integer, c public.checked",
        "v": "id integer DEFAULT public.boom(2), at timestamptz DEFAULT now(), "
        "g integer GENERATED ALWAYS AS (id + 1) STORED",
    }
    for name, columns in made.items():
        master.execute(f"CREATE TABLE public.{name} ({columns})")
    found = {one.table.name: one for one in tables.define(master, [TableName("public", name) for name in made])}
    for name in ("t", "u"):
        with pytest.raises(ExpressionRefused, match=r"public\.boom\(integer\).*CREATE TABLE"), slave.transaction():
            tables.create(slave, found[name])
    with slave.transaction():
        tables.create(slave, found["v"])
    defaults = slave.execute("SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef ORDER BY adnum").fetchall()
    assert defaults == [("now()",), ("(id + 1)",)]
    assert "default left out on the slave: an expression calls public.boom(integer)" in caplog.text
    assert not runs(slave)
    with slave.transaction():
        tables.create(slave, found["t"], trusted=True)


INDEXES = """
CREATE INDEX plain ON public.t (n);
CREATE INDEX harmless ON public.t (lower(n), id) INCLUDE (id) WHERE id > 0 AND n IS NOT NULL;
CREATE INDEX evil ON public.t (n, public.boom(id));
CREATE INDEX "evil where" ON public.t (n) WHERE public.boom(1) = 1;
ALTER TABLE public.t ADD CONSTRAINT "evil exclusion" EXCLUDE ((public.boom(id)) WITH =);
ALTER TABLE public.t ADD CONSTRAINT "fine check" CHECK (id < 1000);
ALTER TABLE public.t ADD CONSTRAINT "evil check" CHECK (id OPERATOR(public.===) 1)
"""


def test_indexes_and_checks_that_call_the_application_are_left_out_with_the_statement(ends: Links) -> None:
    master, slave = ends
    for link in ends:
        link.execute("CREATE TABLE public.t (id integer, n text); INSERT INTO public.t VALUES (1, 'a')")
    master.execute(INDEXES)
    wanted, checks = constraints.indexes(master, [T]), constraints.constraints(master, [T])
    done = constraints.complete_indexes(slave, wanted)
    done.extend(constraints.complete_constraints(slave, checks, [T]))
    assert done.made == ["index plain on public.t", "index harmless on public.t", "check fine check on public.t"]
    left_out = [what for what, why in done.left_out if "public.boom" in why]
    assert left_out == [
        "index evil on public.t",
        "index evil where on public.t",
        "index evil exclusion on public.t",
        "check evil check on public.t",
    ]
    statements = "; ".join(one.statement for one in constraints.lacking(slave, wanted, checks, [T]))
    assert 'ADD CONSTRAINT "evil check" CHECK' in statements
    assert not runs(slave)
    trusted = constraints.complete_indexes(slave, wanted, trusted=True)
    trusted.extend(constraints.complete_constraints(slave, checks, [T], trusted=True))
    assert len(trusted.made) == 4 and not trusted.left_out
    # A person may also make them: nothing is lacking then.
    assert constraints.lacking(slave, wanted, checks, [T]) == []


def test_a_failover_leaves_them_to_a_person_and_makes_what_is_not_evaluated(ends: Links) -> None:
    master, slave = ends
    for link in ends:
        link.execute("CREATE TABLE public.t (id integer, n text); INSERT INTO public.t VALUES (1, 'a')")
    master.execute(INDEXES)
    master.execute("ALTER TABLE public.t ALTER id SET DEFAULT public.boom(3)")
    kept = Sheet.parse(failover.sheet(master, DEMO, "public", "there", [T]).text())
    store = failover.FailoverStore(slave, DEMO, "public", "dr1")
    store.ensure()
    store.keep(kept)
    wanted = differences(kept.definitions, failover.definitions(slave, DEMO, [T]))
    refused = {one.definition.object: failover.make(slave, store, one) for one in wanted if one.automatic}
    assert {name for name, why in refused.items() if "public.boom" in why} == {
        "evil",
        "evil where",
        "evil exclusion",
        "evil check",
    }
    assert {name for name, why in refused.items() if not why} >= {"plain", "harmless", "fine check", "id"}
    assert not runs(slave)
    evil = next(one for one in wanted if one.definition.object == "evil")
    assert evil.wanted is not None
    # As an earlier release kept it.
    old = {name: value for name, value in evil.wanted.to_dict().items() if name != "expressions"}
    older = replace(evil, wanted=Definition.from_dict(old))
    assert "an earlier release kept it" in failover.make(slave, store, older)
    assert failover.make(slave, store, evil, trusted=True) == ""
