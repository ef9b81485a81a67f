"""Net changes reach the slave exactly, in a few statements, and what does not fit is found and named."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from sluice.apply import net
from sluice.domain.change import NetChanges
from sluice.domain.connection import ConnectionInfo
from sluice.domain.names import Prefix, TableName
from sluice.vendors.postgres import connection, merge, stage
from sluice.vendors.postgres.connection import DatabaseUnreachable
from sluice.vendors.postgres.drift import Collision, Drift
from sluice.vendors.postgres.merge import Merged, Merger
from sluice.vendors.postgres.replay import Replayer
from sluice.vendors.postgres.stage import ValueUnfit
from sluice.vendors.postgres.target import ColumnMissing, TargetMissing
from tests.unit.changes import History

T = TableName("public", "t")


@pytest.fixture
def info(database: Callable[..., ConnectionInfo]) -> ConnectionInfo:
    return database()


@pytest.fixture
def slave(info: ConnectionInfo) -> Iterator[Any]:
    with connection.connect(info, application="test merge") as link:
        yield link


@pytest.fixture(params=["parameters", "stage tables"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways rows travel."""
    if request.param == "stage tables":
        monkeypatch.setattr(merge, "SMALL_ROWS", 0)
    return str(request.param)


def reduced(history: History, start: int = 0, *, images: bool = False) -> NetChanges:
    return net.reduce(net.events(history.window(start), history.key), before=images)


def rows(link: Any, table: TableName = T, columns: str = "*") -> list[tuple[str | None, ...]]:
    found = link.execute(f"SELECT {columns} FROM {table}").fetchall()
    return sorted((tuple(None if value is None else str(value) for value in row) for row in found), key=repr)


def same(link: Any, history: History, columns: str = "*") -> None:
    assert rows(link, history.table, columns) == sorted(history.rows, key=repr)


def merger(link: Any, *, cascades: bool = False) -> Merger:
    return Merger(link, "the slave", cascades=cascades)


def filled(history: History, count: int = 5) -> int:
    """Rows 0 … count - 1; where the history stands then."""
    for number in range(count):
        history.insert(str(number), *[f"v{number}"] * (len(history.columns) - 1))
    return len(history.items)


