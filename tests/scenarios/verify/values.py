"""Values of every type that differ, and look as similar as possible."""

PREPARE = """
CREATE EXTENSION hstore SCHEMA public; CREATE EXTENSION citext SCHEMA public;
CREATE TYPE public.mood AS ENUM ('sad', 'Sad', 'sad ');
CREATE DOMAIN public.positive AS int CHECK (value > 0);
CREATE DOMAIN public.label AS text;
CREATE TYPE public.place AS (n int, t text, f float8);
CREATE TYPE public.floatrange AS RANGE (subtype = float8);
CREATE VIEW public.seen AS SELECT 1;
"""

VECTOR = "CREATE EXTENSION vector SCHEMA public;"
"""Where the server has it."""

NULL = None
"""Stands beside '' wherever a type has that."""

TYPES: dict[str, list[str | None]] = {
    "smallint": ["0", "1", "-1", "256"],
    "int": ["0", "1", "-1", "65536", NULL],
    "bigint": ["0", "1", "-1", "4294967296", "-4294967296", "-4294967297"],
    "numeric": ["1", "1.0", "1.00", "10", "NaN", "Infinity", "-Infinity", "0", "0.00", "1e-30"],
    "numeric(10,2)": ["1.00", "1.01", "-1.00", "0.00", "NaN", NULL],
    "numeric(4,-2)": ["100", "1000", "0"],
    "money": ["1.00", "-1.00", "0.01"],
    "real": ["0", "-0", "NaN", "1", "1.0000001", "Infinity", "-Infinity"],
    "double precision": ["0", "-0", "NaN", "0.1", "0.10000000000000002", "Infinity", "-Infinity", "5e-324"],
    "boolean": ["true", "false", NULL],
    "char(5)": ["", "a", "A", " a", "é", NULL],
    "bpchar": ["", " ", "a", "a ", NULL],
    '"char"': ["", "a", "A", NULL],
    "name": ["", "a", "a ", NULL],
    "varchar(20)": ["", " ", "a", "a ", "A", "é", "e", NULL],
    "text": ["", " ", "a", "A", "a ", "é", "e", "\n", "\r\n", "NULL", "null", "\\N", ",", '"', '""', "()", NULL],
    "bytea": ["", "\\x00", "\\x0000", "\\x30", NULL],
    "date": ["infinity", "-infinity", "2024-02-29", "0001-01-01", "0001-01-01 BC", NULL],
    "time": ["00:00:00", "24:00:00", "23:59:59.999999", "12:00:00"],
    "time(0)": ["00:00:00", "24:00:00", "00:00:01"],
    "timetz": ["00:00:00+00", "01:00:00+01", "00:00:00-00:00:01", "00:00:00.000001+00"],
    "timestamp": ["infinity", "-infinity", "2024-01-01", "2024-01-01 00:00:00.000001", "2024-01-01 BC"],
    "timestamp(3)": ["infinity", "2024-01-01", "2024-01-01 00:00:00.001"],
    "timestamptz": ["infinity", "-infinity", "2024-01-01+00", "2024-01-01 00:00:00.000001+00", "2024-01-01+01"],
    "timestamptz(0)": ["2024-01-01+00", "2024-01-01 00:00:01+00"],
    "interval": ["1 day", "24:00:00", "1 mon", "30 days", "00:00:00", "-00:00:00.000001", "infinity"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"],
    "json": ['{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a":1,"b":2}', '{"a": 1, "b": 2, "b": 2}', "null", NULL],
    "jsonb": ['{"a": 1}', '{"a": 1.0}', '{"a": "1"}', '{"A": 1}', "{}", "[]", "null", '""', NULL],
    "jsonpath": ["$.a", "$.b", "strict $.a"],
    "inet": ["10.0.0.0", "10.0.0.0/8", "10.0.0.1", "::1"],
    "cidr": ["10.0.0.0/8", "10.0.0.0/9"],
    "macaddr": ["08:00:2b:01:02:03", "08:00:2b:01:02:04"],
    "macaddr8": ["08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03:04:06"],
    "bit(3)": ["000", "001", "100"],
    "varbit": ["", "0", "00", "1", NULL],
    "point": ["(0,0)", "(0,-0)", "(1e-7,0)", "(0,1e-7)"],
    "line": ["{1,2,3}", "{2,4,6}"],
    "lseg": ["[(0,0),(1,1)]", "[(1,1),(0,0)]"],
    "box": ["(1,1),(0,0)", "(1,1),(0,-1)"],
    "path": ["((0,0),(1,1))", "[(0,0),(1,1)]"],
    "polygon": ["((0,0),(1,1),(2,0))", "((1,1),(2,0),(0,0))"],
    "circle": ["<(1,2),3>", "<(1,2),3.0000000001>"],
    "tsvector": ["'a':1", "'a':2", "'a'", "'a':1A"],
    "tsquery": ["'a' & 'b'", "'b' & 'a'", "'a' | 'b'"],
    "int4range": ["[1,5)", "[1,6)", "(,)", "(,5)", "empty", NULL],
    "numrange": ["[1.0,2)", "[1.00,2)", "(1.0,2)", "[1.0,2]"],
    "tstzrange": ["[2024-01-01 00:00+00,)", "(2024-01-01 00:00+00,)", "[2024-01-01 00:00+00,infinity)"],
    "int8multirange": ["{}", "{[1,2)}", "{[1,2),[5,9)}"],
    "int[]": ["{}", "{1}", "{NULL}", "[0:0]={1}", "{{1}}", "{1,NULL}", NULL],
    "text[]": ["{}", "{NULL}", '{"NULL"}', '{""}', '{"a,b"}', "{a,b}", '{"{a,b}"}', '{"a\\"b"}', NULL],
    "numeric(6,2)[]": ["{1.00}", "{1.01}"],
    "char(3)[]": ["{a}", '{" a"}', "{A}"],
    "bytea[]": ['{"\\\\x00"}', '{"\\\\x0000"}'],
    "interval[]": ['{"1 day"}', '{"24:00:00"}'],
    "oid": ["0", "4294967295"],
    "regclass": ["pg_catalog.pg_class", "public.seen", "pg_catalog.pg_type"],
    "regtype": ["public.mood", "public.place", "text"],
    "pg_lsn": ["0/0", "16/B374D848"],
    "xid8": ["0", "12345"],
    "pg_snapshot": ["10:20:10,14", "10:20:10"],
    "public.mood": ["sad", "Sad", "sad ", NULL],
    "public.mood[]": ["{sad}", "{Sad}", '{"sad "}'],
    "public.positive": ["1", "2", NULL],
    "public.label": ["", " ", "a", "A", NULL],
    "public.place": ["(,,)", '(,"",)', "(1,a,0)", "(1,a,-0)", '(1," a",0)', NULL],
    "public.place[]": ["{}", '{"(,,)"}', '{"(1,a,0)"}', '{"(1,a,-0)"}'],
    "public.floatrange": ["[0.1,0.3)", "[0.1,0.30000000000000004)", "[-0,0.3)", "[0,0.3)"],
    "public.hstore": ["", '"a"=>NULL', '"a"=>""', '"a"=>"NULL"', NULL],
    "public.citext": ["a", "A", "a ", "", NULL],
    "public.vector(2)": ["[0,1]", "[-0,1]", "[1,0]"],
}

KEYS = [
    "smallint", "int", "bigint", "numeric", "numeric(10,2)", "money", "real", "double precision", "boolean", "char(5)",
    "bpchar", '"char"', "name", "varchar(20)", "text", "bytea", "date", "time", "timetz", "timestamp", "timestamp(3)",
    "timestamptz", "interval", "uuid", "jsonb", "inet", "cidr", "macaddr", "macaddr8", "bit(3)", "varbit", "int4range",
    "numrange", "tstzrange", "int8multirange", "int[]", "text[]", "oid", "regclass", "pg_lsn", "xid8", "public.mood",
    "public.positive", "public.label", "public.place", "public.floatrange", "public.hstore", "public.citext",
    "public.vector(2)", "tsvector", "tsquery",
]  # fmt: skip
"""Types that a key can be of."""
EQUAL = {
    # Values of one type that a key takes for one, although they are shown differently.
    "numeric": {"1.0", "1.00", "0.00"},
    "real": {"-0"},
    "double precision": {"-0"},
    "bpchar": {" ", "a "},
    "interval": {"24:00:00", "30 days"},
    "numrange": {"[1.00,2)"},
    "jsonb": {'{"a": 1.0}'},
    "public.place": {"(1,a,-0)"},
    "public.floatrange": {"[-0,0.3)"},
    "public.citext": {"A"},
    "public.vector(2)": {"[-0,1]"},
}
"""These are left out of tables that have the type for a key."""

FOLDED = {
    # Values of one type with one canonical text.
    "numeric": {"1.0", "1.00", "0.00"},
    "real": {"-0"},
    "double precision": {"-0"},
}


def text(value: str | None) -> str:
    """The value as a literal."""
    return "NULL" if value is None else "E'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
