"""Normal mode finds every row that somebody changed on the slave, and reports no other."""

from collections.abc import Callable
from typing import Any

import pytest

from sluice.database.conflicts import Drift
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from tests.rig.rig import Rig

TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, a text, b numeric, c text)"
LARGE = 21_000
"""Rows that make a window large enough to be staged."""


def settled(pair: Rig, running: Any) -> None:
    pair.await_current()
    pair.await_that(lambda: running.in_normal_mode)


def silent(pair: Rig, *statements: str) -> None:
    """Runs a person's statement on the slave."""
    for statement in statements:
        pair.slave.execute(statement.encode())


@pytest.mark.one_in(16)
@pytest.mark.parametrize("rows", [20, LARGE])
@pytest.mark.parametrize(
    ("hand", "change", "said"),
    [
        (
            "UPDATE public.t SET a = 'mine' WHERE id = 7",
            "UPDATE public.t SET a = 'new' WHERE id % 2 = 1",
            "UPDATE expected a = 'a7' on the slave and found a = 'mine'",
        ),
        (
            "UPDATE public.t SET c = repeat('x', 100), b = NULL WHERE id = 7",
            "UPDATE public.t SET a = 'new'",
            f"UPDATE expected b = '7', c = NULL on the slave and found b = NULL, c = '{'x' * 60}'… (100 characters)",
        ),
        (
            "UPDATE public.t SET b = 0 WHERE id = 7",
            "DELETE FROM public.t",
            "DELETE expected b = '7' on the slave and found b = '0'",
        ),
        (
            "UPDATE public.t SET b = 0 WHERE id = 7",
            "UPDATE public.t SET id = -id",
            "expected b = '7' on the slave and found b = '0'",
        ),
        ("DELETE FROM public.t WHERE id = 7", "UPDATE public.t SET a = 'new'", "UPDATE expected one on the slave"),
        ("DELETE FROM public.t WHERE id = 7", "DELETE FROM public.t", "DELETE expected one on the slave"),
        (
            "INSERT INTO public.t VALUES (-7, 'mine')",
            "INSERT INTO public.t SELECT -id FROM public.t",
            "row id = '-7': INSERT expected none on the slave and found one",
        ),
        (
            "UPDATE public.t SET a = 'mine' WHERE id = 7",
            "WITH x AS (DELETE FROM public.t RETURNING *) SELECT FROM x; INSERT INTO public.t SELECT g FROM "
            "generate_series(1, 20) g; UPDATE public.t SET a = 'z'",
            "expected a = 'a7' on the slave and found a = 'mine'",
        ),
    ],
)
def test_a_row_touched_by_hand_stops_the_window(
    rig: Callable[..., Rig], rows: int, hand: str, change: str, said: str
) -> None:
    pair = rig(TABLE)
    pair.master.execute(f"INSERT INTO public.t SELECT g, 'a' || g, g FROM generate_series(1, {rows}) g".encode())
    with pair.apply() as running:
        settled(pair, running)
        silent(pair, hand)
        before = pair.rows(pair.slave, pair.tables(pair.slave)[0])
        with pair.master.transaction():
            for statement in change.split(";"):
                pair.master.execute(statement.encode())
        with pytest.raises(Drift) as caught:
            pair.await_current()
    assert said in str(caught.value)
    assert "public.t, row id = '" in str(caught.value)
    assert pair.rows(pair.slave, pair.tables(pair.slave)[0]) == before, "the whole window was undone"


