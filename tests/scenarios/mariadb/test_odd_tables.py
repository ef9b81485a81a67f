"""Odd tables: each is refused by table and column with a remedy before anything is changed, or it is made, loaded and
followed; those whose values the slave cannot have are left out; none stops another."""

from collections.abc import Callable

import pytest

from sluice.coordination import redis_store
from sluice.load import steps
from sluice.vendors.postgres.connection import quoted
from tests.scenarios.applications import any_content
from tests.scenarios.mariadb.rig import Rig

NAMES = [
    "a/b", "#sql-1", "-" * 60, "-" * 63, "中" * 21, "中" * 10 + "é" * 16, "a`b", 'a"b', "a%b", "a.b", "a\\b", "?",
    "x" * 63, "primary", "DUAL", "  lead", "tab\there", "new\nline", "é" * 31, "mysql", "A", "a", "1", "1e5",
    "lost+found", "%s", "%(x)s", "{x}", ":x", "'", "''", "null", "é", "e", "ß", "ss", "\u00a0", "a\u200b", "I",
    "ı", "sluice row", "ﬀ", "\x7f", "a\u0301", "á", "t\u3000", "@x", "$1", ";", "--", "/*x*/",
]  # fmt: skip
COLUMNS = [
    "a/b", '"', "`", "%s", "%(x)s", ":x", "?", "{x}", "'", "\\", " lead", "x" * 63, "中" * 21, "index", "values",
    "row_start", "row_end", "FTS_DOC_ID", "fts_doc_id", "DB_ROLL_PTR", "db_row_id", "sluice row", "tab\t",
    "tab\tin", "new\nline", "\u00a0", "\u3000", "PRIMARY", "old", "_rowid", "system", "ß", "1", "1e5", "null",
    "@x", "$1", ";", "--", "/*x*/", "a.b", "\x7f",
]  # fmt: skip
ALIKE = [
    ("Id", "id"), ("é", "e"), ("ß", "ss"), ("I", "ı"), ("a\u0301", "á"), ("ﬀ", "ff"), ("a", "ａ"), ("æ", "ae"),
    ("ø", "o"), ("ł", "l"), ("µ", "μ"), ("ς", "σ"), ("а", "a"), ("x", "x\u200b"), ("½", "1⁄2"), ("Ⅳ", "IV"),
    ("ñ", "n"), ("đ", "d"),
]  # fmt: skip
TYPES = [
    "numeric(65,38)", "numeric(65,30)", "numeric(66,2)", "numeric(70,2)", "numeric(5,-2)", "numeric(3,5)",
    "numeric(1000)", "numeric", "char(300)", "char(255)", "char(1)", "varchar(255)", "varchar(256)",
    "varchar(20000)", "varchar(1000000)", "bit(64)", "bit(65)", "bit(1)", "bit varying(10)", "bit varying",
    "time(0)", "time", "timetz", "timestamp(0)", "timestamptz(3)", '"char"', "name", "oid", "xid8", "money",
    "xml", "inet", "cidr", "macaddr", "macaddr8", "uuid", "bytea", "json", "jsonb", "jsonpath", "float4",
    "float8", "boolean", "date", "interval", "interval(2)", "int2", "int8", "point", "int4range", "text[]",
    "tsvector", "pg_lsn", "txid_snapshot", "public.mood", "public.short", "public.pair",
]  # fmt: skip
KEYS = [
    ("varchar(3000)",), ("text",) * 10, ("varchar(500)", "varchar(500)"), ("bytea", "text"), ("float8",),
    ("boolean", "date"), ("public.mood", "int"), ("interval",), ("int",) * 32, ("varchar(40)",) * 32,
    ("text",) * 32, ("char(300)", "uuid"), ("timestamptz", "timestamp"), ("inet", "macaddr"),
    ("numeric(65,30)",) * 31, ("bytea",) * 8, ("bit(64)", "bit(3)"), ("public.short", "name"),
    ("time", "timetz"), ("int8",) * 16 + ("text",) * 16,
]  # fmt: skip
WIDE = {
    "c1016": ("int",) * 1015, "c1017": ("int",) * 1016, "c1018": ("int",) * 1017,
    "v200": ("varchar(255)",) * 200, "v1000": ("varchar(60)",) * 1000, "c100": ("char(255)",) * 100,
    "n250": ("numeric(65,30)",) * 250, "n300": ("numeric(65,30)",) * 300, "f1000": ("float8",) * 1000,
    "t197": ("text",) * 197, "t400": ("text",) * 400,
    "mixed": ("varchar(100)", "text", "bytea", "numeric(20,5)", "varchar(255)") * 80,
    "b1000": ("boolean",) * 1000, "ts900": ("timestamptz",) * 900, "u220": ("uuid",) * 220,
    "y190": ("bytea",) * 190, "v12": ("varchar(12)",) * 900,
}  # fmt: skip
OTHERS = [
    "CREATE TABLE public.no_columns ()",
    "CREATE TABLE public.generated (id int PRIMARY KEY, b int GENERATED ALWAYS AS (id * 2) STORED, c text)",
    "CREATE TABLE public.only_generated (b int GENERATED ALWAYS AS (1 + 1) STORED)",
    "CREATE TABLE public.identity_ (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)",
    "CREATE TABLE public.unique_key (a varchar(800) NOT NULL UNIQUE, b int)",
    "CREATE TABLE public.unique_text (a text NOT NULL UNIQUE, b text UNIQUE, c int)",
    "CREATE TABLE public.indexed (id int PRIMARY KEY, " + ", ".join(f"f{n} int" for n in range(70)) + "); "
    + "; ".join(f"CREATE INDEX ON public.indexed (f{n})" for n in range(70)),
    'CREATE TABLE public.index_names (id int PRIMARY KEY, a int, b int, c int, d int, e int, f int, g int); '
    'CREATE INDEX "PRIMARY" ON public.index_names (a); CREATE INDEX "GEN_CLUST_INDEX" ON public.index_names (b); '
    'CREATE INDEX "I_x" ON public.index_names (c); CREATE INDEX "i_X" ON public.index_names (d); '
    'CREATE INDEX "end " ON public.index_names (e); CREATE INDEX "😀" ON public.index_names (f); '
    'CREATE INDEX "a`b.c" ON public.index_names (g)',
    'CREATE TABLE public.fk_names (id int PRIMARY KEY, a int CONSTRAINT "😀" REFERENCES public.identity_, '
    'b int CONSTRAINT "end " REFERENCES public.identity_, c int CONSTRAINT "Up" REFERENCES public.identity_, '
    'd int CONSTRAINT "up" REFERENCES public.identity_, e int CONSTRAINT "PRIMARY" REFERENCES public.identity_)',
    "CREATE TABLE public.commented (id int PRIMARY KEY, v text); "
    f"COMMENT ON TABLE public.commented IS '{'c' * 3000}'; COMMENT ON COLUMN public.commented.v IS '{'d' * 2000}'",
]  # fmt: skip

