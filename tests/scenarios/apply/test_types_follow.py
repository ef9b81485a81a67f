"""Types and collations that are made or changed after the load follow, at their place among the rows."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.capture import wildcards
from sluice.model.names import TableName
from sluice.model.table_state import TableState
from tests.rig.rig import MakePair, Rig
from tests.scenarios.apply.test_odd_definitions import has_icu

ROWS = "public.rows"
"""A table whose row type others use."""
GOOD = "CREATE TABLE public.good (id int PRIMARY KEY, v text)"


def comparing(pair: Rig) -> None:
    """From now on no event trigger tells of changes."""
    names = pair.master.execute("SELECT quote_ident(evtname) FROM pg_event_trigger").fetchall()
    pair.master.execute(f"DROP EVENT TRIGGER {', '.join(name for (name,) in names)}".encode())
    pair.master.execute("SELECT public.demo_check_structure()")


@dataclass
class AnyTypes:
    """Makes types out of each other, tables and columns of them, and changes of them, by chance."""

    seed: int
    run: Callable[[str], object]
    new_tables: bool
    types: dict[str, str] = field(default_factory=dict)
    """Quoted name → an expression for a value."""
    composites: dict[str, list[str]] = field(default_factory=dict)
    """Quoted name → attributes."""
    tables: dict[str, list[str]] = field(default_factory=dict)
    """Table → the types of its columns c1, c2, …"""
    number: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.types.update(
            {"integer": "42", "text": "'a, \"b\" <&> (c)'", "numeric(8,2)": "12.5", "date": "'2024-02-29'"}
        )
        self.attributes: dict[str, list[str]] = {}

    def name(self, what: str) -> str:
        self.number += 1
        return f'public."{self.chance.choice(("", "Odd <&> ", "ähm "))}{what} {self.seed} {self.number}"'

    def any_type(self) -> str:
        """A type, of the present ones or an array of one."""
        name = self.chance.choice(list(self.types))
        return f"{name}[]" if self.chance.random() < 0.25 and "[]" not in name else name

    def value(self, name: str) -> str:
        if self.chance.random() < 0.15:
            return "NULL"
        if name.endswith("[]"):
            return f"ARRAY[{self.value(name[:-2])}, {self.value(name[:-2])}]::{name}"
        if name in self.composites:
            return f"ROW({', '.join(self.value(each) for each in self.composites[name])})::{name}"
        return f"{self.types[name]}::{name}"

    def make_type(self) -> None:
        kind = self.chance.choice(("enum", "domain", "composite", "composite", "range"))
        name = self.name(kind)
        if kind == "enum":
            self.run(f"CREATE TYPE {name} AS ENUM ('sad', 'so <&> \"so\"', 'ok')")
            self.types[name] = "'so <&> \"so\"'"
        elif kind == "domain":
            base = self.any_type()
            self.run(f"CREATE DOMAIN {name} AS {base}")
            value = "NULL" if self.composites else self.types.get(base, "NULL")
            self.types[name] = value if base in ("integer", "text", "date") else "NULL"
        elif kind == "composite":
            parts = [self.any_type() for _ in range(self.chance.randint(1, 3))]
            self.number += 1
            names = [f'"At {self.number} {at}"' for at in range(len(parts))]
            body = ", ".join(f"{each} {part}" for each, part in zip(names, parts, strict=True))
            self.run(f"CREATE TYPE {name} AS ({body})")
            self.types[name], self.composites[name], self.attributes[name] = "", parts, names
        else:
            of, low, high = self.chance.choice((("integer", "1", "5"), ("text", "'a'", "'b'"), ("numeric", "1", "2.5")))
            several = name.replace("range", "several")
            collated = ', COLLATION = "C"' if of == "text" else ""
            self.run(f"CREATE TYPE {name} AS RANGE (SUBTYPE = {of}{collated}, MULTIRANGE_TYPE_NAME = {several})")
            self.types[name] = f"{name}({low}, {high})"
            self.types[several] = f"{several}({name}({low}, {high}))"

    def use_type(self) -> None:
        if self.new_tables and self.chance.random() < 0.5:
            table = self.name("table")
            self.tables[table] = [self.any_type() for _ in range(self.chance.randint(1, 3))]
            columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(self.tables[table], 1))
            self.run(f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})")
        else:
            self.add_column(self.chance.choice([table for table in self.tables if table != ROWS]), self.any_type())

    def add_column(self, table: str, kind: str) -> None:
        self.tables[table].append(kind)
        self.run(f"ALTER TABLE {table} ADD c{len(self.tables[table])} {kind}")

    def change_type(self) -> None:
        # A range's constructor keeps its name.
        own = [name for name in self.types if name.startswith("public.") and not re.search("range|several|rows", name)]
        if own and self.chance.random() < 0.3:
            self.rename_type(self.chance.choice(own))
        name = self.chance.choice(list(self.composites))
        if name == ROWS:
            self.add_column(ROWS, "text")
            self.composites[ROWS].append("text")
            return
        parts, names = self.composites[name], self.attributes[name]
        at = self.chance.randrange(len(parts))
        self.number += 1
        what = self.chance.randrange(4)
        if what == 0:
            self.run(f'ALTER TYPE {name} ADD ATTRIBUTE "New {self.number}" text')
            parts.append("text")
            names.append(f'"New {self.number}"')
        elif what == 1 and len(parts) > 1:
            self.run(f"ALTER TYPE {name} DROP ATTRIBUTE {names[at]}")
            del parts[at], names[at]
        elif what == 2:
            self.run(f'ALTER TYPE {name} RENAME ATTRIBUTE {names[at]} TO "Was {self.number}"')
            names[at] = f'"Was {self.number}"'
        else:
            self.rename_type(name)

    def rename_type(self, name: str) -> None:
        new = self.name("renamed")
        self.run(f"ALTER TYPE {name} RENAME TO {new.removeprefix('public.')}")
        self.types = {key.replace(name, new): value.replace(name, new) for key, value in self.types.items()}
        self.composites = {
            key.replace(name, new): [part.replace(name, new) for part in parts]
            for key, parts in self.composites.items()
        }
        self.attributes = {key.replace(name, new): value for key, value in self.attributes.items()}
        self.tables = {table: [kind.replace(name, new) for kind in kinds] for table, kinds in self.tables.items()}

    def write(self) -> None:
        for table, kinds in self.tables.items():
            self.number += 1
            values = ", ".join(self.value(kind) for kind in kinds)
            self.run(f"INSERT INTO {table} VALUES ({', '.join(filter(None, (str(self.number), values)))})")
            if kinds and self.chance.random() < 0.4:
                at = self.chance.randrange(len(kinds))
                self.run(f"UPDATE {table} SET c{at + 1} = {self.value(kinds[at])} WHERE id % 2 = 0")


@pytest.mark.long
@pytest.mark.parametrize("told", [True, False], ids=["event triggers", "comparison"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 25))])
def test_any_types_made_and_changed_later_follow(pair_of: MakePair, seed: int, told: bool) -> None:
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1)
    pair.master.execute("CREATE TABLE public.first (id int PRIMARY KEY)")
    pair.master.execute(f"CREATE TABLE {ROWS} (id int PRIMARY KEY, c1 text)".encode())
    pair.prepare(first := pair.update("first"))
    wildcards.note(pair.master, pair.replication)
    if not told:
        comparing(pair)
    said: list[str] = []

    def run(statement: str) -> None:
        said.append(statement)
        pair.master.execute(statement.encode())

    history = AnyTypes(seed, run, told, tables={"public.first": [], ROWS: ["text"]})
    history.types[ROWS], history.composites[ROWS] = "", ["integer", "text"]
    with pair.apply():
        pair.load_to_normal(first)
        try:
            for _ in range(6):
                history.make_type()
                history.use_type()
                history.write()
                history.change_type()
                history.write()
                if history.chance.random() < 0.5:
                    pair.await_current()
            pair.master.execute("SELECT public.demo_check_structure()")
            pair.await_current()
            assert not pair.checkpoint.tables.not_ready, pair.checkpoint.tables
            pair.assert_equal()
        except BaseException as error:
            error.add_note(";\n".join(said))
            raise


def begun(pair_of: MakePair) -> Rig:
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1)
    pair.master.execute(GOOD)
    pair.master.execute("INSERT INTO public.good VALUES (1, 'a')")
    pair.prepare(pair.update("first"))
    wildcards.note(pair.master, pair.replication)
    return pair


def test_a_collation_made_later_follows_with_its_rules(pair_of: MakePair, postgres: PostgresServer) -> None:
    if not has_icu(postgres):
        pytest.skip("this build of PostgreSQL has no ICU")
    pair = begun(pair_of)
    with pair.apply():
        pair.load_to_normal(pair.update("first"))
        pair.master.execute(
            "CREATE COLLATION public.fold (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        pair.master.execute("CREATE DOMAIN public.word AS text COLLATE public.fold")
        pair.master.execute("CREATE TABLE public.tag (name text COLLATE public.fold PRIMARY KEY, w public.word)")
        pair.master.execute("INSERT INTO public.tag VALUES ('a', 'B')")
        pair.master.execute("UPDATE public.tag SET w = 'x' WHERE name = 'A' AND w = 'b'")
        pair.await_current()
        pair.assert_equal()
        assert pair.slave.execute("SELECT w FROM public.tag WHERE name = 'A' AND w = 'X'").fetchone() == ("x",)


@pytest.mark.parametrize("told", [True, False], ids=["event triggers", "comparison"])
def test_a_table_and_its_types_move_to_schemas_that_the_slave_lacks(pair_of: MakePair, told: bool) -> None:
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1)
    pair.master.execute(
        b"""CREATE TYPE public.mood AS ENUM ('sad', 'ok'); CREATE TYPE public.place AS (x int, m public.mood);
        CREATE DOMAIN public.euro AS int CHECK (VALUE > 0);
        CREATE TABLE public.good (id int PRIMARY KEY, m public.mood, p public.place, e public.euro[]);
        INSERT INTO public.good VALUES (1, 'sad', ROW(1, 'ok'), '{5}')"""
    )
    pair.prepare(first := pair.update("first"))
    if not told:
        comparing(pair)
    with pair.apply():
        pair.load_to_normal(first)
        pair.master.execute(b'CREATE SCHEMA "The shop"; CREATE SCHEMA types')
        for moved in ('TABLE public.good SET SCHEMA "The shop"', "TYPE public.mood SET SCHEMA types",
                      "TYPE public.place SET SCHEMA types", "DOMAIN public.euro SET SCHEMA types",
                      'SCHEMA "The shop" RENAME TO store', "SCHEMA types RENAME TO kinds"):  # fmt: skip
            pair.master.execute(f"ALTER {moved}".encode())
            pair.master.execute(b"SELECT public.demo_check_structure()")
            pair.await_current()
        pair.master.execute(b"INSERT INTO store.good VALUES (2, 'ok', ROW(2, 'sad'), '{6}')")
        pair.master.execute(b"UPDATE store.good SET p.m = 'sad' WHERE id = 1")
        pair.await_current()
        assert not pair.checkpoint.tables.not_ready, pair.checkpoint.tables
        pair.assert_equal([TableName("store", "good")])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("of_slave", "reason"),
    [
        ("CREATE TYPE public.place AS ENUM ('here')", "is no composite type on the slave"),
        ("CREATE TYPE public.place AS (x int)", 'type "public"."place" has on the slave: x'),
    ],
)
def test_a_type_that_the_slave_has_otherwise_isolates_its_table(pair_of: MakePair, of_slave: str, reason: str) -> None:
    pair = begun(pair_of)
    pair.slave.execute(of_slave.encode())
    with pair.apply():
        pair.load_to_normal(pair.update("first"))
        pair.master.execute("CREATE TYPE public.place AS (x int, y int)")
        pair.master.execute("CREATE TABLE public.bad (id int PRIMARY KEY, p public.place)")
        pair.master.execute("INSERT INTO public.bad VALUES (1, ROW(1, 2))")
        pair.master.execute("UPDATE public.good SET v = 'b'")
        pair.await_current()
        assert pair.checkpoint.tables.not_ready == {TableName("public", "bad"): TableState.INCONSISTENT}
        assert reason in pair.checkpoint.tables.explain(TableName("public", "bad"))
        pair.assert_equal([TableName("public", "good")])


@pytest.mark.long
@pytest.mark.parametrize("told", [True, False], ids=["event triggers", "comparison"])
def test_attributes_exchange_their_names_in_two_tables_at_once(pair_of: MakePair, told: bool) -> None:
    pair = begun(pair_of)
    pair.master.execute("CREATE TYPE public.place AS (x int, y int)")
    for name in ("one", "two"):
        pair.master.execute(f"CREATE TABLE public.{name} (id int PRIMARY KEY, p public.place)".encode())
        pair.master.execute(f"INSERT INTO public.{name} VALUES (1, ROW(1, 2))".encode())
    if not told:
        pair.capture()
        comparing(pair)
    pair.prepare(second := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(second)
        with pair.master.transaction():
            pair.master.execute("ALTER TYPE public.place RENAME ATTRIBUTE x TO z")
            pair.master.execute("ALTER TYPE public.place RENAME ATTRIBUTE y TO x")
            pair.master.execute("ALTER TYPE public.place RENAME ATTRIBUTE z TO y")
        for name in ("one", "two"):
            pair.master.execute(f"UPDATE public.{name} SET p.x = 20".encode())
        pair.master.execute("SELECT public.demo_check_structure()")
        pair.await_current()
        pair.assert_equal()
        for session in (pair.master, pair.slave):
            assert values(session) == [(20, 1), (20, 1)]


def values(session: "psycopg.Connection[tuple[int, int]]") -> list[tuple[int, int]]:
    return session.execute(
        "SELECT (p).x, (p).y FROM public.one UNION ALL SELECT (p).x, (p).y FROM public.two"
    ).fetchall()


@pytest.mark.parametrize("told", [pytest.param(True, marks=pytest.mark.long), False], ids=["triggers", "comparison"])
def test_a_value_of_a_row_type_that_the_same_transaction_altered_follows(pair_of: MakePair, told: bool) -> None:
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1)
    pair.master.execute("CREATE TABLE public.a (id int PRIMARY KEY, x int)")
    pair.master.execute("CREATE TABLE public.b (id int PRIMARY KEY, r public.a, more public.a[])")
    pair.prepare(first := pair.update("first"))
    if not told:
        comparing(pair)
    with pair.apply():
        pair.load_to_normal(first)
        with pair.master.transaction():
            pair.master.execute("INSERT INTO public.b VALUES (1, ROW(1, 1), NULL)")
            pair.master.execute("ALTER TABLE public.a ADD COLUMN y int")
            pair.master.execute("INSERT INTO public.b VALUES (2, ROW(2, 2, 2), ARRAY[ROW(1, 2, 3)::public.a])")
            pair.master.execute("UPDATE public.b SET r.y = 7 WHERE id = 1")
        pair.await_current()
        pair.assert_equal()