def test_the_slave_becomes_equal_and_the_rows_are_counted(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    apply = merger(slave)
    at = filled(history)
    assert apply.merge([reduced(history)]) == Merged(inserted=5)
    same(slave, history)
    history.update(("1", "v1"), ("1", ""))
    history.update(("2", "v2"), ("7", None))
    history.delete("3", "v3")
    history.insert("8", "tab\t, newline\n, \\N, \\. and ]]>")
    assert apply.merge([reduced(history, at, images=True)]).updated == 1
    same(slave, history)


def test_nothing_to_do_is_fine(slave: Any) -> None:
    assert merger(slave).merge([]) == Merged()
    history = History()
    history.insert("1", "a")
    history.delete("1", "a")
    assert merger(slave).merge([reduced(history)]) == Merged()


# Drift


def drifting(slave: Any, history: History, at: int, *, images: bool = False) -> Drift:
    before = rows(slave)
    with pytest.raises(Drift) as caught:
        merger(slave).merge([reduced(history, at, images=images)])
    assert rows(slave) == before, "everything is undone"
    assert caught.value.table == T
    return caught.value


@pytest.fixture
def drifted(slave: Any) -> tuple[History, int]:
    """A slave on which somebody deleted row 1, changed row 2 and inserted row 9."""
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    at = filled(history)
    merger(slave).merge([reduced(history)])
    slave.execute(
        "DELETE FROM public.t WHERE id = 1; UPDATE public.t SET v = 'mine' WHERE id = 2;"
        "INSERT INTO public.t VALUES (9, 'mine')"
    )
    slave.commit()
    history.update(("0", "v0"), ("0", "fine"))
    return history, at


def test_an_update_of_a_row_that_is_gone_is_drift(slave: Any, drifted: tuple[History, int], size: str) -> None:
    history, at = drifted
    history.update(("1", "v1"), ("1", "new"))
    error = drifting(slave, history, at)
    assert (error.key, error.action, error.expected, error.found) == ({"id": "1"}, "UPDATE", "one", "none")
    assert "public.t, row id = '1'" in str(error)


def test_a_delete_of_a_row_that_is_gone_is_drift(slave: Any, drifted: tuple[History, int], size: str) -> None:
    history, at = drifted
    history.delete("1", "v1")
    error = drifting(slave, history, at)
    assert (error.key, error.action, error.expected, error.found) == ({"id": "1"}, "DELETE", "one", "none")


def test_an_insert_of_a_row_that_is_there_is_drift(slave: Any, drifted: tuple[History, int], size: str) -> None:
    history, at = drifted
    history.insert("9", "theirs")
    history.update(("3", "v3"), ("8", "v3"))
    history.insert("3", "again")
    error = drifting(slave, history, at)
    assert (error.key, error.action, error.expected, error.found) == ({"id": "9"}, "INSERT", "none", "one")


def test_a_key_that_moves_to_where_a_row_is_is_drift(slave: Any, drifted: tuple[History, int], size: str) -> None:
    history, at = drifted
    history.update(("3", "v3"), ("9", "v3"))
    assert drifting(slave, history, at).key == {"id": "9"}


@pytest.mark.parametrize("action", ["UPDATE", "DELETE", "key"])
def test_a_row_changed_by_hand_is_drift_when_images_are_compared(
    slave: Any, drifted: tuple[History, int], size: str, action: str
) -> None:
    history, at = drifted
    if action == "DELETE":
        history.delete("2", "v2")
    else:
        history.update(("2", "v2"), ("2" if action == "UPDATE" else "22", "new"))
    error = drifting(slave, history, at, images=True)
    assert error.key == {"id": "2"}
    assert error.differing == {"v": ("mine", "v2")}
    assert (error.expected, error.found) == ("v = 'v2'", "v = 'mine'")


def test_missing_copies_of_a_keyless_row_are_drift(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (a int, p point); INSERT INTO public.t VALUES (1, '(1,2)'), (NULL, NULL)")
    history = History(T, ("a", "p"), ())
    for _ in range(2):
        history.insert("1", "(1,2)")
    history.insert(None, None)
    at = len(history.items)
    history.delete("1", "(1,2)")
    history.delete("1", "(1,2)")
    history.delete(None, None)
    error = drifting(slave, history, at)
    assert (error.key, error.found) == ({"a": "1", "p": "(1,2)"}, "one")


def test_a_trigger_that_swallows_rows_is_noticed(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text);"
        "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER no BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.no()"
    )
    history = History()
    filled(history)
    with pytest.raises(Drift, match="a trigger or rule"):
        merger(slave).merge([reduced(history)])


# Definitions that do not fit


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        ("varchar(3)", "long", "too long"),
        ("smallint", "40000", "out of range"),
        ("public.positive", "-1", "violates check constraint"),
        ("public.mood", "angry", "invalid input value for enum"),
        ("numeric(3,1)", "1000", "numeric field overflow"),
        ("int", "\\N", "invalid input syntax"),
    ],
)
@pytest.mark.parametrize("action", ["INSERT", "UPDATE"])
def test_a_value_that_does_not_fit_is_named(
    slave: Any, size: str, type_: str, value: str, reason: str, action: str
) -> None:
    slave.execute(
        "CREATE DOMAIN public.positive AS int CHECK (VALUE > 0); CREATE TYPE public.mood AS ENUM ('fine');"
        f'CREATE TABLE public.t (id int PRIMARY KEY, "the: value" {type_}, w text);'
        "INSERT INTO public.t VALUES (1), (2)"
    )
    slave.commit()
    history = History(T, ("id", "the: value", "w"))
    history.insert("1", None, None)
    history.insert("2", None, None)
    at = len(history.items)
    history.update(("2", None, None), ("2", None, "x"))
    if action == "UPDATE":
        history.update(("1", None, None), ("1", value, None))
    else:
        history.insert("3", value, None)
    with pytest.raises(ValueUnfit, match=reason) as caught:
        merger(slave).merge([reduced(history, at)])
    if "check" not in reason or caught.value.column:
        assert (caught.value.column, caught.value.value) == ("the: value", value)
    assert "ALTER TABLE" in str(caught.value)
    assert rows(slave) == [("1", None, None), ("2", None, None)]


