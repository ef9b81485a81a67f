"""Every type, any name, and every kind of table."""

from typing import Any

import pytest

from sluice.apply import net_changes
from sluice.database import xml_images
from sluice.database.apply import ReplayOptions
from sluice.database.conflicts import Collision, Drift
from sluice.model.names import TableName
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.target.replay import Replayer
from tests.sql.merge.helpers import T, filled, merger, reduced, rows, same
from tests.unit.changes import History

TYPES = {
    "a": ("integer", ["-2147483648", "0", None]),
    "b": ("numeric", ["NaN", "Infinity", "1" * 60 + "." + "2" * 40, "1.50"]),
    "c": ("numeric(5,2)", ["1.50", "-0.01", None]),
    "d": ("double precision", ["-0", "NaN", "-Infinity", "1e-300", "0.1"]),
    "e": ("timestamptz", ["infinity", "-infinity", "0044-03-15 12:00:00+00 BC", "2026-01-01 00:00:00.123456+00"]),
    "f": ("date", ["infinity", "2026-02-28"]),
    "g": ("interval", ["1 year 2 mons -3 days +04:05:06.7", "00:00:00"]),
    "h": ("bytea", ["\\x", "\\x00ff5c"]),
    "i": ("jsonb", ['{"a": [1, "\\"", null]}', "null", '"\\\\"']),
    "j": ("json", ['{"b" : 1,  "b": 2}', None]),
    "k": ("text[]", ['{"a,b","\\"",NULL,"NULL",""}', "{}", "[0:1]={x,y}"]),
    "l": ("int4range", ["empty", "[1,5)", "(,)"]),
    "m": ("public.mood", ["fine", "so, so"]),
    "n": ("public.positive", ["1", None]),
    "o": ("uuid", ["00000000-0000-0000-0000-000000000001"]),
    "p": ("inet", ["10.0.0.1/8", "::1/128"]),
    "q": ("bit(3)", ["101"]),
    "r": ("varbit", ["", "1"]),
    "s": ("public.pair", ['(1,"a,""b")', "(,)", '(1,"")']),
    "t": ("text", ["", "a\tb\nc\r\\N", "\\.", "]]></col>", "<&>'\"", "🐘\x01", None]),
    "u": ("char(5)", ["ab"]),
    "v": ('"char"', ["x", ""]),
    "x": ("point", ["(1,2)"]),
    "y": ("box", ["(3,4),(1,2)"]),
    "z": ("hstore_at.hstore", ['"a"=>"1", "b"=>NULL', ""]),
    "aa": ("citext_at.citext", ["Mixed", "mixed"]),
    "bb": ("regclass", ["pg_class", "12345678"]),
    "cc": ("name", ["some_name"]),
    "dd": ("money", ["-$1.50"]),
    "ee": ("tsvector", ["'a':1A 'b'"]),
    "ff": ("public.positive[]", ["{1,2}"]),
    "gg": ("varchar(4)", ["abcd", "    "]),
    "hh": ("bool", ["true", "false", None]),
    "ii": ("int4multirange", ["{[1,3),[5,9)}"]),
    "jj": ("pg_lsn", ["16/B374D848"]),
}


@pytest.mark.parametrize("key", [("id",), ()])
def test_every_type_arrives_as_it_was(slave: Any, size: str, key: tuple[str, ...]) -> None:
    slave.execute(
        "CREATE SCHEMA hstore_at; CREATE SCHEMA citext_at; CREATE EXTENSION hstore SCHEMA hstore_at;"
        "CREATE EXTENSION citext SCHEMA citext_at; CREATE DOMAIN public.positive AS int CHECK (VALUE > 0);"
        "CREATE TYPE public.mood AS ENUM ('fine', 'so, so'); CREATE TYPE public.pair AS (x int, y text)"
    )
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in TYPES.items())
    slave.execute(f"CREATE TABLE public.t (id int {'PRIMARY KEY' if key else ''}, {columns})")
    history = History(T, ("id", *TYPES), key)
    longest = max(len(values) for _, values in TYPES.values())
    for number in range(longest):
        history.insert(str(number), *(values[number % len(values)] for _, values in TYPES.values()))  # type: ignore[index]
    texts = ", ".join(f"{name}::text" for name in history.columns)
    apply = merger(slave)
    apply.merge([reduced(history)])
    same(slave, history, texts)
    at = len(history.items)
    old = list(history.rows)
    for number, row in enumerate(old):
        other = old[(number + 1) % longest]
        history.update(row, (row[0], *other[1:]))
    apply.merge([reduced(history, at, images=bool(key))])
    same(slave, history, texts)
    at = len(history.items)
    for row in list(history.rows)[1:]:
        history.delete(*row)
    apply.merge([reduced(history, at, images=bool(key))])
    same(slave, history, texts)


