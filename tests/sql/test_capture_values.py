"""Every value travels exactly, whatever its type, its text and the settings of the session that wrote it."""

import base64
import re

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.model import content
from tests.examples import examples
from tests.features import has_extension, values_there
from tests.sql.master import Master, Model

HOSTILE_SETTINGS = {
    "DateStyle": "German, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "0",
    "bytea_output": "escape",
    "lc_monetary": "C",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "client_encoding": "LATIN1",
    "transform_null_equals": "on",
    "search_path": "evil, pg_catalog",
}

TYPES = {
    "c_smallint": ("smallint", ["-32768", "0", "32767"]),
    "c_int": ("int", ["-2147483648", "7"]),
    "c_bigint": ("bigint", ["-9223372036854775808", "9223372036854775807"]),
    "c_numeric": ("numeric", ["NaN", "Infinity", "-Infinity", "0.000", "1" * 100 + "." + "9" * 100, "-1e-20"]),
    "c_money": ("money", ["12345.67", "-0.01"]),
    "c_real": ("real", ["NaN", "-0", "3.4028235e38", "1.17549435e-38", "0.1"]),
    "c_double": ("double precision", ["Infinity", "1e-300", "0.1", "2.2250738585072014e-308", "123456789.123456789"]),
    "c_bool": ("bool", ["true", "false"]),
    "c_char": ("char(5)", ["ab", "", "a<b"]),
    "c_bpchar": ("bpchar", ["trailing  ", ""]),
    "c_qchar": ('"char"', ["x", "<", "", "\\303"]),
    "c_name": ("name", ["a name", "a&b"]),
    "c_varchar": ("varchar(40)", ["", 'O\'Hara \\ "q" %s ${x} $1', "tab\there"]),
    "c_text": (
        "text",
        ["", " ", "<a>&amp;</a>", "a]]>b", "é ß 漢字 🐘", "\r\n", "x\u0085y\u00a0z", "</col>", "null", "\\N"],
    ),
    "c_bytea": ("bytea", ["\\x", "\\x00ff27", "\\x" + "ab" * 5000]),
    "c_date": ("date", ["infinity", "-infinity", "2024-02-29", "0044-03-15 BC", "5874897-12-31"]),
    "c_time": ("time", ["00:00:00", "24:00:00", "23:59:59.999999"]),
    "c_timetz": ("timetz", ["00:00:00+14", "23:59:59.5-15:59"]),
    "c_timestamp": ("timestamp", ["infinity", "4713-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999"]),
    "c_timestamptz": ("timestamptz", ["-infinity", "2024-06-30 12:00:00.123456+05:45", "0001-01-01 00:00:00+00 BC"]),
    "c_interval": ("interval", ["1 year -2 days 03:04:05.678", "-1 mon", "infinity", "00:00:00"]),
    "c_uuid": ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "c_json": ("json", ['{"b": 1,  "a": "<&]]>"}', "null"]),
    "c_jsonb": ("jsonb", ['{"a": [1.50, null, "\\u00e9"], "b": "<"}', '"x\\ny"']),
    "c_jsonpath": ("jsonpath", ["$.a[*] ? (@ < 5 && @ > 1)"]),
    "c_inet": ("inet", ["192.168.0.1", "10.0.0.0/8", "::1/64"]),
    "c_cidr": ("cidr", ["10.0.0.0/8"]),
    "c_macaddr": ("macaddr", ["08:00:2b:01:02:03"]),
    "c_macaddr8": ("macaddr8", ["08:00:2b:01:02:03:04:05"]),
    "c_bit": ("bit(8)", ["10101010"]),
    "c_varbit": ("varbit", ["", "101"]),
    "c_point": ("point", ["(0.1,-0)"]),
    "c_line": ("line", ["{1,2,3}"]),
    "c_lseg": ("lseg", ["[(0,0),(1,1.5)]"]),
    "c_box": ("box", ["(1,1),(0,0)"]),
    "c_path": ("path", ["((0,0),(1,1))", "[(0,0),(1,1)]"]),
    "c_polygon": ("polygon", ["((0,0),(1,1),(2,0))"]),
    "c_circle": ("circle", ["<(1.5,2),3>"]),
    "c_tsvector": ("tsvector", ["'a':1 'it''s':2"]),
    "c_tsquery": ("tsquery", ["'a' & 'b' <-> 'c'"]),
    "c_int4range": ("int4range", ["[1,5)", "empty", "(,)"]),
    "c_numrange": ("numrange", ["[1.50,2.5]"]),
    "c_tsrange": ("tsrange", ["[2024-01-01,infinity)"]),
    "c_tstzrange": ("tstzrange", ["[2024-01-01 00:00+02,)"]),
    "c_daterange": ("daterange", ["[2024-01-01,2024-02-01)"]),
    "c_multirange": ("int8multirange", ["{[1,2),[5,9)}", "{}"]),
    "c_datemultirange": ("datemultirange", ["{[2024-01-01,2024-02-01)}"]),
    "c_ints": ("int[]", ["{1,NULL,3}", "{}", "[0:1]={5,6}", "{{1,2},{3,4}}"]),
    "c_texts": ("text[]", ['{"a,b","q\\"uote","<&]]>",NULL,"NULL",""}']),
    "c_dates": ("date[]", ["{2024-01-31,infinity}"]),
    "c_floats": ("float8[]", ["{0.1,NaN}"]),
    "c_intervals": ("interval[]", ['{"1 year 2 days"}']),
    "c_byteas": ("bytea[]", ['{"\\\\x00ff"}']),
    "c_oid": ("oid", ["4294967295"]),
    "c_regclass": ("regclass", ["pg_catalog.pg_class", "public.zoo_parent"]),
    "c_regtype": ("regtype", ["public.mood"]),
    "c_pg_lsn": ("pg_lsn", ["16/B374D848"]),
    "c_xid8": ("xid8", ["12345"]),
    "c_snapshot": ("pg_snapshot", ["10:20:10,14"]),
    "c_enum": ("public.mood", ["sad", "so <&> so"]),
    "c_enums": ("public.mood[]", ['{sad,"so <&> so"}']),
    "c_domain": ("public.positive", ["5"]),
    "c_domain_text": ("public.shout", ["HEY <"]),
    "c_composite": ("public.place", ['(1,"a ""b"" <",2024-01-01,0.1)', "(,,,)"]),
    "c_composites": ("public.place[]", ['{"(1,x,infinity,NaN)"}']),
    "c_range_of_own": ("public.floatrange", ["[0.1,0.30000000000000004)"]),
    "c_hstore": ("public.hstore", ['"a"=>"<&", "b"=>NULL']),
    "c_citext": ("public.citext", ["MiXed & <"]),
    "c_vector": ("public.vector(3)", ["[0.1,2,3]"]),
}