def test_a_null_for_a_column_that_may_have_none_is_named(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text NOT NULL)")
    history = History()
    history.insert("1", None)
    with pytest.raises(ValueUnfit, match=r"column 'v'.*not-null"):
        merger(slave).merge([reduced(history)])


def test_a_check_of_the_slave_is_named_with_its_row(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text CONSTRAINT short CHECK (length(v) < 3))")
    history = History()
    history.insert("1", "long")
    with pytest.raises(ValueUnfit, match=r'"short".*\(1, long\)'):
        merger(slave).merge([reduced(history)])


def test_a_column_that_the_slave_lacks_is_named(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, other text)")
    history = History()
    filled(history)
    with pytest.raises(ColumnMissing, match=r"has no column 'v'.*id, other.*ADD COLUMN"):
        merger(slave).merge([reduced(history)])


def test_a_table_that_the_slave_lacks_is_named(slave: Any) -> None:
    history = History()
    filled(history)
    with pytest.raises(TargetMissing, match=r"public\.t does not exist"):
        merger(slave).merge([reduced(history)])


def test_a_table_altered_by_hand_is_looked_at_again(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    at = filled(history)
    apply = merger(slave)
    apply.merge([reduced(history)])
    slave.execute(
        "DROP TABLE public.t; CREATE TABLE public.t (id bigint PRIMARY KEY, v varchar(9),"
        "g text GENERATED ALWAYS AS (v) STORED)"
    )
    slave.execute("INSERT INTO public.t SELECT n, 'v' || n FROM generate_series(0, 4) n")
    slave.commit()
    history.update(("1", "v1"), ("1", "new"))
    history.insert("9", "v9")
    apply.merge([reduced(history, at)])
    same(slave, history, "id, v")
    slave.execute("ALTER TABLE public.t DROP COLUMN g, DROP COLUMN v")
    slave.commit()
    history.delete("9", "v9")
    history.update(("1", "new"), ("1", "newer"))
    with pytest.raises(ColumnMissing):
        apply.merge([reduced(history, at + 2)])


def test_a_lost_connection_is_an_outage(slave: Any, size: str, info: ConnectionInfo) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    slave.commit()
    history = History()
    filled(history)
    apply = merger(slave)
    apply.targets.load([T])
    with connection.connect(info, application="other", autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test merge'")
    with pytest.raises(DatabaseUnreachable):
        apply.merge([reduced(history)])


# Kinds of tables


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
        history.insert(str(number), *(values[number % len(values)] for _, values in TYPES.values()))
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


def test_identity_generated_and_own_columns(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text,"
        "w text GENERATED ALWAYS AS (v || '!') STORED,"
        "x text GENERATED ALWAYS AS (v || '?') VIRTUAL, own int DEFAULT 7)"
    )
    history = History()
    at = filled(history)
    apply = merger(slave)
    apply.merge([reduced(history)])
    slave.execute("UPDATE public.t SET own = 8 WHERE id = 2")
    history.update(("2", "v2"), ("2", "new"))
    apply.merge([reduced(history, at)])
    same(slave, history, "id, v")
    assert rows(slave, T, "w, x, own") == sorted(
        (f"{v}!", f"{v}?", "8" if id_ == "2" else "7") for id_, v in history.rows
    )


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
    apply.merge([net.reduce(net.events(history.window(0, at), history.key))])
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
def test_partitioned_tables(slave: Any, size: str, key: tuple[str, ...]) -> None:
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


# Order


PARENT, CHILD = TableName("public", "a_parent"), TableName("public", "b_child")


def family(slave: Any, action: str) -> tuple[History, History]:
    slave.execute(
        "CREATE TABLE public.a_parent (id int PRIMARY KEY, v text);"
        "CREATE TABLE public.b_child (id int PRIMARY KEY, parent int REFERENCES public.a_parent "
        f"ON DELETE {action} ON UPDATE {action} DEFERRABLE)"
    )
    slave.commit()
    parent, child = History(PARENT), History(CHILD, ("id", "parent"))
    parent.insert("1", "a")
    child.insert("10", "1")
    return parent, child


@pytest.mark.parametrize("order", [1, -1])
def test_foreign_keys_hold_after_every_statement(slave: Any, size: str, order: int) -> None:
    parent, child = family(slave, "RESTRICT")
    apply = merger(slave, cascades=True)
    apply.merge([reduced(parent), reduced(child)][::order])
    parent.insert("2", "b")
    child.insert("20", "2")
    child.delete("10", "1")
    parent.delete("1", "a")
    apply.merge([reduced(parent, 1), reduced(child, 1)][::order])
    same(slave, parent)
    same(slave, child)


@pytest.mark.parametrize("safe", [False, True])
def test_a_row_that_lives_on_is_never_deleted(slave: Any, size: str, safe: bool) -> None:
    parent, child = family(slave, "CASCADE")
    apply = merger(slave, cascades=True)
    replay = Replayer(slave, apply.targets, "the slave")
    apply.merge([reduced(parent), reduced(child)], safe=safe)
    parent.update(("1", "a"), ("1", "b"))
    apply.merge([reduced(parent, 1)], safe=safe)
    parent.update(("1", "b"), ("2", "b"))  # the child follows on the master, and that is captured too
    child.update(("10", "1"), ("10", "2"))
    items = pa.concat_tables([parent.window(2), child.window(1)])
    try:
        apply.merge([reduced(parent, 2), reduced(child, 1)], safe=safe)
    except Collision:
        replay.replay(items, {PARENT: ("id",), CHILD: ("id",)}, safe=safe)
    same(slave, parent)
    same(slave, child)


def test_tables_that_refer_to_each_other(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE TABLE public.a_parent (id int PRIMARY KEY, v int);"
        "CREATE TABLE public.b_child (id int PRIMARY KEY, parent int REFERENCES public.a_parent DEFERRABLE);"
        "ALTER TABLE public.a_parent ADD FOREIGN KEY (v) REFERENCES public.b_child DEFERRABLE"
    )
    slave.commit()
    slave.execute("SET CONSTRAINTS ALL DEFERRED")
    parent, child = History(PARENT), History(CHILD, ("id", "parent"))
    parent.insert("1", "10")
    child.insert("10", "1")
    merger(slave, cascades=True).merge([reduced(parent), reduced(child)])
    slave.commit()
    same(slave, parent)


# Unique values


@pytest.mark.parametrize("cascades", [False, True])
@pytest.mark.parametrize("safe", [False, True])
def test_unique_values_change_places(slave: Any, size: str, cascades: bool, safe: bool) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text UNIQUE, w text)")
    history = History(T, ("id", "v", "w"))
    for number in ("1", "2", "3"):
        history.insert(number, f"v{number}", None)
    at = len(history.items)
    apply = merger(slave, cascades=cascades)
    apply.merge([reduced(history)])
    history.update(("1", "v1", None), ("1", "away", None))
    history.update(("2", "v2", None), ("2", "v1", None))
    history.update(("1", "away", None), ("1", "v2", None))
    if cascades:
        with pytest.raises(Collision, match=r"public\.t.*change by change"):
            apply.merge([reduced(history, at)], safe=safe)
        Replayer(slave, apply.targets, "x").replay(history.window(at), {T: ("id",)}, safe=safe)
    else:
        apply.merge([reduced(history, at)], safe=safe)
    same(slave, history)


def test_a_collision_leaves_everything_as_it_was(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text UNIQUE); CREATE TABLE public.a (id int PRIMARY KEY, v text)"
    )
    history, other = History(), History(TableName("public", "a"))
    at = filled(history, 3)
    filled(other, 2)
    apply = merger(slave, cascades=True)
    apply.merge([reduced(history)])
    history.update(("1", "v1"), ("1", "x"))
    history.update(("0", "v0"), ("0", "v1"))
    history.update(("1", "x"), ("1", "v0"))
    before = rows(slave)
    with pytest.raises(Collision):
        apply.merge([reduced(history, at), reduced(other)])
    assert rows(slave) == before
    assert rows(slave, other.table) == []