def test_names_may_be_anything(slave: Any, size: str) -> None:
    table = TableName('Sch."ema', "t%s ${x} " + "ü" * 25)
    names = ("select", 'a "b" %(c)s', "$1", "x" * 63, "ctid_", "dot.ted", "ünï")
    key = ("$1", "select")
    quoted = [connection.quoted(name) for name in names]
    slave.execute(f"CREATE SCHEMA {connection.quoted(table.schema)}".encode())
    slave.execute(
        f"CREATE TABLE {connection.quoted(table.schema, table.name)} ({' text, '.join(quoted)} text,"
        f' PRIMARY KEY ("select", "$1"))'.encode()
    )
    history = History(table, names, key)
    history.insert("a:1", *"bcdefg")
    history.insert("", *"bcdefg")
    apply = merger(slave)
    at = len(history.items)
    apply.merge([reduced(history)])
    history.update(("a:1", *"bcdefg"), ("a:2", *"bcdefg"))
    history.update(("", *"bcdefg"), ("", "x", *"cdefg"))
    apply.merge([reduced(history, at, images=True)])
    found = slave.execute(f"SELECT * FROM {connection.quoted(table.schema, table.name)}".encode()).fetchall()
    assert sorted(found) == sorted(history.rows)


def test_a_key_of_an_extensions_type_uses_its_index_and_its_equality(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE SCHEMA ext; CREATE EXTENSION citext SCHEMA ext;"
        "CREATE TABLE public.t (id ext.citext PRIMARY KEY, v text)"
    )
    history = History()
    history.insert("Aa", "1")
    history.insert("b", "1")
    at = len(history.items)
    apply = merger(slave)
    apply.merge([reduced(history)])
    history.update(("Aa", "1"), ("aA", "2"))
    history.update(("b", "1"), ("b", "2"))
    apply.merge([reduced(history, at)])
    same(slave, history)
    assert apply.targets[T].column("id").equals == "OPERATOR(ext.=)"


@pytest.mark.parametrize("kind", ["STORED", pytest.param("VIRTUAL", marks=pytest.mark.since(18, "virtual columns"))])
def test_identity_generated_and_own_columns(slave: Any, size: str, kind: str) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text,"
        f"w text GENERATED ALWAYS AS (v || '!') {kind}, own int DEFAULT 7)"
    )
    history = History()
    at = filled(history)
    apply = merger(slave)
    apply.merge([reduced(history)])
    slave.execute("UPDATE public.t SET own = 8 WHERE id = 2")
    history.update(("2", "v2"), ("2", "new"))
    apply.merge([reduced(history, at)])
    same(slave, history, "id, v")
    assert rows(slave, T, "w, own") == sorted((f"{v}!", "8" if id_ == "2" else "7") for id_, v in history.rows)


def test_an_identity_that_only_the_database_updates(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v int GENERATED ALWAYS AS IDENTITY)")
    history = History()
    history.insert("1", "5")
    history.update(("1", "5"), ("1", "6"))
    apply = merger(slave)
    apply.merge([reduced(history)])
    at = len(history.items)
    history.update(("1", "6"), ("1", "7"))
    for safe in (False, True):
        apply.merge([reduced(history, at)], safe=safe)
        same(slave, history)


