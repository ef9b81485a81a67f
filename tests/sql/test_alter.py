"""Definitions change on the slave as on the master, rows are kept, and a change may come twice."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sluice import sql_files
from sluice.database import xml_images
from sluice.model import table_definition
from sluice.model.change import DEFINITIONS, Action
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.table_definition import Bound, TableDefinition
from sluice.vendors.postgres import catalog, connection
from sluice.vendors.postgres.target.alter import Alterer, DefinitionRefused
from sluice.vendors.postgres.target.slave_tables import SlaveTables

pytestmark = pytest.mark.releases

T = TableName("public", "t")


@dataclass(frozen=True)
class Item:
    action: Action
    table: TableName
    content: str | None = None
    oldcontent: str | None = None

    @property
    def defined(self) -> TableDefinition | None:
        return xml_images.definition(self.content) if self.content and self.action in DEFINITIONS else None

    @property
    def former(self) -> TableDefinition | None:
        return xml_images.definition(self.oldcontent) if self.oldcontent else None

    @property
    def bound(self) -> Bound | None:
        return xml_images.bound(self.content) if self.content and self.action is Action.DELETE_WHERE else None


class Pair:
    """A master that describes its table, and a slave."""

    def __init__(self, master: Any, slave: Any):
        self.master = master
        self.slave = slave
        self.alterer = Alterer(slave, SlaveTables(slave))

    def described(self, table: TableName = T) -> str | None:
        text: str | None = self.master.execute(
            "SELECT public.demo_describe(%s, %s)", [table.schema, table.name]
        ).fetchone()[0]
        return text

    def create(self, statement: str, table: TableName = T) -> None:
        self.master.execute(statement)
        self.master.execute(
            "INSERT INTO public.demo_tables (schemaname, tablename, trigger_name, status) VALUES (%s, %s, 'x', 'OK')",
            [table.schema, table.name],
        )
        self.alterer.apply(Item(Action.CREATE, table, self.described(table)))

    def alter(self, statement: str, table: TableName = T) -> None:
        """Applies a change, also a second time, as after a restart."""
        before = self.described(table)
        self.master.execute(statement)
        item = Item(Action.ALTER, table, self.described(table), before)
        self.alterer.apply(item)
        self.alterer.apply(item)

    def rows(self, table: TableName = T) -> tuple[Any, Any]:
        found = [
            sorted(link.execute(f"SELECT * FROM {table}").fetchall(), key=repr) for link in (self.master, self.slave)
        ]
        return found[0], found[1]

    def same(self, table: TableName = T) -> None:
        ours, theirs = catalog.shape(self.master, table), catalog.shape(self.slave, table)
        assert ours is not None
        assert theirs is not None
        facts = [
            [
                (c.name, c.type, c.nullable, c.key, c.default, bool(c.identity), c.generated, c.collation)
                for c in shape.columns
            ]
            for shape in (ours, theirs)
        ]
        assert facts[0] == facts[1]
        assert self.rows(table)[0] == self.rows(table)[1]


@pytest.fixture
def pair(database: Callable[..., ConnectionInfo]) -> Iterator[Pair]:
    with (
        connection.connect(database(), application="master", autocommit=True) as master,
        connection.connect(database(), application="slave") as slave,
    ):
        for name in (*(f"resources_v{step}" for step in (1, 2, 6, 7)), "cols_view", "values", "definition"):
            master.execute(sql_files.render("postgres", name, prefix="demo_", schema='"public"').encode())
        yield Pair(master, slave)


def put(pair: Pair, statement: str) -> None:
    pair.master.execute(statement)
    pair.slave.execute(statement)


def test_a_definition_reads_back_as_the_catalogue_has_it(pair: Pair) -> None:
    odd = TableName("public", 'a "b" <&>.c')
    pair.create(
        'CREATE TABLE public."a ""b"" <&>.c" ("x<&>""y" numeric(10,2) DEFAULT 1.5 NOT NULL, "select" text COLLATE "C", '
        'g int GENERATED ALWAYS AS ("x<&>""y"::int * 2) STORED, PRIMARY KEY ("select", "x<&>""y"))',
        odd,
    )
    found = table_definition.parse(pair.described(odd) or "")
    shape = catalog.shape(pair.master, odd)
    assert shape is not None
    assert [(c.name, c.type, c.position, c.nullable, c.key) for c in found.shape.columns] == [
        (c.name, c.type, c.position, c.nullable, c.key) for c in shape.columns
    ]
    pair.same(odd)


def test_create_leaves_an_existing_table_alone(pair: Pair) -> None:
    pair.slave.execute("CREATE TABLE public.t (mine int); INSERT INTO public.t VALUES (1)")
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY)")
    assert pair.rows()[1] == [(1,)]


def test_create_makes_schema_identity_and_generated_columns(pair: Pair) -> None:
    table = TableName("New Schema", "t")
    pair.create(
        'CREATE SCHEMA "New Schema"; CREATE TABLE "New Schema".t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, '
        "v text DEFAULT 'x', g text GENERATED ALWAYS AS (upper(v)) STORED, w int GENERATED ALWAYS AS (1) STORED)",
        table,
    )
    pair.same(table)


@pytest.mark.since(18, "virtual columns")
def test_create_makes_virtual_columns(pair: Pair) -> None:
    generated = "w int GENERATED ALWAYS AS (1), x int GENERATED ALWAYS AS (v) VIRTUAL"
    pair.create(f"CREATE TABLE public.t (id int PRIMARY KEY, v int, {generated})")
    pair.same()


def test_a_default_that_the_slave_cannot_have_is_left_out(pair: Pair) -> None:
    pair.master.execute(
        "CREATE FUNCTION public.only_here() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE SEQUENCE public.s"
    )
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, v int DEFAULT public.only_here(), w int DEFAULT 7)")
    pair.alter("ALTER TABLE public.t ADD x bigint DEFAULT nextval('public.s')")
    shape = catalog.shape(pair.slave, T)
    assert shape is not None
    assert [column.default for column in shape.columns] == [None, None, "7", None]


@pytest.mark.one_in(9)
@pytest.mark.parametrize(
    "statements",
    [
        ["ADD c int"],
        ["ADD c int DEFAULT 7 NOT NULL"],
        ["ADD c timestamptz DEFAULT now()"],
        ["ADD c text DEFAULT E'it''s \\\\ \"quoted\" <&> \\n'"],
        ["ADD c int DEFAULT 7", "ALTER c DROP DEFAULT", "ALTER c SET DEFAULT 8"],
        ["ADD c int[] DEFAULT '{1,2}'"],
        ["DROP COLUMN v"],
        ["DROP COLUMN v", "ADD v int DEFAULT 5"],
        ["RENAME v TO c"],
        ["RENAME v TO x", "RENAME w TO v", "RENAME x TO w"],
        ["RENAME id TO nr"],
        ["ALTER w TYPE numeric(12,3)", "ALTER v TYPE varchar(20)"],
        ['ALTER v TYPE text COLLATE "C"'],
        ["ALTER w SET DEFAULT 5", "ALTER w TYPE text"],
        ["ALTER v SET NOT NULL", "ALTER v DROP NOT NULL"],
        ["ALTER v SET NOT NULL", "DROP CONSTRAINT t_pkey", "ADD PRIMARY KEY (v, id)"],
        ["DROP CONSTRAINT t_pkey"],
        ["ALTER w SET NOT NULL", "ALTER w ADD GENERATED ALWAYS AS IDENTITY (START 100)", "ALTER w DROP IDENTITY"],
        ["ADD g int GENERATED ALWAYS AS (id * 2) STORED"],
        ["ADD g int GENERATED ALWAYS AS (id * 2) STORED", "ALTER g DROP EXPRESSION"],
        pytest.param(
            [
                "ADD g int GENERATED ALWAYS AS (id * 2) STORED",
                "ALTER g SET EXPRESSION AS (id * 3)",
                "ALTER g DROP EXPRESSION",
            ],
            marks=pytest.mark.since(17, "SET EXPRESSION"),
        ),
        pytest.param(
            ["ADD g text GENERATED ALWAYS AS (v || v) VIRTUAL"], marks=pytest.mark.since(18, "virtual columns")
        ),
    ],
    ids=lambda statements: ", ".join(statements)[:60],
)
def test_alter_follows(pair: Pair, statements: list[str]) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, v text, w int)")
    put(pair, "INSERT INTO public.t (id, v, w) VALUES (1, 'a', 1), (2, 'b', 2)")
    for statement in statements:
        pair.alter(f"ALTER TABLE public.t {statement}")
    pair.same()


COMPUTED = "ADD g int GENERATED ALWAYS AS (w * 2) STORED"


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "statements",
    [
        ["DROP COLUMN w CASCADE"],
        ["ALTER g DROP EXPRESSION", "DROP COLUMN w"],
        ["ALTER g DROP EXPRESSION", "ALTER w TYPE text", "RENAME g TO x", "RENAME w TO g"],
        pytest.param(
            ["ADD n int", "ALTER g SET EXPRESSION AS (n * 2)", "DROP COLUMN w", "RENAME n TO w"],
            marks=pytest.mark.since(17, "SET EXPRESSION"),
        ),
        pytest.param(
            ["ADD n int", "ALTER g SET EXPRESSION AS (n + 1)", "DROP COLUMN w", "RENAME v TO w"],
            marks=pytest.mark.since(17, "SET EXPRESSION"),
        ),
    ],
    ids=lambda statements: ", ".join(statements)[:60],
)
def test_columns_go_from_which_others_were_computed(pair: Pair, statements: list[str]) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, v text, w int)")
    put(pair, "INSERT INTO public.t (id, v, w) VALUES (1, 'a', 1), (2, 'b', 2)")
    pair.alter(f"ALTER TABLE public.t {COMPUTED}")
    before = pair.described()
    for statement in statements:
        pair.master.execute(f"ALTER TABLE public.t {statement}")
    pair.alterer.apply(Item(Action.ALTER, T, pair.described(), before))
    pair.same()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("column", "value", "statements"),
    [
        ("span", "[1,2]", ["span RENAME TO spell", "spans RENAME TO spells"]),
        ("span[]", '{"[1,2]"}', ["span SET SCHEMA other", "spans SET SCHEMA other", "other.span RENAME TO spell"]),
        ("spans", "{[1,2]}", ["spans RENAME TO spells"]),
    ],
)
def test_ranges_are_renamed_and_keep_their_values(pair: Pair, column: str, value: str, statements: list[str]) -> None:
    put(pair, "CREATE TYPE public.span AS RANGE (subtype = numeric, multirange_type_name = public.spans)")
    pair.master.execute("CREATE SCHEMA other")
    pair.create(f"CREATE TABLE public.t (id int PRIMARY KEY, x public.{column})")
    put(pair, f"INSERT INTO public.t VALUES (1, '{value}')")
    before = pair.described()
    for statement in statements:
        pair.master.execute(f"SET search_path = public; ALTER TYPE {statement}; RESET search_path")
    item = Item(Action.ALTER, T, pair.described(), before)
    for _ in range(2):
        pair.alterer.prepare([item])  # type: ignore[list-item]
        pair.alterer.apply(item)
    pair.same()


def test_a_column_that_takes_the_name_of_the_key_becomes_the_key(pair: Pair) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, v text, w int)")
    put(pair, "INSERT INTO public.t (id, v, w) VALUES (1, 'a', 1), (2, 'b', 2)")
    before = pair.described()
    for statement in ("DROP CONSTRAINT t_pkey", "RENAME id TO former", "RENAME w TO id", "ADD PRIMARY KEY (id)"):
        pair.master.execute(f"ALTER TABLE public.t {statement}")
    pair.alterer.apply(Item(Action.ALTER, T, pair.described(), before))
    pair.same()


@pytest.mark.parametrize(
    "definition", ["c text DEFAULT 'x'", "c int NOT NULL DEFAULT 7", "c timestamptz DEFAULT now()"]
)
def test_a_new_column_of_a_partitioned_table_has_the_masters_value_in_older_rows(pair: Pair, definition: str) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    pair.master.execute(
        "CREATE TABLE public.t_0 PARTITION OF public.t FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);"
        "CREATE TABLE public.t_0_0 PARTITION OF public.t_0 FOR VALUES FROM (0) TO (5)"
    )
    put(pair, "INSERT INTO public.t VALUES (1, 'a'), (2, 'b')")
    pair.alter(f"ALTER TABLE public.t ADD {definition}")
    assert pair.rows()[0] == pair.rows()[1]
    pair.alter("ALTER TABLE public.t ALTER c DROP NOT NULL, ALTER c DROP DEFAULT")
    pair.same()


def test_names_that_change_places_in_one_comparison(pair: Pair) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, v text, w text)")
    put(pair, "INSERT INTO public.t VALUES (1, 'v', 'w')")
    before = pair.described()
    pair.master.execute(
        "ALTER TABLE public.t RENAME v TO x; ALTER TABLE public.t RENAME w TO v; ALTER TABLE public.t RENAME x TO w;"
        "ALTER TABLE public.t DROP id, ADD id int DEFAULT 3"
    )
    pair.alterer.apply(Item(Action.ALTER, T, pair.described(), before))
    assert pair.slave.execute("SELECT v, w, id FROM public.t").fetchall() == [("w", "v", 3)]


def test_a_key_is_made_although_a_unique_index_that_the_master_dropped_has_its_columns(pair: Pair) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, code text NOT NULL)")
    put(pair, "CREATE UNIQUE INDEX t_code ON public.t (code)")
    pair.alter("ALTER TABLE public.t DROP CONSTRAINT t_pkey")
    pair.alter("DROP INDEX public.t_code")
    pair.alter("ALTER TABLE public.t ADD PRIMARY KEY (code)")
    # Some seconds later it is found by comparison.
    pair.slave.execute("DROP INDEX public.t_code")
    pair.same()


@pytest.mark.since(18, "virtual columns")
def test_a_virtual_column_gets_another_expression_while_another_one_waits_for_values(pair: Pair) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) VIRTUAL)")
    put(pair, "INSERT INTO public.t VALUES (1), (2)")
    # Without its value for older rows: a check holds its place.
    pair.alter("ALTER TABLE public.t ADD w int NOT NULL DEFAULT random(1, 1)")
    pair.alter("ALTER TABLE public.t ALTER g SET EXPRESSION AS (id * 3)")
    assert pair.slave.execute("SELECT g FROM public.t ORDER BY 1").fetchall() == [(3,), (6,)]


def test_tables_exchange_their_schemas_with_indexes_and_sequences_of_equal_names(pair: Pair) -> None:
    for schema in ("live", "next"):
        pair.master.execute(f"CREATE SCHEMA {schema}")
        pair.create(
            f"CREATE TABLE {schema}.t (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, {schema} int)",
            TableName(schema, "t"),
        )
    before = [str(pair.described(TableName(schema, "t"))) for schema in ("live", "next")]
    for statement in ("live RENAME TO old", "next RENAME TO live", "old RENAME TO next"):
        pair.master.execute(f"ALTER SCHEMA {statement}")
    # A comparison takes one table after another: the one in the way gets a passing name first.
    aside = before[0].replace('table="t"', 'table="aside"')
    after = [str(pair.described(TableName(schema, "t"))) for schema in ("next", "live")]
    moved = [(before[0], aside), (before[1], after[1]), (aside, after[0])]
    for former, now in moved:
        pair.alterer.apply(Item(Action.ALTER, T, now, former))
    pair.alterer.complete_columns([])
    for schema in ("live", "next"):
        pair.same(TableName(schema, "t"))
    named = "SELECT relnamespace::regnamespace::text, relname FROM pg_class WHERE relname ~ '^(t|sluice_moved)_'"
    found = sorted(pair.slave.execute(named).fetchall())
    assert ("live", "t_pkey") in found
    assert ("next", "t_pkey") in found
    assert "sluice_moved" not in str(found)


def test_columns_of_the_slaves_own_stay(pair: Pair) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    pair.slave.execute("ALTER TABLE public.t ADD mine int DEFAULT 9")
    put(pair, "INSERT INTO public.t (id, v) VALUES (1, 'v')")
    pair.alter("ALTER TABLE public.t DROP v, ADD u text DEFAULT 'u'")
    assert pair.slave.execute("SELECT id, mine, u FROM public.t").fetchall() == [(1, 9, "u")]


def test_drop_takes_foreign_keys_along_and_may_come_twice(pair: Pair) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY)")
    pair.slave.execute("CREATE TABLE public.child (t int REFERENCES public.t)")
    for _ in range(2):
        pair.alterer.apply(Item(Action.DROP, T))
    assert catalog.shape(pair.slave, T) is None


def test_a_view_in_the_way_is_named(pair: Pair) -> None:
    pair.create("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    pair.slave.execute("CREATE VIEW public.mine AS SELECT v FROM public.t")
    before = pair.described()
    pair.master.execute("ALTER TABLE public.t DROP v")
    with pytest.raises(DefinitionRefused, match=r"view public\.mine depends"):
        pair.alterer.apply(Item(Action.ALTER, T, pair.described(), before))


def test_truncate_empties_also_where_a_foreign_key_forbids_it(pair: Pair) -> None:
    pair.slave.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY); CREATE TABLE public.child (t int REFERENCES public.t);"
        "INSERT INTO public.t VALUES (1)"
    )
    pair.alterer.truncate([T])
    pair.alterer.truncate([TableName("public", "child")])
    assert pair.slave.execute("SELECT * FROM public.t").fetchall() == []


def test_rows_can_be_deleted_by_key(pair: Pair) -> None:
    pair.slave.execute(
        "CREATE TABLE public.t (a text, b int, v text, PRIMARY KEY (b, a));"
        "INSERT INTO public.t VALUES ('x', 1, ''), ('y', 1, ''), ('\\\"', 2, '')"
    )
    keys = pair.alterer.keys(Item(Action.TRUNCATE, T, None))
    assert sorted(keys) == [("1", "x"), ("1", "y"), ("2", '\\"')]
    assert pair.alterer.delete(T, [("1", "x"), ("2", '\\"'), ("7", "none")]) == 2
    assert pair.slave.execute("SELECT a FROM public.t").fetchall() == [("y",)]