@pytest.fixture
def zoo(master: Master) -> Master:
    master.sql(
        "CREATE EXTENSION hstore",
        "CREATE EXTENSION citext",
        *(["CREATE EXTENSION vector"] if has_extension(master.connection, "vector") else []),
        "CREATE TYPE mood AS ENUM ('sad', 'so <&> so', 'happy')",
        "CREATE DOMAIN positive AS int CHECK (value > 0)",
        "CREATE DOMAIN shout AS text CHECK (value = upper(value))",
        "CREATE TYPE place AS (n int, t text, d date, f float8)",
        "CREATE TYPE floatrange AS RANGE (subtype = float8)",
        "CREATE TABLE zoo_parent (id int)",
        "CREATE SCHEMA evil",
        # Were any name in a trigger left to the writer's search_path, one of these would be called.
        "CREATE FUNCTION evil.concat(VARIADIC \"any\") RETURNS text LANGUAGE internal STABLE AS 'text_concat'",
        "CREATE FUNCTION evil.steal(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT true/* stolen */ $$",
        *(
            f"CREATE OPERATOR evil.{operator} (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.steal)"
            for operator in ("=", "<>", "~")
        ),
        "CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'stolen' $$",
        "CREATE TABLE zoo (id int PRIMARY KEY, "
        + ", ".join(f"{name} {kind}" for name, (kind, _) in types_there(master).items())
        + ", c_generated text GENERATED ALWAYS AS (c_text || '!') STORED)",
    )
    master.register("zoo")
    return master


def types_there(master: Master) -> dict[str, tuple[str, list[str]]]:
    """The types of `TYPES` that this release has."""
    found = {name: (kind, values_there(master.connection, kind, values)) for name, (kind, values) in TYPES.items()}
    return {name: (kind, values) for name, (kind, values) in found.items() if values}


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"E'{escaped}'"


@pytest.mark.one_in(2)
@pytest.mark.releases
@pytest.mark.parametrize("session", [{}, HOSTILE_SETTINGS], ids=["default settings", "hostile settings"])
def test_every_type_travels_exactly_under_any_settings(zoo: Master, session: dict[str, str]) -> None:
    columns = types_there(zoo)
    many = max(len(values) for _, values in columns.values())
    for number in range(many):
        values = ", ".join(f"{literal(texts[number % len(texts)])}::{kind}" for kind, texts in columns.values())
        # Inserted under default settings: the literals mean the same in both runs.
        zoo.sql(f"INSERT INTO zoo (id, {', '.join(columns)}) VALUES ({number}, {values})")
    zoo.sql("INSERT INTO zoo (id) VALUES (99)")
    before = zoo.contents("zoo")
    assert Model().replay(zoo.items()).contents("zoo") == before

    after = zoo.last_key()
    application = zoo.session(**session)
    application.execute(
        "INSERT INTO public.zoo SELECT id + 100, " + ", ".join(columns) + " FROM public.zoo WHERE id < 100"
    )
    application.execute("UPDATE public.zoo SET id = id + 1000")
    shifts = ", ".join(
        f"{column} = (SELECT {column} FROM public.zoo z WHERE z.id = 1000 + (zoo.id + 1) % {many})"
        for column in columns
    )
    application.execute(f"UPDATE public.zoo SET {shifts} WHERE id < 1100")
    application.execute("UPDATE public.zoo SET c_text = 'one row' WHERE id = 1000")
    application.execute("DELETE FROM public.zoo WHERE id >= 1100")
    application.close()
    assert Model().start("zoo", before).replay(zoo.items(after)).contents("zoo") == zoo.contents("zoo")


