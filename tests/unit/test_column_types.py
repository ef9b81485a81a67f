"""Column types as logical types, and their types on other vendors."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.database.column_types import LogicalColumn
from sluice.database.schema import TypeDefinition
from sluice.database.translation import Translation, allows
from sluice.model.logical_type import ColumnType, Fit, Kind, LogicalType, Special, holds
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.mysql import column_types as mysql
from sluice.vendors.oracle import column_types as oracle
from sluice.vendors.postgres import column_types as postgres

PAGE = Path(__file__).resolve().parents[2] / "docs" / "types.md"
DEFINED = (
    TypeDefinition("public", "Mood", "e", None, None, ("sad", "ok"), None, "…"),
    TypeDefinition("public", "price", "d", None, None, None, "numeric(10,2)", "…"),
    TypeDefinition("public", "place", "c", None, None, None, "x integer", "…"),
)


def section(title: str) -> str:
    """A section of the page."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("smallint", LogicalType(Kind.INTEGER, 16)),
        ("numeric", LogicalType(Kind.NUMBER)),
        ("numeric(10,2)", LogicalType(Kind.NUMBER, 10, 2)),
        ("numeric(4,-2)", LogicalType(Kind.NUMBER, 4, -2)),
        ("character varying(20)", LogicalType(Kind.TEXT, length=20)),
        ("character varying", LogicalType(Kind.TEXT)),
        ("character(5)", LogicalType(Kind.CHAR, length=5)),
        ("timestamp(3) with time zone", LogicalType(Kind.TIMESTAMP_ZONE, 3)),
        ("time without time zone", LogicalType(Kind.TIME)),
        ("bit(3)", LogicalType(Kind.BITS, length=3)),
        ("bit varying", LogicalType(Kind.BITS, varying=True)),
        ("interval day to second(3)", LogicalType(Kind.INTERVAL, name="interval day to second(3)")),
        ("int8multirange", LogicalType(Kind.RANGE, name="int8multirange")),
        ("money", LogicalType(Kind.OTHER, name="money")),
        ('public."Mood"', LogicalType(Kind.ENUM, length=3, name='public."Mood"')),
        ("public.price", LogicalType(Kind.NUMBER, 10, 2)),
        ("public.place", LogicalType(Kind.COMPOSITE, name="public.place")),
        ("public.unknown", LogicalType(Kind.OTHER, name="public.unknown")),
    ],
)  # fmt: skip
def test_a_type_of_postgres_is_known_by_its_name(name: str, expected: LogicalType) -> None:
    assert postgres.logical(name, DEFINED) == expected


def test_an_array_knows_what_it_is_of() -> None:
    found = postgres.logical("numeric(6,2)[]")
    assert found.kind is Kind.ARRAY and found.element == LogicalType(Kind.NUMBER, 6, 2)


PLAIN = [
    *("smallint", "integer", "bigint", "numeric", "real", "double precision", "boolean", "text", "bytea", "date"),
    *("uuid", "json", "jsonb", "xml", "interval", "inet", "bit varying", "character varying"),
    *("timestamp with time zone", "time without time zone"),
]
POSTGRES_TYPES = st.one_of(
    st.sampled_from(PLAIN),
    st.builds("character varying({})".format, st.integers(1, 10_000)),
    st.builds("character({})".format, st.integers(1, 10_000)),
    st.builds("bit({})".format, st.integers(1, 100)),
    st.builds("timestamp({}) without time zone".format, st.integers(0, 5)),
    st.integers(1, 1_000).flatmap(lambda digits: st.builds(f"numeric({digits},{{}})".format, st.integers(0, digits))),
)


@given(POSTGRES_TYPES)
def test_a_type_of_postgres_that_others_know_comes_back_as_it_was(name: str) -> None:
    made = postgres.column_type(postgres.logical(name))
    assert made.type == ("text" if name == "character varying" else name)
    assert made.fit is Fit.EXACT