def test_a_table_that_is_all_key(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    history = History(T, ("id",))
    for number in ("1", "2", "3"):
        history.insert(number)
    at = len(history.items)
    history.update(("1",), ("1",))
    history.update(("2",), ("5",))
    apply = merger(slave)
    apply.merge([net_changes.reduce(net_changes.events(history.window(0, at), history.key, xml_images))])
    apply.merge([reduced(history, at)])
    same(slave, history)
    apply.merge([reduced(history, at)], safe=True)
    same(slave, history)
    history.delete("3")
    slave.execute("DELETE FROM public.t WHERE id = 1")
    history.update(("1",), ("1",))
    with pytest.raises(Drift):
        apply.merge([reduced(history, at + 2)])


def test_a_column_that_only_the_slave_generates_is_left_to_it(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text GENERATED ALWAYS AS ('computed') STORED)")
    history = History()
    at = filled(history, 2)
    apply = merger(slave)
    apply.merge([reduced(history)])
    history.update(("1", "v1"), ("1", "new"))
    apply.merge([reduced(history, at)])
    assert rows(slave) == [("0", "computed"), ("1", "computed")]


@pytest.mark.parametrize("key", [("id",), ()])
def test_rows_of_partitions_are_merged_and_move_between_them(slave: Any, size: str, key: tuple[str, ...]) -> None:
    slave.execute(
        f"CREATE TABLE public.t (id int {'PRIMARY KEY' if key else ''}, v text) PARTITION BY RANGE (id);"
        "CREATE TABLE public.low PARTITION OF public.t FOR VALUES FROM (0) TO (3);"
        "CREATE TABLE public.high PARTITION OF public.t FOR VALUES FROM (3) TO (100)"
    )
    history = History(T, ("id", "v"), key)
    at = filled(history)
    apply = merger(slave)
    apply.merge([reduced(history)])
    history.update(("1", "v1"), ("50", "new"))
    history.update(("4", "v4"), ("4", "new"))
    history.delete("3", "v3")
    apply.merge([reduced(history, at)])
    same(slave, history)


def test_children_of_an_inheritance_tree_have_their_own_changes(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE TABLE public.child () INHERITS (public.t);"
        "INSERT INTO public.child VALUES (1, 'child')"
    )
    history = History()
    at = filled(history, 3)
    apply = merger(slave)
    apply.merge([reduced(history)])
    history.update(("1", "v1"), ("1", "new"))
    history.delete("2", "v2")
    apply.merge([reduced(history, at)])
    assert slave.execute("SELECT * FROM public.child").fetchall() == [(1, "child")]
    assert rows(slave, T, "*") == sorted([("0", "v0"), ("1", "child"), ("1", "new")])


def test_a_key_beside_no_primary_key_and_no_index_on_the_slave(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int, v text)")
    history = History()
    at = filled(history)
    apply = merger(slave)
    apply.merge([reduced(history)])
    history.update(("1", "v1"), ("9", "new"))
    history.delete("2", "v2")
    apply.merge([reduced(history, at)])
    apply.merge([reduced(history, at)], safe=True)
    same(slave, history)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("images", [False, True])
def test_a_table_of_1600_columns(slave: Any, size: str, images: bool) -> None:
    names = ["id", *(f"column {number}" for number in range(1, 1600))]
    columns = ", ".join(f'"{name}" smallint' for name in names[1:])
    slave.execute(f"CREATE TABLE public.t (id int PRIMARY KEY, {columns})".encode())
    history = History(T, names)
    history.insert("1", *["1"] * 1599)
    history.insert("2", *[None] * 1599)
    at = len(history.items)
    apply = merger(slave)
    apply.merge([reduced(history)])
    history.update(("1", *["1"] * 1599), ("1", *["2"] * 1598, None))
    history.delete("2", *[None] * 1599)
    changes = reduced(history, at, images=images)
    if images:
        with pytest.raises(Collision, match="too many"):
            apply.merge([changes])
        Replayer(slave, apply.targets).replay(history.changes(at), ReplayOptions(images=[T]))
    else:
        apply.merge([changes])
    same(slave, history)