REMEDIES = (
    "{rename: OTHER}", "{exclude: true}", "out of the replication's tables", "is a name", "does not fit on the slave",
)  # fmt: skip


def tables() -> list[str]:
    """The statements of the master, a table each."""
    made = [
        "CREATE TYPE public.mood AS ENUM ('sad', 'it''s', ''); CREATE DOMAIN public.short AS varchar(10); "
        "CREATE TYPE public.pair AS (a int, b text)"
    ]
    made += [f"CREATE TABLE public.{quoted(name)} (id int PRIMARY KEY, v text)" for name in NAMES]
    made += [
        f"CREATE TABLE public.column_{number} (key int PRIMARY KEY, {quoted(name)} int, v text)"
        for number, name in enumerate(COLUMNS)
    ]
    made += [
        f"CREATE TABLE public.alike_{number} (key int PRIMARY KEY, {quoted(one)} int, {quoted(other)} int)"
        for number, (one, other) in enumerate(ALIKE)
    ]
    made += [
        f"CREATE TABLE public.type_{number} (id int PRIMARY KEY, v {kind}, w {kind})"
        for number, kind in enumerate(TYPES)
    ]
    for number, kinds in enumerate(KEYS):
        names = [f"k{place}" for place in range(len(kinds))]
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
        made.append(f"CREATE TABLE public.key_{number} ({columns}, v text, PRIMARY KEY ({', '.join(names)}))")
    for name, kinds in WIDE.items():
        columns = ", ".join(f"f{place} {kind}" for place, kind in enumerate(kinds))
        made.append(f"CREATE TABLE public.{name} (id int PRIMARY KEY, {columns})")
    return made + OTHERS


@pytest.mark.long
def test_an_odd_table_is_refused_with_a_remedy_or_loaded_and_followed(rig: Callable[..., Rig]) -> None:
    pair = rig("; ".join(tables()), schema="sluice", lossy_columns="['public.*.*']", on_error="isolate")
    for seed in range(2):
        any_content.write(pair.master, seed)
    update, store = pair.update(), redis_store.connect(pair.redis_url)
    steps.begin(update, store)
    steps.create_tables(update)
    steps.plan(update, store)
    pair.load(update)
    with pair.apply() as running:
        pair.await_current()
        pair.finish(update)
        running.await_normal_mode()
        assert differing(pair) == []
        for seed in range(2, 5):
            any_content.write(pair.master, seed)
            pair.await_current()
        assert differing(pair) == []
        assert len(pair.tables()) - len(pair.checkpoint.tables) > 180


def differing(pair: Rig) -> list[str]:
    """The tables that differ; those that are left out say what to do, or that a value does not fit."""
    states = pair.checkpoint.tables
    told = {table for table in states if any(remedy in states.explain(table) for remedy in REMEDIES)}
    untold = [f"{table}: {states.explain(table)}" for table in states if table not in told]
    return untold + [table for table in pair.differences() if table not in set(map(str, told))]
