"""Values for `type_zoo`: for each column the extremes of its type, and random ones.

Values are texts that PostgreSQL's input functions read, or None. Their names are those of the columns without `c_`.
"""

import base64
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

import psycopg

Value = str | None

TEXTS: tuple[str, ...] = (
    "", " ", "  leading and trailing  ", "null", "NULL", "\\N", "\\.", "''", "'; DROP TABLE orders; --", '"quoted"',
    'it\'s "both"',
    "back\\slash\\", "a,b;c\td|e", "line\nfeed", "carriage\rreturn", "both\r\n", "\t", "\n", "]]>", "a]]>b]]>", "]]",
    "]]&gt;",
    "<col name=\"x\">y</col>", "</col>", "<![CDATA[x]]>", "&amp;", "a & b < c > d", 'type="null"', "".join(map(chr,
    range(1, 32))),
    "\x7f", "\x80\x85\x9f", "\u2028\u2029", "\ufeffbom", "\ufffe\uffff",
    "Grüße, Żółć, Ελλάδα, Москва, 日本語, עברית, العربية",
    "😀👩‍👩‍👧‍👦🏴‍☠️", "e\u0301 is not é", "%s %(x)s %% {0} {} ${prefix} $1 :name ?", "0", "true", "1e5", "\\x00", "{}",
    "{NULL}", "(,)", "[]",
    base64.b64encode(b"looks encoded").decode(), "x" * 2000,
)  # fmt: skip
"""Texts that break wrong quoting, escaping, CSV, COPY, XML, CDATA and drivers' placeholders."""


def array(*items: Value) -> str:
    """Returns the literal of an array of texts."""
    return "{" + ",".join("NULL" if item is None else _quoted(item, escape="\\") for item in items) + "}"


def record(*fields: Value) -> str:
    """Returns the literal of a composite value."""
    return "(" + ",".join("" if field is None else _quoted(field, escape='"') for field in fields) + ")"