@pytest.mark.parametrize("mariadb", [True, False])
@given(name=POSTGRES_TYPES)
def test_a_mysql_type_that_loses_nothing_holds_all_values_of_the_type(name: str, mariadb: bool) -> None:
    """If the two types are of one kind: a text holds anything."""
    wanted = postgres.logical(name)
    made = mysql.column_type(wanted, mariadb=mariadb)
    if made.fit is Fit.EXACT:
        there = mysql.logical(made.type)
        named = wanted.kind in (Kind.FLOAT, Kind.UUID, Kind.BOOLEAN)
        assert there.kind in (Kind.TEXT, Kind.CHAR, Kind.TIMESTAMP) or named or holds(there, wanted), (wanted, there)
        if there.kind is Kind.TEXT and there.length is not None and wanted.length is not None:
            assert there.length >= wanted.length


@pytest.mark.parametrize("mariadb", [True, False])
@given(names=st.lists(POSTGRES_TYPES, min_size=1, max_size=8))
def test_a_key_of_mysql_never_exceeds_what_an_index_entry_holds(names: list[str], mariadb: bool) -> None:
    columns = [LogicalColumn(f"k{number}", postgres.logical(name), key=True) for number, name in enumerate(names)]
    made = mysql.made_of(columns, mariadb=mariadb)
    size = 0
    for column, each in zip(columns, made, strict=True):
        found = re.fullmatch(r"(varchar|varbinary)\((\d+)\)", each.type)
        assert each.type not in ("longtext", "longblob")
        size += int(found[2]) * (4 if found[1] == "varchar" else 1) if found else 64
        cut = found and (column.logical.length or 10**9) > int(found[2])
        if found and cut and column.logical.kind in (Kind.TEXT, Kind.BINARY):
            assert Special.TOO_LONG in each.excluded and each.length == int(found[2])
    assert size <= 3_072


def test_short_texts_of_a_key_leave_more_to_long_ones() -> None:
    names = ("character varying(10)", "text", "integer")
    columns = [LogicalColumn(name, postgres.logical(name), key=True) for name in names]
    short, long, whole = mysql.made_of(columns, mariadb=True)
    assert (short.type, long.type, whole.type) == ("varchar(10)", f"varchar({768 - 16 - 10})", "int")
    assert Special.TOO_LONG not in short.excluded and long.length == 742


def test_a_key_of_too_many_columns_is_refused() -> None:
    columns = [LogicalColumn(f"k{number}", LogicalType(Kind.TEXT), key=True) for number in range(800)]
    assert {each.fit for each in mysql.made_of(columns, mariadb=True)} >= {Fit.REFUSED}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tinyint(1)", LogicalType(Kind.BOOLEAN)),
        ("tinyint(4)", LogicalType(Kind.INTEGER, 8)),
        ("int(10) unsigned", LogicalType(Kind.INTEGER, 33)),
        ("bigint(20) unsigned", LogicalType(Kind.INTEGER, 65)),
        ("decimal(10,2)", LogicalType(Kind.NUMBER, 10, 2)),
        ("varchar(20)", LogicalType(Kind.TEXT, length=20)),
        ("char(36)", LogicalType(Kind.CHAR, length=36)),
        ("text", LogicalType(Kind.TEXT, length=16_383)),
        ("longtext", LogicalType(Kind.TEXT)),
        ("datetime(6)", LogicalType(Kind.TIMESTAMP, 6)),
        ("datetime", LogicalType(Kind.TIMESTAMP, 0)),
        ("timestamp", LogicalType(Kind.OTHER, name="timestamp")),
        ("enum('a','b)')", LogicalType(Kind.ENUM, name="enum('a','b)')")),
    ],
)  # fmt: skip
def test_a_type_of_mysql_is_known_by_its_name(name: str, expected: LogicalType) -> None:
    assert mysql.logical(name) == expected


def test_a_column_that_loses_something_is_refused_by_name_unless_it_is_allowed() -> None:
    table = TableName("public", "orders")
    made = {
        "id": ColumnType("bigint"),
        "tags": ColumnType("longtext", Fit.LOSSY, "of its array only the text is left"),
        "never": ColumnType("", Fit.REFUSED, "no index has as many columns"),
    }
    translation = Translation(TableShape(table, ()), made)
    assert translation.refusals(()) == [
        "public.orders.tags would be longtext, which loses something: of its array only the text is left; to have it "
        "so, name public.orders.tags under lossy_columns of the slave",
        "public.orders.never cannot be there: no index has as many columns; take the table out of `tables`",
    ]
    assert len(translation.refusals(("public.orders.*",))) == 1
    assert translation.lossy(()).keys() == {"public.orders.tags"} and translation.refused.keys() == {"never"}
    odd = TableName("public", "a[b]")
    assert allows(("public.a[b].c*d",), odd, "c*d"), "the name itself, whatever it holds"
    assert allows(("*",), table, "tags") and not allows(("public.orders.tag",), table, "tags")