TYPES = {
    "n": ("numeric", "'1.50', 'NaN'", "numeric(30,4)"),
    "d": ("double precision", "'-0', 'NaN', '1e-300'", "double precision"),
    "f": ("float8", "'0.5', '2'", "real"),
    "ch": ("char(5)", "'ab', ''", "char(8)"),
    "vc": ("varchar(9)", "'x ', ' x'", "text"),
    "ts": ("timestamptz", "'infinity', '2026-01-01 00:00:00.123456+02'", "timestamptz(3)"),
    "iv": ("interval", "'1 mon', '30 days'", "interval"),
    "js": ("json", """'{"b" : 1,  "b": 2}', 'null'""", "json"),
    "jb": ("jsonb", """'{"a": 1.0}', '[]'""", "jsonb"),
    "p": ("point", "'(1,2)', '(-0,3)'", "point"),
    "bx": ("box", "'(3,4),(1,2)', '(2,4),(0,2)'", "box"),
    "ar": ("numeric[]", "'{1.0,NULL}', '{}'", "numeric(8,3)[]"),
    "ja": ("json[]", "'{\"{}\"}', NULL", "json[]"),
    "co": ("public.pair", "'(1,\"{}\")', '(,)'", "public.pair"),
    "ci": ("public.citext", "'Mixed', 'mixed'", "public.citext"),
    "hs": ("public.hstore", "'a=>1', ''", "public.hstore"),
    "dm": ("public.short", "'abc', NULL", "public.short"),
    "en": ("public.mood", "'fine', 'so, so'", "public.mood"),
    "by": ("bytea", "'\\x00ff', ''", "bytea"),
    "bt": ("bit(3)", "'101', NULL", "bit varying"),
    "rg": ("numrange", "'[1.0,2)', 'empty'", "numrange"),
    "vb": ("varbit", "'', '1'", "varbit"),
    "cc": ('"char"', "'x', ''", '"char"'),
    "na": ("name", "'some', ''", "text"),
    "rc": ("regclass", "'pg_class', 'pg_proc'", "regclass"),
    "tv": ("tsvector", "'a:1A b', ''", "tsvector"),
    "mo": ("money", "'-1.5', '2'", "money"),
    "ip": ("inet", "'10.0.0.1/8', '::1'", "inet"),
}
OWN_TYPES = """
CREATE EXTENSION citext SCHEMA public; CREATE EXTENSION hstore SCHEMA public;
CREATE TYPE public.pair AS (x int, y json); CREATE TYPE public.mood AS ENUM ('fine', 'so, so');
CREATE DOMAIN public.short AS varchar(3) CHECK (length(VALUE) > 1);
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rows", [40, LARGE])
def test_no_type_is_taken_for_drift(rig: Callable[..., Rig], rows: int) -> None:
    """Values are compared in the type of the slave's column: other lengths and scales are no drift."""
    on_master = ", ".join(f"{name} {type_}" for name, (type_, _, _) in TYPES.items())
    pair = rig(f"{OWN_TYPES} CREATE TABLE public.t (id int PRIMARY KEY, other int, {on_master})")
    on_slave = ", ".join(f"{name} {type_}" for name, (_, _, type_) in TYPES.items())
    silent(
        pair,
        "DROP TABLE public.t",
        f"CREATE TABLE public.t (mine text DEFAULT 'm', id int PRIMARY KEY, other bigint, {on_slave}, "
        "gen text GENERATED ALWAYS AS (n::text) STORED)",
    )
    values = {name: f"ARRAY[{values}]::text[]" for name, (_, values, _) in TYPES.items()}

    def chosen(number: str) -> str:
        return ", ".join(
            f"({array})[({number}) % array_length({array}, 1) + 1]::{TYPES[name][0]}" for name, array in values.items()
        )

    fill = f"INSERT INTO public.t SELECT g, g, {chosen('g')} FROM generate_series(1, {rows}) g"
    pair.master.execute(fill.encode())
    with pair.apply() as running:
        settled(pair, running)
        silent(pair, "UPDATE public.t SET mine = 'kept'")
        pair.master.execute("UPDATE public.t SET other = -1")
        pair.await_current()
        pair.master.execute(f"UPDATE public.t SET ({', '.join(TYPES)}) = ROW({chosen('id + 1')})".encode())
        pair.await_current()
        pair.master.execute("UPDATE public.t SET id = -id WHERE id % 3 = 0")
        pair.await_current()
        pair.master.execute("DELETE FROM public.t WHERE id % 2 = 0")
        pair.await_current()
    names = ", ".join(f"{name}::text" for name, (type_, _, other) in TYPES.items() if type_ == other)
    text = f"SELECT id, other, {names} FROM public.t ORDER BY id"
    assert pair.slave.execute(text.encode()).fetchall() == pair.master.execute(text.encode()).fetchall()
    assert pair.slave.execute("SELECT DISTINCT mine FROM public.t WHERE id > 0").fetchall() == [("kept",)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("type_", ["ci", "js", "ar", "p"])
def test_a_change_between_equal_values_is_found(rig: Callable[..., Rig], type_: str) -> None:
    values = {"ci": "Ab", "js": "[1]", "ar": "{1}", "p": "(1,1)"}
    other = {"ci": "ab", "js": "[1 ]", "ar": "{2}", "p": "(1,2)"}
    pair = rig(f"{OWN_TYPES} CREATE TABLE public.t (id int PRIMARY KEY, n int, v {TYPES[type_][0]})")
    pair.master.execute(f"INSERT INTO public.t VALUES (1, 1, '{values[type_]}')".encode())
    with pair.apply() as running:
        settled(pair, running)
        silent(pair, f"UPDATE public.t SET v = '{other[type_]}'")
        pair.master.execute("UPDATE public.t SET n = 2")
        with pytest.raises(Drift) as caught:
            pair.await_current()
    assert caught.value.differing == {"v": (other[type_], values[type_])}


def test_values_need_not_match_where_the_slave_may_differ(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE, compare=False)
    silent(
        pair,
        "CREATE FUNCTION public.mask() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.a := ''***''; RETURN NEW; END'",
        "CREATE TRIGGER mask BEFORE INSERT OR UPDATE ON public.t FOR EACH ROW EXECUTE FUNCTION public.mask()",
        "ALTER TABLE public.t ENABLE ALWAYS TRIGGER mask",
    )
    pair.master.execute("INSERT INTO public.t SELECT g, 'a' || g, g FROM generate_series(1, 20) g")
    with pair.apply() as running:
        settled(pair, running)
        pair.master.execute("UPDATE public.t SET b = b + 1")
        pair.master.execute("DELETE FROM public.t WHERE id > 3")
        pair.await_current()
        assert pair.rows(pair.slave, pair.tables(pair.slave)[0]) == ["(1,***,2,)", "(2,***,3,)", "(3,***,4,)"]
        pair.master.execute("UPDATE public.t SET b = 0")
        silent(pair, "DELETE FROM public.t WHERE id = 2")
        pair.master.execute("UPDATE public.t SET b = 1")
        with pytest.raises(Drift, match="found none"):
            pair.await_current()


def test_updates_that_do_not_travel_are_no_drift_of_the_row_that_goes(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE, rule="actions: ID")
    pair.master.execute("INSERT INTO public.t SELECT g, 'a' FROM generate_series(1, 3) g")
    with pair.apply() as running:
        settled(pair, running)
        ((trigger,),) = pair.master.execute("SELECT trigger_name FROM public.demo_tables").fetchall()
        pair.master.execute(f'DROP TRIGGER "{trigger}_u" ON public.t'.encode())
        pair.master.execute("UPDATE public.t SET a = 'newer' WHERE id = 1")
        pair.await_current()
        assert pair.slave.execute("SELECT a FROM public.t WHERE id = 1").fetchone() == ("a",)
        pair.master.execute("DELETE FROM public.t WHERE id = 1")
        pair.await_current()
        assert pair.slave.execute("SELECT id FROM public.t ORDER BY 1").fetchall() == [(2,), (3,)]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("policy", ["stop", "reject"])
@pytest.mark.parametrize("rows", [20, LARGE])
@pytest.mark.parametrize("told", [True, False])
def test_rows_that_a_change_of_definition_made_anew_are_no_drift(
    rig: Callable[..., Rig], told: bool, rows: int, policy: str
) -> None:
    pair = rig(TABLE, policy=policy)
    if not told:
        for (name,) in pair.master.execute("SELECT evtname FROM pg_event_trigger").fetchall():
            pair.master.execute(f'DROP EVENT TRIGGER "{name}"'.encode())
    pair.master.execute(f"INSERT INTO public.t SELECT g, 'a' || g, g FROM generate_series(1, {rows}) g".encode())
    with pair.apply() as running:
        settled(pair, running)
        pair.master.execute("ALTER TABLE public.t ALTER COLUMN a TYPE text COLLATE \"C\" USING 'x' || a")
        pair.master.execute(
            "ALTER TABLE public.t ALTER b TYPE int USING b * 2, ADD COLUMN r float DEFAULT random(), "
            "ADD COLUMN s float NOT NULL DEFAULT random()"
        )
        pair.master.execute("UPDATE public.t SET c = 'after' WHERE id = 5")
        pair.master.execute("DELETE FROM public.t WHERE id = 6")
        pair.master.execute("INSERT INTO public.t (id, a, b) VALUES (0, 'new', 0)")
        pair.await_current()
        pair.master.execute("UPDATE public.t SET c = 'later' WHERE id < 9")
        pair.await_current()
        pair.await_that(lambda: pair.differences() == {})
        pair.master.execute("UPDATE public.t SET c = 'again'")
        pair.await_current()
        assert pair.differences() == {}
    assert pair.slave.execute("SELECT count(*) FROM public.demo_rejects").fetchone() == (0,)
    # Not before its values were there, and no later than the next change of the table.
    shape = catalog.shape(pair.slave, TableName("public", "t"))
    assert shape is not None
    assert not shape.column("s").nullable


MARK = ' type="unchanged"></col>'
MARKS = (MARK, f'<col name="t"{MARK}', f"\x01{MARK}", "]]></col>")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("options", [{"safe": True}, {"policy": "overwrite"}, {}], ids=["safe", "overwrite", "strict"])
def test_texts_that_look_like_the_marks_of_the_queue_are_texts(
    rig: Callable[..., Rig], options: dict[str, Any], rows: int
) -> None:
    pair = rig("CREATE TABLE public.t (id int PRIMARY KEY, t text, u text)", **options)
    many = f"generate_series(1, {rows}) g"
    with pair.apply() as running:
        pair.await_current()
        if not options:
            settled(pair, running)
        with pair.master.transaction():
            for number, mark in enumerate(MARKS):
                pair.master.execute(
                    f"INSERT INTO public.t SELECT {number} * 1000 + g, %s, 'x' FROM {many}".encode(), [mark]
                )
            pair.master.execute("INSERT INTO public.t VALUES (-1, 'base', 'base')")
        pair.await_current()
        pair.master.execute("UPDATE public.t SET t = %s WHERE id = -1", [MARKS[0]])
        pair.master.execute("UPDATE public.t SET u = 'y' WHERE id > 0")
        pair.await_current()
        with pair.master.transaction():
            pair.master.execute("UPDATE public.t SET id = id + 500 WHERE id < 3000")
            pair.master.execute("UPDATE public.t SET u = t, t = u")
            pair.master.execute("DELETE FROM public.t WHERE id % 2 = 0")
        pair.await_current()
        pair.assert_equal()
