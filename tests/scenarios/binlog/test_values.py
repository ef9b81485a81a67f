"""Values of every type come from the log as the server shows them, whatever the type."""

import random
import re
import subprocess
from collections.abc import Iterable
from dataclasses import replace

import pytest

from devstack.mariadb import program
from sluice.database import csv_rows
from sluice.database.change_log import Rows
from sluice.database.rows import RowFormat
from sluice.model.logical_type import ColumnType, Special
from sluice.model.names import TableName
from sluice.vendors.mysql import catalog
from sluice.vendors.mysql.binlog import columns, table_map
from sluice.vendors.mysql.binlog.charsets import UNICODE
from sluice.vendors.mysql.binlog.log import BinaryLog
from sluice.vendors.mysql.column_types import ColumnTexts
from sluice.vendors.mysql.connection import connect
from sluice.vendors.mysql.master.rows import LoggedRows
from tests.scenarios.binlog.master import Master

ROWS = LoggedRows()
COLUMNS = {
    "ti": ("tinyint", ["-128", "127", "NULL"]),
    "tu": ("tinyint unsigned", ["0", "255", "NULL"]),
    "flag": ("tinyint(1)", ["0", "1", "2"]),
    "si": ("smallint", ["-32768", "32767", "NULL"]),
    "su": ("smallint unsigned not null", ["0", "65535", "1"]),
    "mi": ("mediumint", ["-8388608", "8388607", "NULL"]),
    "mu": ("mediumint unsigned", ["0", "16777215", "NULL"]),
    "i": ("int not null", ["-2147483648", "2147483647", "0"]),
    "z": ("int(6) unsigned zerofill", ["42", "4294967295", "NULL"]),
    "bi": ("bigint not null", ["-9223372036854775808", "9223372036854775807", "0"]),
    "bu": ("bigint unsigned", ["0", "18446744073709551615", "NULL"]),
    "do": ("double", ["0.1", "-1.7976931348623157e308", "123456789012345"]),
    "dx": ("double not null", ["1e15", "0.0001", "5e-324"]),
    "de": ("decimal(65,38)", ["-123456789012345678901234567.12345678901234567890123456789012345678", "0", "1e-38"]),
    "d9": ("decimal(9,9)", ["0.123456789", "-0.000000001", "NULL"]),
    "d0": ("decimal(18,0)", ["-999999999999999999", "0", "1000000000"]),
    "b1": ("bit(1)", ["b'0'", "b'1'", "NULL"]),
    "b64": ("bit(64)", ["b'1'", "~0", "NULL"]),
    "y": ("year", ["1901", "2155", "0"]),
    "da": ("date", ["'0001-01-01'", "'9999-12-31'", "NULL"]),
    "t": ("time", ["'-838:59:59'", "'838:59:59'", "'-00:00:01'"]),
    "t3": ("time(3)", ["'-00:00:00.5'", "'23:59:59.999'", "'00:00:00'"]),
    "t6": ("time(6)", ["'-838:59:58.000001'", "'00:00:00.000001'", "NULL"]),
    "dt": ("datetime", ["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "NULL"]),
    "dt1": ("datetime(1)", ["'9999-12-31 23:59:59.9'", "'2026-01-01 00:00:00.1'", "NULL"]),
    "dt5": ("datetime(5)", ["'2026-11-29 01:02:03.00001'", "'2026-11-29 01:02:03.1'", "NULL"]),
    "ts": ("timestamp null", ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "NULL"]),
    "ts6": ("timestamp(6) null", ["'1970-01-01 00:00:00.000001'", "'2038-01-19 03:14:07.999999'", "NULL"]),
    "c": ("char(10)", ["'ch  '", "''", "'é€𝄞'"]),
    "c250": ("char(250)", ["repeat('𝄞', 250)", "''", "NULL"]),
    "v": ("varchar(20)", ["'a\\'<&>\"\\\\b'", "' x '", "'line\nline\ttab'"]),
    "v300": ("varchar(300)", ["repeat('é', 300)", "''", "NULL"]),
    "l1": ("varchar(300) character set latin1", ["'ÿ€'", "x'818D8F909D'", "NULL"]),
    "u16": ("varchar(20) character set utf16", ["'𝄞a'", "''", "NULL"]),
    "u2": ("varchar(20) character set ucs2", ["'é'", "''", "NULL"]),
    "u32": ("text character set utf32", ["'𝄞'", "''", "NULL"]),
    "bn": ("binary(8)", ["x'0100'", "x'0000000000000000'", "NULL"]),
    "vb": ("varbinary(300)", ["x'000100'", "''", "repeat(x'ff', 300)"]),
    "tt": ("tinytext", ["'tiny'", "''", "NULL"]),
    "tx": ("text", ["repeat('x', 60000)", "''", "NULL"]),
    "lt": ("longtext", ["repeat('é', 70000)", "''", "NULL"]),
    "bl": ("mediumblob", ["repeat(x'ff00', 40000)", "''", "NULL"]),
    "js": ("json", ["'{\"a\": 1.0}'", "'null'", "NULL"]),
    "en": ("enum('v1','it''s','ü,x')", ["'ü,x'", "'it''s'", "NULL"]),
    "se": ("set('x','y','ü')", ["'x,ü'", "''", "NULL"]),
    "uu": ("uuid", ["'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'", "uuid()"]),
    "i6": ("inet6", ["'::1'", "'::ffff:1.2.3.4'", "'2001:db8::ff00:42:8329'"]),
    "i4": ("inet4", ["'1.2.3.4'", "'255.255.255.255'", "NULL"]),
    "vc": ("varchar(1000) compressed", ["repeat('cé', 200)", "'short'", "NULL"]),
    "bc": ("blob compressed", ["repeat('b', 500)", "''", "NULL"]),
    "inv": ("int invisible", ["5", "NULL", "-1"]),
}
"""Each type with three values, as SQL."""


def read(master: Master, *statements: str) -> list[Rows]:
    """The rows that the statements log."""
    with BinaryLog(master.info, master.wants, application="test") as log:
        before = log.end()
        master.run(*statements)
        found = []
        for transaction in log.read(before, waits=False):
            if transaction is not None:
                found += [part for part in transaction.parts if isinstance(part, Rows)]
        return found


def made(master: Master, names: Iterable[str]) -> list[str]:
    """Creates a table of these columns; the statements that insert its rows."""
    columns = ", ".join(f"{name} {COLUMNS[name][0]}" for name in names)
    master.run(
        "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', NAMES utf8mb4",
        f"CREATE OR REPLACE TABLE t (id int primary key, {columns}, g int AS (id + 1) VIRTUAL, "
        "s int AS (id + 2) STORED) CHARACTER SET utf8mb4",
    )
    rows = [", ".join(COLUMNS[name][1][number] for name in names) for number in range(3)]
    return [f"INSERT INTO t (id, {', '.join(names)}) VALUES ({number}, {row})" for number, row in enumerate(rows)]


def test_every_type_comes_as_the_server_shows_it(master: Master) -> None:
    logged = read(master, *made(master, COLUMNS))
    got = [row for part in logged for row in part.rows]
    query = "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = DATABASE()"
    types = dict(master.run(query))
    for name in COLUMNS:
        # A number is one whatever its display.
        numbers = {"tinyint(1)": "smallint", "int(6) unsigned zerofill": "bigint"}
        column = ColumnTexts(name, numbers.get(types[name], types[name]))
        shown = column.text("t", zoned=types[name].startswith("timestamp")).replace('"', "`")
        shown = f"t.{name} + 0" if name in ("y", "z") else shown
        expected = [column.shown(text) for (text,) in master.run(f"SELECT CAST({shown} AS CHAR) FROM t ORDER BY id")]
        assert [row[name] for row in got] == expected, name
    assert not {"g", "s"} & got[0].keys(), "each database computes generated columns itself"


def test_rows_that_are_read_have_the_texts_of_the_log(master: Master) -> None:
    master.run("CREATE TABLE f (id int primary key, f float)")
    floats = ["0.1", "-3.4028234e38", "16777216", "1.17549e-38", "0.333333343", "0", "NULL"]
    values = ", ".join(f"({number}, {value})" for number, value in enumerate(floats))
    logged = {part.table.table.name: part for part in read(master, f"INSERT INTO f VALUES {values}")}
    every = read(master, *made(master, COLUMNS))
    with connect(master.info, application="test") as session:
        for table, expected in (("f", logged["f"].rows), ("t", [row for part in every for row in part.rows])):
            shape = catalog.shape(session, TableName("public", table))
            assert shape is not None
            query = ROWS.key_order(session, shape).select(shape.replicated, None, None, canonical=True)
            stream = ROWS.stream(session, query, RowFormat.CSV)
            lines = csv_rows.tables(stream, [column.name for column in shape.replicated])
            assert [row for part in lines for row in part.to_pylist()] == expected


def test_log_and_catalogue_describe_a_table_alike(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in COLUMNS if name not in ("vc", "bc")]
    statements = made(master, names)
    with BinaryLog(master.info, master.wants, application="test") as log:
        (of_catalogue,) = log.tables()
    # As where the catalog is newer: the table was altered again since.
    monkeypatch.setattr(columns, "agrees", lambda *_: False)
    (part,) = read(master, statements[0])
    assert not part.table.certain
    of_log = {column.name: column for column in part.table.columns}
    expected = {column.name: replace(column, generated="") for column in of_catalogue.columns}
    assert {name for name in expected if of_log[name] != expected[name]} == {"uu", "i4", "i6"}


def test_each_column_has_its_own_collation_whatever_lies_between(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = [type_ for type_, _ in COLUMNS.values()]
    types += [f"varchar(9) character set {name}" for name in ("latin1", "latin2", "utf8mb3", "cp1251")]
    types += ["geometry", "point not null", "polygon", "enum('a') character set latin2", "set('b') collate utf8mb4_bin"]
    parsed: list[table_map.TableMap] = []
    parse = table_map.parse

    def noted(data: bytes) -> table_map.TableMap:
        parsed.append(parse(data))
        return parsed[-1]

    monkeypatch.setattr(table_map, "parse", noted)
    chance = random.Random(1)
    for number in range(15):
        chosen = chance.sample(types, 12)
        names = [f"c{place}" for place in range(len(chosen))]
        columns = ", ".join(map(" ".join, zip(names, chosen, strict=True)))
        master.run("SET sql_mode = ''", f"CREATE OR REPLACE TABLE m{number} ({columns})")
        read(master, f"INSERT IGNORE INTO m{number} () VALUES ()")
        expected = master.rows(
            "SELECT column_name, id FROM information_schema.columns JOIN information_schema.collations USING "
            "(collation_name) WHERE table_schema = database() AND table_name = %s ORDER BY ordinal_position",
            f"m{number}",
        )  # fmt: skip
        of_log = {column.name: column.collation for column in parsed[-1].columns}
        uncertain = {name for name, type_ in zip(names, chosen, strict=True) if "compressed" in type_}
        assert [(name, of_log[name]) for name, _ in expected if name not in uncertain] == [
            entry for entry in expected if entry[0] not in uncertain
        ]


@pytest.mark.parametrize("value", ["0.1", "-3.4028234e38", "16777216", "1.17549e-38", "0.333333343", "1e-45"])
def test_a_float_comes_with_the_digits_that_name_it(master: Master, value: str) -> None:
    master.run("CREATE TABLE t (id int primary key, f float)")
    (part,) = read(master, f"INSERT INTO t VALUES (1, {value})")
    assert master.run(f"SELECT count(*) FROM t WHERE f = CAST({part.rows[0]['f']} AS FLOAT)") == [(1,)]


def test_texts_of_all_character_sets_are_read_or_refused_by_name(master: Master) -> None:
    query = "SELECT character_set_name, maxlen FROM information_schema.character_sets"
    charsets = {name: size for name, size in master.run(query) if name != "binary"}
    single = [name for name, size in charsets.items() if size == 1]
    own = ", ".join(f"{name} varchar(300) character set {name}" for name in single)
    master.run("SET sql_mode = ''", f"CREATE TABLE t (id int primary key, {own})")
    every = {name: bytes(range(1, 128 if name in ("ascii", "swe7") else 256)).hex() for name in single}
    values = ", ".join(f"x'{every[name]}'" for name in single)
    (part,) = read(master, f"INSERT INTO t VALUES (1, {values})")
    for name in single:
        assert [(part.rows[0][name],)] == master.run(f"SELECT CONVERT({name} USING utf8mb4) FROM t"), name
    refused = [name for name, size in charsets.items() if size > 1 and name not in UNICODE]
    for name in refused:
        master.run(f"CREATE TABLE m_{name} (id int primary key, c varchar(3) character set {name})")
    master.record()
    master.run(*(f"INSERT INTO m_{name} VALUES (1, 'a')" for name in refused))
    told = {change["table"][1]: change["reason"] for change in master.record() if change["change"] == "differ"}
    assert told.keys() == {f"m_{name}" for name in refused}
    assert all(f"column c has the character set {table[2:]}" in reason for table, reason in told.items())


def test_rows_larger_than_a_packet_and_compressed_rows_come_whole(master: Master) -> None:
    master.run("CREATE TABLE t (id int primary key, v longtext)")
    (part,) = read(master, "INSERT INTO t VALUES (1, repeat('0123456789abcdef', 1250000))")
    assert part.rows[0]["v"] == "0123456789abcdef" * 1_250_000
    master.run("SET GLOBAL log_bin_compress = 1, GLOBAL log_bin_compress_min_len = 10")
    try:
        statements = ["INSERT INTO t VALUES (2, repeat('a', 300))", "UPDATE t SET v = repeat('b', 300) WHERE id = 2"]
        parts = read(master, *statements, "DELETE FROM t WHERE id = 2")
    finally:
        master.run("SET GLOBAL log_bin_compress = 0")
    before, after = {"id": "2", "v": "a" * 300}, {"id": "2", "v": "b" * 300}
    assert [part.rows for part in parts] == [[before], [(before, after)], [after]]


def test_values_that_other_databases_lack_come_as_they_are(master: Master) -> None:
    master.run("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
    master.run(
        "CREATE TABLE t (id int primary key, d date, m datetime, s timestamp, e enum('a'), n varchar(9) DEFAULT 'M')"
    )
    (part,) = read(master, "INSERT INTO t VALUES (1, '0000-00-00', '2026-00-31 00:00:00', 0, 'none', NULL)")
    zeros = {"d": "0000-00-00", "m": "2026-00-31 00:00:00", "s": "0000-00-00 00:00:00+00"}
    assert part.rows == [{"id": "1", **zeros, "e": "", "n": None}]


@pytest.mark.parametrize(
    ("column", "value", "special"),
    [
        ("varchar(40)", "repeat('é', 11)", Special.TOO_LONG),
        ("varbinary(40)", "repeat('x', 11)", Special.TOO_LONG),
        ("text", "concat('a', char(0))", Special.ZERO_CHARACTER),
        ("char(9) character set latin1", "''", Special.EMPTY),
        ("date", "'0000-01-01'", Special.BEFORE_YEAR_1),
    ],
)
def test_a_row_that_a_slave_cannot_hold_is_found_with_its_key(
    master: Master, column: str, value: str, special: Special
) -> None:
    master.run("SET sql_mode = ''", f"CREATE TABLE t (a int, b varchar(9), c int, v {column}, PRIMARY KEY (b, a))")
    master.run("INSERT INTO t VALUES (1, 'x', 0, NULL), (2, 'é', 0, '2026-01-02')")
    wanted = {
        "c": ColumnType("", excluded=frozenset({special})),
        "v": ColumnType("", excluded=frozenset({special}), length=10),
    }
    with connect(master.info, application="test") as session:
        shape = catalog.shape(session, TableName("public", "t"))
        assert shape is not None
        assert ROWS.special(session, shape, wanted) is None
        master.run(f"INSERT INTO t VALUES (3, 'ü', 0, {value})")
        assert ROWS.special(session, shape, wanted) == ("v", special, {"b": "ü", "a": "3"})


def test_as_many_rows_come_as_mariadb_binlog_prints(master: Master) -> None:
    master.run("CREATE TABLE t (id int primary key, v int)", "FLUSH BINARY LOGS")
    parts = read(
        master,
        "INSERT INTO t SELECT seq, seq FROM seq_1_to_3000",
        "UPDATE t SET v = -v WHERE id % 2",
        "DELETE FROM t WHERE id % 3 = 0",
        "UPDATE t SET id = -id ORDER BY id DESC",
    )
    (file, *_), *_ = master.run("SHOW MASTER STATUS")
    arguments = [str(program("mariadb-binlog")), "-v", "--base64-output=decode-rows", str(master.server.data / file)]
    text = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    printed = [
        line.split(" ", 1)[1] for line in text.splitlines() if re.match(r"### (INSERT INTO|UPDATE|DELETE FROM) ", line)
    ]
    values = re.findall(r"^###   @(\d)=(-?\d+)", text, re.MULTILINE)
    words = {"insert": "INSERT INTO", "update": "UPDATE", "delete": "DELETE FROM"}
    assert printed == [f"{words[part.action]} `{master.database}`.`t`" for part in parts for _ in part.rows]
    images = [image for part in parts for row in part.rows for image in (row if part.action == "update" else [row])]
    assert [value for _, value in values] == [value for image in images for value in image.values()]