def test_generated_columns_do_not_travel(zoo: Master) -> None:
    zoo.sql("INSERT INTO zoo (id, c_text) VALUES (1, 'x')")
    assert "c_generated" not in zoo.items()[0].new


def test_settings_of_the_application_stay_as_they_were(zoo: Master) -> None:
    application = zoo.session(**HOSTILE_SETTINGS)
    application.execute("INSERT INTO public.zoo (id, c_date, c_double) VALUES (1, '2024-01-31', 0.1)")
    application.execute("UPDATE public.zoo SET c_date = '2024-02-01'")
    shown = application.execute("SELECT c_date::text, current_setting('search_path') FROM public.zoo").fetchone()
    assert shown == ("01.02.2024", "evil, pg_catalog")


def test_equal_values_with_other_texts_count_as_changed(master: Master) -> None:
    master.sql(
        "CREATE EXTENSION citext",
        "CREATE TABLE t (id int PRIMARY KEY, n numeric, f float8, c citext, i interval)",
    )
    master.register("t")
    master.sql(
        "INSERT INTO t VALUES (1, 1.0, 0, 'a', '24:00:00')", "UPDATE t SET n = 1.00, f = '-0', c = 'A', i = '1 day'"
    )
    item = master.items()[-1]
    assert item.old == {"id": "1", "n": "1.0", "f": "0", "c": "a", "i": "24:00:00"}
    assert (item.new["n"], item.new["f"], item.new["c"], item.new["i"]) == ("1.00", "-0", "A", "1 day")


def test_a_key_whose_text_alone_changes_has_no_guid(master: Master) -> None:
    master.sql("CREATE TABLE t (n numeric PRIMARY KEY, v int)")
    master.register("t")
    master.sql("INSERT INTO t VALUES (1.0, 1)", "UPDATE t SET n = 1.00", "UPDATE t SET n = n * 1, v = 2")
    assert [item.guid for item in master.items()] == ["1.0", None, "1.00"]


def test_null_and_empty_are_distinguished_in_every_direction(master: Master) -> None:
    master.sql(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text)",
        "CREATE TYPE pair AS (x int, y int)",
        "ALTER TABLE t ADD p pair",
    )
    master.register("t")
    master.sql(
        "INSERT INTO t VALUES (1, NULL, '', ROW(NULL, NULL)), (2, '', NULL, NULL)",
        "UPDATE t SET a = b, b = a, p = CASE WHEN id = 2 THEN ROW(NULL, NULL)::pair END",
    )
    assert Model().replay(master.items()).contents("t") == master.contents("t")
    assert master.items()[0].new["p"] == "(,)"
    assert master.items()[1].new["p"] is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("plain >", '<col name="v">plain ></col>'),
        ("", '<col name="v"></col>'),
        ("a<b", '<col name="v"><![CDATA[a<b]]></col>'),
        ("a&b", '<col name="v"><![CDATA[a&b]]></col>'),
        ("]]", '<col name="v">]]</col>'),
        ("]]>", '<col name="v" encoding="base64">' + base64.b64encode(b"]]>").decode() + "</col>"),
        ("a\nb", '<col name="v" encoding="base64">' + base64.b64encode(b"a\nb").decode() + "</col>"),
        ("\x7f", '<col name="v" encoding="base64">' + base64.b64encode(b"\x7f").decode() + "</col>"),
        (
            "é" * 100 + "\t",
            '<col name="v" encoding="base64">' + base64.b64encode(("é" * 100 + "\t").encode()).decode() + "</col>",
        ),
    ],
)
def test_a_value_is_protected_as_it_needs(master: Master, value: str, form: str) -> None:
    master.sql("CREATE TABLE t (v text)")
    master.register("t")
    master.connection.execute("INSERT INTO t VALUES (%s)", [value])
    item = master.items()[0]
    assert item.content == form
    assert master.value("SELECT demo_col2xml('v', %s)", [value]) == form
    assert master.value("SELECT demo_needs_prot(%s)", [value]) == (
        2 if "base64" in form else 1 if "CDATA" in form else 0
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["text", "char(3)", "word", "mood", "mood[]"])
def test_the_only_text_of_a_row_that_a_row_trigger_captures_is_protected(master: Master, kind: str) -> None:
    master.sql(
        "CREATE DOMAIN word AS text", "CREATE TYPE mood AS ENUM ('<a&', 'b')", "CREATE TABLE parent (id int)",
        f"CREATE TABLE heir (PRIMARY KEY (id), v {kind}) INHERITS (parent)",
    )  # fmt: skip
    master.register("heir")
    array = kind.endswith("]")
    odd, plain = ("{<a&}", "{b}") if array else ("<a&", "b")
    master.sql(f"INSERT INTO heir VALUES (1, '{odd}'), (2, '{plain}'), (3, NULL)", f"UPDATE heir SET v = '{odd}'")
    master.sql("DELETE FROM heir")
    found = [(item.action, (item.new or item.old)["v"]) for item in master.items()]
    padded = plain.ljust(3) if kind == "char(3)" else plain
    assert [value.strip() if value else None for _, value in found[:3]] == [odd, plain, None]
    assert [value for _, value in found[3:]] == [odd] * 6 and found[1][1] in (plain, padded)