def test_only_columns_that_may_not_lose_a_value_are_searched_for_one() -> None:
    made = {"f": ColumnType("double", excluded=frozenset({Special.NAN})), "i": ColumnType("int")}
    translation = Translation(TableShape(TableName("public", "t"), ()), made)
    assert list(translation.excluding(())) == ["f"]
    assert not translation.excluding(("public.t.f",))


def test_the_page_shows_what_the_code_makes_of_each_type() -> None:
    """The rows of its table: PostgreSQL's type, MariaDB's, MySQL's, Oracle's."""
    row = r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|"
    rows = re.findall(row, section("What PostgreSQL's types become"), re.MULTILINE)
    assert len(rows) > 25
    for name, on_mariadb, on_mysql, on_oracle in rows:
        wanted = postgres.logical(name, DEFINED)
        assert mysql.column_type(wanted, mariadb=True).type == on_mariadb, name
        assert mysql.column_type(wanted, mariadb=False).type == on_mysql, name
        assert oracle.column_type(wanted).type == on_oracle, name


def test_the_page_says_what_becomes_of_oracles_types() -> None:
    """The rows of its table: Oracle's type, PostgreSQL's, MariaDB's, MySQL's; what is said to be lossy is."""
    row = r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|(.*)"
    rows = re.findall(row, section("What Oracle's types become"), re.MULTILINE)
    assert len(rows) > 20
    for name, *expected, said in rows:
        wanted = oracle.logical(name)
        assert wanted.kind is not Kind.OTHER, name
        made = [postgres.column_type(wanted), *(mysql.column_type(wanted, mariadb=own) for own in (True, False))]
        assert [each.type for each in made] == expected, name
        lossy = [each.fit is Fit.LOSSY for each in made]
        named = "lossy on PostgreSQL" in said, *["lossy on MariaDB" in said] * 2
        assert lossy == ([True] * 3 if "lossy:" in said else list(named)), name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NUMBER(10,2)", LogicalType(Kind.NUMBER, 10, 2)),
        ("NUMBER(*,0)", LogicalType(Kind.NUMBER, 38, 0)),
        ("NUMBER", LogicalType(Kind.NUMBER)),
        ("VARCHAR2(20 CHAR)", LogicalType(Kind.TEXT, length=20)),
        ("RAW(16)", LogicalType(Kind.BINARY, length=16)),
        ("TIMESTAMP(9) WITH LOCAL TIME ZONE", LogicalType(Kind.TIMESTAMP_ZONE, precision=9)),
        ("DATE", LogicalType(Kind.TIMESTAMP, precision=0)),
        ("LONG RAW", LogicalType(Kind.BINARY)),
        ("INTERVAL YEAR(2) TO MONTH", LogicalType(Kind.INTERVAL)),
        ("SDO_GEOMETRY", LogicalType(Kind.OTHER, name="SDO_GEOMETRY")),
    ],
)
def test_a_type_of_oracle_is_known_by_its_name(name: str, expected: LogicalType) -> None:
    assert oracle.logical(name) == expected


def test_a_column_counted_in_bytes_holds_no_column_counted_in_characters() -> None:
    assert oracle.holds("VARCHAR2(20 CHAR)", "VARCHAR2(10 CHAR)")
    assert not oracle.holds("VARCHAR2(20 BYTE)", "VARCHAR2(10 CHAR)")
    assert oracle.holds("CLOB", "VARCHAR2(10 CHAR)") and not oracle.holds("VARCHAR2(10 CHAR)", "CLOB")


def test_a_key_of_oracle_has_no_lob_and_room_in_an_index() -> None:
    columns = [LogicalColumn(name, LogicalType(Kind.TEXT), key=True) for name in "abc"]
    made = oracle.of_table(columns)
    assert {each.type for each in made} == {"VARCHAR2(500 CHAR)"}
    assert all({Special.TOO_LONG, Special.EMPTY} <= each.excluded for each in made)
    (refused,) = oracle.of_table([LogicalColumn("j", LogicalType(Kind.JSON), key=True)])
    assert refused.fit is Fit.REFUSED
