"""The canonical text of a value: as docs/types.md specifies, and a valid value of its column's type."""

from collections.abc import Callable

import pytest

from sluice.database.digests import Method, compared
from sluice.model.connection import ConnectionInfo
from sluice.model.logical_type import Kind, LogicalType
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog, column_types
from sluice.vendors.postgres.canonical import canonical
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.digester import PostgresDigester
from tests.features import values_there
from tests.scenarios.verify.values import PREPARE, TYPES, VECTOR, text

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
TEXTS = [
    ("integer", "-7", "-7"),
    ("numeric(10,2)", "1.5", "1.50"),
    ("numeric(10,2)", "NaN", "NaN"),
    ("numeric", "1.500", "1.5"),
    ("numeric", "100", "100"),
    ("double precision", "0.25", "25E-2"),
    ("double precision", "1500", "15E2"),
    ("double precision", "-1e300", "-1E300"),
    ("double precision", "5e-324", "5E-324"),
    ("double precision", "-0", "0"),
    ("double precision", "1.2345678901234567e+20", "12345678901234567E4"),
    ("double precision", "-Infinity", "-Infinity"),
    ("real", "0.1", "1E-1"),
    ("boolean", "t", "true"),
    ("character(5)", "a ", "a"),
    ("character varying(5)", "a ", "a "),
    ("bytea", "\\x00FF", "\\x00ff"),
    ("date", "2024-02-29", "2024-02-29"),
    ("date", "infinity", "infinity"),
    ("date", "0044-03-15 BC", "0044-03-15 BC"),
    ("time", "24:00:00", "24:00:00.000000"),
    ("timestamp", "2024-02-29 12:00:00.5", "2024-02-29 12:00:00.500000"),
    ("timestamp", "0044-03-15 12:00:00 BC", "0044-03-15 12:00:00 BC"),
    ("timestamp", "10000-01-01", "10000-01-01 00:00:00.000000"),
    ("timestamptz", "2024-02-29 23:00:00-02", "2024-03-01 01:00:00.000000"),
    ("timestamptz", "-infinity", "-infinity"),
    ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("bit(3)", "101", "101"),
    ("json", '{"b": 1.10,  "a": 2}', '{"b": 1.10,  "a": 2}'),
    ("interval", "1 year 2 days 00:00:00.5", "1 year 2 days 00:00:00.5"),
]


@pytest.mark.releases
def test_each_type_has_the_text_that_the_page_says(database: Callable[..., ConnectionInfo]) -> None:
    with connect(database(), application="test", autocommit=True) as connection:
        for kind, value, expected in TEXTS:
            name = connection.execute(f"SELECT format_type(to_regtype('{kind}'), NULL)".encode()).fetchone()
            assert name is not None
            own = kind if "(" in kind else name[0]
            expression = canonical(own, column_types.logical(own), f"{text(value)}::{kind}")
            assert connection.execute(f"SELECT {expression}".encode()).fetchone() == (expected,), (kind, value)


@pytest.mark.parametrize(
    ("own", "wanted", "value", "expected"),
    [
        ("boolean", LogicalType(Kind.INTEGER, 8), "t", "1"),
        ("uuid", LogicalType(Kind.CHAR, length=36), UUID, UUID),
        ("timestamp with time zone", LogicalType(Kind.TIMESTAMP, 6), "2024-01-01+01", "2023-12-31 23:00:00.000000"),
        ("date", LogicalType(Kind.TIMESTAMP, 0), "2024-01-01", "2024-01-01 00:00:00.000000"),
        ("integer", LogicalType(Kind.NUMBER, 20, 2), "7", "7.00"),
        ("real", LogicalType(Kind.FLOAT, 64), "0.1", "1E-1"),
        ("numeric", LogicalType(Kind.TEXT), "1.500", "1.500"),
        ("jsonb", LogicalType(Kind.TEXT), '{"a":1}', '{"a": 1}'),
        ("integer[]", LogicalType(Kind.TEXT), "{1,NULL}", "{1,NULL}"),
    ],
)  # fmt: skip
def test_a_value_is_compared_as_the_type_that_the_slave_has(
    database: Callable[..., ConnectionInfo], own: str, wanted: LogicalType, value: str, expected: str
) -> None:
    with connect(database(), application="test", autocommit=True) as connection:
        expression = canonical(own, wanted, f"{text(value)}::{own}")
        assert connection.execute(f"SELECT {expression}".encode()).fetchone() == (expected,)


@pytest.mark.releases
def test_a_canonical_text_is_a_value_of_the_column_with_the_same_text(database: Callable[..., ConnectionInfo]) -> None:
    with connect(database(), application="test", autocommit=True) as connection:
        types = {kind: values_there(connection, kind, values) for kind, values in TYPES.items()}
        connection.execute((PREPARE + (VECTOR if types["public.vector(2)"] else "")).encode())
        for number, (kind, there) in enumerate((kind, values) for kind, values in types.items() if values):
            name = TableName("public", f"c{number}")
            connection.execute(f"CREATE TABLE {name} (v {kind})".encode())
            shape = catalog.shape(connection, name)
            assert shape is not None
            own = shape.columns[0].type
            wanted = column_types.logical(own)
            for value in there:
                statement = f"SELECT {canonical(own, wanted, f'{text(value)}::{own}')}"
                first = connection.execute(statement.encode()).fetchone()
                assert first is not None and (first[0] is None) == (value is None), (kind, value)
                again = f"SELECT {canonical(own, wanted, f'{text(first[0])}::{own}')}"
                assert connection.execute(again.encode()).fetchone() == first, (kind, value)


def test_keys_and_blocks_of_a_wide_table_come_from_canonical_texts(database: Callable[..., ConnectionInfo]) -> None:
    """The table has more columns than a function takes arguments; rows are in classes of their keys' hashes; waiting
    texts are converted."""
    names = ", ".join(f"c{number} text" for number in range(300))
    with connect(database(), application="test", autocommit=True) as connection:
        connection.execute(f"CREATE TABLE public.w (k float8 PRIMARY KEY, {names})".encode())
        connection.execute("INSERT INTO public.w (k, c299) SELECT i / 4.0, 'v' || i FROM generate_series(1, 500) i")
        shape = catalog.shape(connection, TableName("public", "w"))
        assert shape is not None
        columns = compared(column_types, ((column.name, column.type) for column in shape.columns))
        digest = PostgresDigester().table(shape, columns, ("k",), Method.CANONICAL, (), 8)
        blocks = {block: (rows, total) for block, rows, total in digest.of_blocks(connection, None)}
        assert set(blocks) == set(range(8)) and sum(rows for rows, _ in blocks.values()) == 500
        for block, (count, total) in blocks.items():
            rows = digest.of_rows(connection, [block])
            assert len(rows) == count and (sum(value for value, _ in rows) - int(total)) % 2**64 == 0
            assert all(0 <= value < 2**60 for value, _ in rows)
        assert digest.converted(connection, "k", ["2.5", None, "1e+15"]) == ["25E-1", None, "1E15"]
        (key, row), (_, absent) = digest.rows_of_keys(connection, [("125E-2",), ("126E-2",)])
        assert key == ("125E-2",) and row is not None and (row["k"], row["c299"], row["c0"]) == ("125E-2", "v5", None)
        assert absent is None