def test_content_is_what_the_reference_writer_writes(master: Master) -> None:
    master.sql("CREATE TABLE t (a text, b text)")
    master.register("t")
    row = [("a", "x<&y"), ("b", None)]
    master.connection.execute("INSERT INTO t VALUES (%s, %s)", [value for _, value in row])
    assert content.format_row(row) == master.items()[0].content


# NUL is no character of PostgreSQL's text; surrogates are none at all.
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs",)), max_size=30) | st.sampled_from(
    [
        "",
        "]]>",
        "<![CDATA[x]]>",
        "</col>",
        '<col name="v">',
        "&lt;",
        "null",
        "\\",
        "'",
        '"',
        "]]",
        ">",
        "\x85",
        "%s",
        "\r\n\t",
    ]
)


@pytest.mark.long
@given(values=st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS, st.none() | TEXTS), min_size=1, max_size=6))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_comes_back(master: Master, values: list[tuple[str | None, str | None, str | None]]) -> None:
    if not master.value("SELECT to_regclass('t') IS NOT NULL"):
        master.sql("CREATE TABLE t (id int, a text, b varchar, c text NOT NULL DEFAULT '')")
        master.register("t")
    master.sql("TRUNCATE t")
    after = master.last_key()
    with master.connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO t VALUES (%s, %s, %s, coalesce(%s, ''))", [(n, *row) for n, row in enumerate(values)]
        )
    master.sql(
        "UPDATE t SET a = b, b = a",
        "UPDATE t SET c = coalesce(a, 'none') || c WHERE id = 0",
        "DELETE FROM t WHERE id = 1",
    )
    assert Model().replay(master.items(after)).contents("t") == master.contents("t")


@pytest.mark.long
def test_large_values_travel(master: Master) -> None:
    master.sql("CREATE TABLE t (id int PRIMARY KEY, v text, b bytea)")
    master.register("t")
    master.sql(
        "INSERT INTO t VALUES (1, repeat('x<', 4000000), decode(repeat('00ff', 4000000), 'hex'))",
        "UPDATE t SET v = v || E'\\n'",
        "UPDATE t SET id = 2",
    )
    assert Model().replay(master.items()).contents("t") == master.contents("t")
    # An unchanged value is not written a second time as the old one.
    assert len(master.items()[-1].oldcontent or "") < 100


def test_capture_code_calls_no_function_without_its_schema(zoo: Master) -> None:
    code = "".join(
        source for (source,) in zoo.rows("SELECT prosrc FROM pg_proc WHERE proname LIKE 'demo_capture_zoo%'")
    )
    without_literals = re.sub(r"'(?:[^']|'')*'", "''", code)
    called = set(re.findall(r"(?<![\w.\"])([a-z_0-9]+)\(", without_literals))
    lengths_of_types = {"numeric", "bit", "varying", "character", "vector"}
    assert called <= {"coalesce", "demo_items"} | lengths_of_types


def test_a_whole_row_can_be_written_by_hand(zoo: Master) -> None:
    zoo.sql("INSERT INTO zoo (id, c_text, c_timestamptz) VALUES (1, 'a<b', '2024-01-31 12:00+02')")
    with zoo.session(**HOSTILE_SETTINGS) as application:
        written = application.execute("SELECT public.demo_col2xml(z) FROM public.zoo z").fetchone()
    assert written == (zoo.items()[0].content,)
    with pytest.raises(psycopg.errors.WrongObjectType):
        zoo.sql("SELECT demo_col2xml(z) FROM zoo_parent z RIGHT JOIN pg_class ON false LIMIT 1")