def test_seed_002s_example_twice(slave: Any, size: str) -> None:
    slave.execute(
        "CREATE SCHEMA dummydb; CREATE TABLE dummydb.dummytbl (id int PRIMARY KEY, int_value int, str_value text)"
    )
    table = TableName("dummydb", "dummytbl")
    history = History(table, ("id", "int_value", "str_value"))
    history.insert("888", "888888", "abc888")
    apply = merger(slave)
    apply.merge([reduced(history)])
    history.insert("123", "999", "abc")
    history.update(("123", "999", "abc"), ("123", "888999", "abc"))
    history.update(("888", "888888", "abc888"), ("999", "888888", "abc888"))
    for _ in range(2):
        apply.merge([reduced(history, 1)], safe=True)
        same(slave, history)
    for _ in range(2):
        Replayer(slave, apply.targets, "x").replay(history.window(1), {table: ("id",)}, safe=True)
        same(slave, history)


# Stage tables that several writers fill


def test_shares_staged_by_others_merge_as_one(slave: Any, info: ConnectionInfo) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE TABLE public.h (a int, b text)")
    slave.commit()
    history, keyless = History(), History(TableName("public", "h"), ("a", "b"), ())
    filled(history, 40)
    filled(keyless, 10)
    apply = merger(slave)
    apply.merge([reduced(history), reduced(keyless)])
    slave.commit()
    at, keyless_at = len(history.items), len(keyless.items)
    for number in range(0, 40, 2):
        history.update((str(number), f"v{number}"), (str(number), "new"))
    for number in range(1, 40, 4):
        history.delete(str(number), f"v{number}")
    history.insert("100", "v")
    history.update(("3", "v3"), ("333", "moved"))
    keyless.delete("1", "v1")
    keyless.insert("1", "v2")
    apart = net.entangled(history.window(at), ("id",))
    assert apart == {"3", "333"}
    staged: list[Any] = []
    for part in range(3):
        with connection.connect(info, application="executor") as executor:
            targets = Merger(executor, "x", cascades=False).targets
            for source, begin in ((history, at), (keyless, keyless_at)):
                items = net.without(source.window(begin), apart)
                chosen = [
                    item for item in items.to_pylist() if (int(item["guid"]) % 3 == part if item["guid"] else part == 0)
                ]
                if chosen:
                    changes = net.reduce(net.events(pa.Table.from_pylist(chosen, items.schema), source.key))
                    staged.append(
                        stage.put(
                            executor,
                            changes,
                            targets[source.table],
                            prefix=Prefix("DEMO_"),
                            schema="public",
                            epoch=3,
                            number=f"{part}_{source.table.name}",
                        )
                    )
            executor.commit()
    rows_apart = [item for item in history.window(at).to_pylist() if item["guid"] is None or item["guid"] in apart]
    mine = net.reduce(net.events(pa.Table.from_pylist(rows_apart, history.window().schema), ("id",)))
    merged = apply.merge([*staged, mine])
    assert merged == Merged(deleted=10 + 1 + 1, updated=20, inserted=1 + 1 + 1)
    same(slave, history)
    same(slave, keyless)
    assert stage.drop(slave, Prefix("DEMO_"), "public", below=3) == 0
    assert stage.drop(slave, Prefix("DEMO_"), "public") > 3
    left = slave.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'demo_stage%'").fetchone()
    assert left == (0,)


def test_drift_in_staged_rows_is_named_too(slave: Any) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    at = filled(history)
    history.update(("3", "v3"), ("3", "new"))
    apply = merger(slave)
    staged = stage.put(
        slave, reduced(history, at), apply.targets[T], prefix=Prefix("DEMO_"), schema="public", epoch=1, number="0_0"
    )
    with pytest.raises(Drift) as caught:
        apply.merge([staged])
    assert caught.value.key == {"id": "3"}


def test_a_hundred_windows_leave_no_statement_unprepared(slave: Any) -> None:
    """A window of ten tables costs a few round trips, not a few for each table."""
    histories = []
    for number in range(10):
        table = TableName("public", f"t{number}")
        slave.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)")
        histories.append(History(table))
    slave.commit()
    apply = merger(slave)
    for turn in range(8):
        windows = []
        for history in histories:
            at = len(history.items)
            history.insert(str(turn), "x")
            if turn:
                history.update((str(turn - 1), "x"), (str(turn - 1), "y"))
            windows.append(reduced(history, at))
        apply.merge(windows)
        slave.commit()
    for history in histories:
        same(slave, history)
    prepared = slave.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%public%'").fetchone()
    assert prepared == (20,)
    assert isinstance(slave, psycopg.Connection)