def _quoted(text: str, escape: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', escape + '"') + '"'


DIGITS = "1234567890" * 10
NUMERICS = (
    "0", "-0", "1.10", "1.1000", "NaN", "Infinity", "-Infinity", DIGITS, "-" + DIGITS, f"0.{'0' * 99}1",
    f"{DIGITS}.{DIGITS}", "1e1000",
    "0.1", "-99999.99999",
)  # fmt: skip
DOUBLES = (
    "0", "-0", "NaN", "Infinity", "-Infinity", "4.9e-324", "2.2250738585072014e-308", "1.7976931348623157e308", "0.1",
    "1e15", "1e-5",
    "123456789.12345679", "0.30000000000000004",
)  # fmt: skip
TIMESTAMPS = (
    "infinity", "-infinity", "4713-11-24 00:00:00 BC", "0001-01-01 00:00:00", "0001-12-31 23:59:59.999999 BC",
    "294276-12-31 23:59:59.999999",
    "1582-10-10 10:10:10", "2024-02-29 23:59:59.999999", "1970-01-01 00:00:00", "2000-01-01 00:00:00.000001",
    "9999-12-31 24:00:00",
)  # fmt: skip
TIMESTAMPTZS = (
    *(text if "infinity" in text else text.replace(" BC",
    "+00 BC") if "BC" in text else text + "+00" for text in TIMESTAMPS),
    "2024-03-31 02:30:00 Europe/Berlin", "2024-10-27 02:30:00+01", "1900-01-01 00:00:00+00:19:32",
    "2024-06-01 12:00:00-15:59",
)  # fmt: skip
DATES = (
    "infinity",
    "-infinity",
    "4713-11-24 BC",
    "0001-01-01",
    "5874897-12-31",
    "1582-10-10",
    "2024-02-29",
    "1970-01-01",
    "10000-01-01",
)
JSONS = (
    "null", "true", '""', "{}", "[]", "0", "-0", "1.10", "1e10", "12345678901234567890.123456789",
    '{"b":1,  "a" : [1,2 ,3]}',
    '{"k": {"deep": [null, {"x": "]]>"}]}}', json.dumps({"text": "\n\t\"\\/<&>]]>", "emoji": "😀"}),
    '"\\ud83d\\ude00"', '{"": ""}', '[[[[]]]]',
)  # fmt: skip
MOODS = ("sad", "so so", "happy", 'It\'s "great"', "Ünïcode ☃", "]]>")
MIXED = ("zz top", "Aa", "", "null", "a,b", "{x}")

EXTREMES: Mapping[str, tuple[Value, ...]] = {
    "smallint": ("0", "-32768", "32767"),
    "integer": ("0", "-2147483648", "2147483647"),
    "bigint": ("0", "-9223372036854775808", "9223372036854775807"),
    "numeric": NUMERICS,
    "numeric_scaled": ("0", "NaN", "0.0000000001", "99999999999999999999.9999999999",
    "-99999999999999999999.9999999999", "1.10"),
    "numeric_negative_scale": ("123456", "999999000", "-1000", "0", "NaN"),
    "real": ("0", "-0", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38", "0.1", "16777217", "1.1754944e-38"),
    "double": DOUBLES,
    "money": ("0", "-92233720368547758.08", "92233720368547758.07", "0.01", "-1234.50", "1234567.89"),
    "boolean": ("t", "f"),
    "char": ("", "a", "a         ", " lead", "]]>", "ßßßßßßßßßß", "😀"),
    "char_internal": ("", "a", " ", "'", '"', "\\", "\\377", "\\001", "<", "&"),
    "varchar": TEXTS,
    "text": TEXTS,
    "text_c": TEXTS,
    "name": ("", "a", "x" * 63, "ß" * 31, 'Odd "Name"', "]]>", "tab\there"),
    "bytea": ("\\x", "\\x00", "\\x" + bytes(range(256)).hex(), "\\xff00ff", "\\x5d5d3e", "\\x" + "00" * 3000),
    "date": DATES,
    "time": ("00:00:00", "24:00:00", "23:59:59.999999", "00:00:00.000001", "12:34:56.7"),
    "time_short": ("00:00:00", "24:00:00", "23:59:59.99", "12:34:56.7"),
    "timetz": ("00:00:00+00", "24:00:00-15:59", "00:00:00+15:59:59", "23:59:59.999999+05:45", "12:00:00-00:00:01"),
    "timestamp": TIMESTAMPS,
    "timestamptz": TIMESTAMPTZS,
    "timestamptz_short": ("infinity", "-infinity", "2024-02-29 12:00:00+00", "4713-11-24 00:00:00+00 BC"),
    "interval": (
        "0", "178000000 years", "-178000000 years", "1 mon -1 day +00:00:00.000001",
        "-1 years +2 mons -3 days +04:05:06",
        "1 day", "24 hours", "-00:00:00.000001", "1 year 12 months",
    ),
    "interval_infinite": ("infinity", "-infinity", "2562047788 hours"),
    "interval_limited": ("0", "1 day 02:03:04.567", "-99999 days", "-23:59:59.999"),
    "uuid": (str(uuid.UUID(int=0)), str(uuid.UUID(int=2**128 - 1)), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "inet": ("0.0.0.0/0", "255.255.255.255", "10.1.2.3/8", "::", "::ffff:1.2.3.4", "fe80::1/64",
    "2001:db8::8:800:200c:417a/127"),
    "cidr": ("0.0.0.0/0", "10.0.0.0/8", "192.168.1.1/32", "::/0", "2001:db8::/32", "::1/128"),
    "macaddr": ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "08:00:2b:01:02:03"),
    "macaddr8": ("00:00:00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff", "08:00:2b:ff:fe:01:02:03"),
    "bit": ("00000000", "11111111", "01010101"),
    "varbit": ("", "0", "1", "10" * 300),
    "json": (*JSONS, '"\\u0000"', '{"a":1,"a":2}', ' {"spaces" :\n [ 1 , 2 ] }\t'),
    "jsonb": JSONS,
    "jsonpath": ("$", "$.*", '$."a b"[*] ? (@ > 1)', "strict $.a[last]", '$.x like_regex "^]]>" flag "i"',
    "lax $.**{2 to 5}"),
    "xml": ("", "<a/>", "<a b=\"c\">d</a>", "text &amp; <![CDATA[ ]] ]]>", "<!-- c --><x>ü</x>"),
    "tsvector": ("", "'a':1A 'b':2,3B", "'it''s' 'x\\\\y' ']]>'", "'word':16383", "'é' '😀':5"),
    "tsquery": ("", "'a' & !'b'", "'x' <-> 'y' | 'z':*AB", "']]>' <3> 'it''s'"),
    "point": ("(0,0)", "(-0,1e-320)", "(NaN,Infinity)", "(-Infinity,1.7976931348623157e308)", "(0.1,0.2)"),
    "line": ("{1,-1,0}", "{0,1,-5.5}", "{1e300,2,3}"),
    "lseg": ("[(0,0),(1,1)]", "[(-1.5,2),(NaN,Infinity)]"),
    "box": ("(1,1),(0,0)", "(Infinity,1),(-Infinity,0)", "(0,0),(0,0)"),
    "path": ("((0,0),(1,1))", "[(0,0),(1,1),(2,0.1)]", "[(5,5)]"),
    "polygon": ("((0,0),(1,1),(2,0))", "((0.1,0.2))"),
    "circle": ("<(0,0),0>", "<(1e300,-1e-300),5>", "<(0.1,0.2),Infinity>"),
    "int4range": ("empty", "(,)", "[1,10)", "[-2147483648,2147483647)", "(,5)", "[5,)"),
    "int8range": ("empty", "(,)", "[-9223372036854775808,9223372036854775807)"),
    "numrange": ("empty", "(,)", "(1.10,2.200]", "[-Infinity,NaN]", "[0,0]"),
    "tsrange": ("empty", "(,)", '["2020-01-01 00:00:00",infinity]', '("4713-11-24 00:00:00 BC",)',
    "[-infinity,infinity)"),
    "tstzrange": ("empty", "(,)", '["2020-01-01 00:00:00+05:30","2021-01-01 00:00:00+00")', "[-infinity,infinity]"),
    "daterange": ("empty", "(,)", "[2024-02-29,2024-03-01)", "[-infinity,infinity)"),
    "float_range": ("empty", "(,)", "[-Infinity,NaN]", "(0.1,0.30000000000000004]", "[-0,0]"),
    "int4multirange": ("{}", "{[1,3),[5,9)}", "{(,)}", "{(,-5),[0,1),[7,)}"),
    "nummultirange": ("{}", "{(0.1,0.20],[1.0,2]}", "{[-Infinity,0),(0,NaN]}"),
    "tstzmultirange": ("{}",
    '{["2020-01-01 00:00:00+00","2020-01-02 00:00:00+00"),["2021-01-01 00:00:00+00",infinity]}'),
    "int_array": ("{}", "{1,NULL,3}", "[0:2]={7,8,9}", "[-5:-4]={-1,0}", "{{1,2},{3,4}}",
    "[2:3][-1:0]={{1,2},{3,NULL}}"),
    "text_array": ("{}", array(None, "NULL", "", " ", "a,b", '"', "\\", "{}", "]]>", "\n"), "{{a,b},{c,d}}",
    array(*TEXTS)),
    "numeric_array": ("{}", "{NaN,NULL,1.10,-99999.99999}"),
    "timestamptz_array": ("{}", array("infinity", None, "2024-02-29 12:00:00+00", "0044-03-15 12:00:00+00 BC")),
    "bytea_array": ("{}", array("\\x", "\\x00ff", None)),
    "jsonb_array": ("{}", array("null", None, '{"a": "]]>"}', '"quote \\" inside"')),
    "box_array": ("{}", "{(1,1),(0,0);(2,2),(1,1)}"),
    "matrix": ("{}", "{{1,2,3},{4,5,6}}", "{{{1},{2}},{{3},{NULL}}}"),
    "enum": MOODS,
    "enum_mixed": MIXED,
    "enum_array": ("{}", array(*MOODS, None)),
    "domain": ("0", "100", "0.01", "99.99"),
    "domain_odd": ("", "a", "]]>", "FORBIDDEN"),
    "composite": ("(,,,)", record("", "0", "{}", "infinity"), record('Str"eet\\, (x)', "-1", array("a", None, '"'),
    "2024-02-29")),
    "composite_nested": ("(,)", record("a,b", record("x y", "5", array(*MIXED), "-infinity")), record("", "(,,,)"),
    record("null", None)),
    "composite_array": ("{}", array(record("a", "1", None, None), None, record('"', None, "{}", "0001-01-01"))),
    "hstore": ("", '"a"=>"1", "b"=>NULL', '"q\\"uote"=>"]]>", ""=>"", "NULL"=>"NULL", "a=>b"=>"c,d"'),
    "pg_lsn": ("0/0", "FFFFFFFF/FFFFFFFF", "16/B374D848"),
    "pg_snapshot": ("10:20:10,14,15", "1:1:", "9223372036854775806:9223372036854775806:"),
    "xid8": ("0", "18446744073709551615", "4294967296"),
    "oid": ("0", "4294967295", "2147483648"),
    "tid": ("(0,0)", "(4294967295,65535)"),
    "int2vector": ("", "1 2 3", "-32768 32767"),
    "regtype": ("integer", "timestamp with time zone", '"char"', "-", "text[]"),
}  # fmt: skip

RANDOM: Mapping[str, Callable[[Random], str]] = {
    "smallint": lambda random: str(random.randint(-32768, 32767)),
    "integer": lambda random: str(random.randint(-(2**31), 2**31 - 1)),
    "bigint": lambda random: str(random.randint(-(2**63), 2**63 - 1)),
    "numeric": lambda random: f"{random.randint(-(10**40), 10**40)}.{random.randint(0, 10**20)}",
    "real": lambda random: repr(random.gauss(0, 1e6)),
    "double": lambda random: repr(random.gauss(0, 1e100)),
    "varchar": lambda random: _text(random)[:2000],
    "text": lambda random: _text(random),
    "bytea": lambda random: "\\x" + random.randbytes(random.randint(0, 200)).hex(),
    "timestamptz": lambda random: (
        f"{random.randint(1, 9999):04}-0{random.randint(1, 9)}-11 01:02:03.{random.randint(0, 999999):06}+00"
    ),
    "uuid": lambda random: str(uuid.UUID(int=random.getrandbits(128))),
    "jsonb": lambda random: json.dumps({_text(random)[:20]: [random.random(), _text(random)] for _ in range(3)}),
    "int_array": lambda random: "{" + ",".join(str(random.randint(-9, 9)) for _ in range(random.randint(0, 20))) + "}",
    "text_array": lambda random: array(*random.choices(TEXTS, k=random.randint(0, 5))),
    "domain": lambda random: str(random.randint(0, 10000) / 100),
}

TYPED_ELSEWHERE = frozenset(
    {"numeric_scaled", "numeric_negative_scale", "real", "double", "date", "timestamp", "timestamptz"}
    | {"timestamptz_short"}
)
"""Columns that are numbers and times on other vendors, too. Columns of other types are texts there."""
_POSTGRES_ONLY = re.compile(r"nan|infinity|BC|^\d{5,}-|^9999-12-31 24", re.IGNORECASE)

LARGE = 100_000
"""Characters of the occasional large text. It goes to TOAST and compresses badly."""


def _text(random: Random) -> str:
    if random.random() < 0.01:
        return base64.b85encode(random.randbytes(LARGE * 4 // 5)).decode()
    alphabet = "abc XYZ'\"\\<>&]%;,\t\nßé😀"
    return "".join(random.choices(alphabet, k=random.randint(0, 60)))


def portable(value: Value) -> bool:
    """Whether other vendors can store this number or time: no NaN, no infinity, years 1 to 9999."""
    return value is None or _POSTGRES_ONLY.search(value) is None


def extremes(column: str, only_portable: bool = False) -> tuple[Value, ...]:
    """Returns the extremes of a column; with `only_portable` those that other vendors can store."""
    name = column.removeprefix("c_")
    values = EXTREMES[name]
    return tuple(filter(portable, values)) if only_portable and name in TYPED_ELSEWHERE else values


def value(random: Random, column: str, only_portable: bool = False) -> Value:
    """Returns a value for one column: one in ten is NULL, most of the others are extreme."""
    name = column.removeprefix("c_")
    drawn = random.random()
    if drawn < 0.1:
        return None
    if name in RANDOM and drawn < 0.4:
        return RANDOM[name](random)
    return random.choice(extremes(column, only_portable))


def columns(connection: psycopg.Connection[Any]) -> list[str]:
    """Returns the columns of `type_zoo` that get values from here, in the table's order."""
    rows = connection.execute(
        "SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = 'public.type_zoo'::regclass AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' AND attname ~ '^c_' AND attname <> 'c_default' ORDER BY attnum"
    ).fetchall()
    return [str(name) for (name,) in rows]


def row(random: Random, columns: Iterable[str], only_portable: bool = False) -> dict[str, Value]:
    """Returns a value for each of the columns."""
    return {column: value(random, column, only_portable) for column in columns}


def first_rows(columns: Iterable[str], only_portable: bool = False) -> list[dict[str, Value]]:
    """Returns a row of NULLs, and rows with every extreme of every column."""
    values = {column: extremes(column, only_portable) for column in columns}
    rows: list[dict[str, Value]] = [dict.fromkeys(values)]
    for number in range(max(map(len, values.values()))):
        rows.append({column: of_column[number % len(of_column)] for column, of_column in values.items()})
    return rows
