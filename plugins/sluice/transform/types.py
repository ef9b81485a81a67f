"""Converts between the texts of columns and the types in which expressions are computed.

Only columns that expressions use are converted. Types that the engine cannot hold exactly (numbers of unlimited digits,
intervals, arrays, types of the database's own) are given to expressions as texts; the writer of the expression casts
them, and so decides what may be lost.
"""

import re

from sluice.model.logical_type import Kind, LogicalType, holds

MOST_DIGITS = 38
_PLAIN = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.UUID: "UUID",
    Kind.JSON: "JSON",
    Kind.DATE: "DATE",
    Kind.TIME: "TIME",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMP_ZONE: "TIMESTAMPTZ",
    Kind.BINARY: "BLOB",
}
_INTEGERS = {16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
TEXTUAL = frozenset({Kind.TEXT, Kind.CHAR, Kind.ENUM})
_DATED = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE})
_BITS = {
    "TINYINT": 16, "SMALLINT": 16, "UTINYINT": 16, "INTEGER": 32, "USMALLINT": 32, "BIGINT": 64, "UINTEGER": 64,
}  # fmt: skip
_RESULTS = {
    "BOOLEAN": LogicalType(Kind.BOOLEAN),
    "FLOAT": LogicalType(Kind.FLOAT, 32),
    "DOUBLE": LogicalType(Kind.FLOAT, 64),
    "VARCHAR": LogicalType(Kind.TEXT),
    "DATE": LogicalType(Kind.DATE),
    "TIME": LogicalType(Kind.TIME),
    "TIMESTAMP": LogicalType(Kind.TIMESTAMP),
    "TIMESTAMP WITH TIME ZONE": LogicalType(Kind.TIMESTAMP_ZONE),
    "UUID": LogicalType(Kind.UUID),
    "JSON": LogicalType(Kind.JSON, name="json"),
    "BLOB": LogicalType(Kind.BINARY),
    "HUGEINT": LogicalType(Kind.NUMBER, 39, 0),
    "UBIGINT": LogicalType(Kind.NUMBER, 20, 0),
    '"NULL"': LogicalType(Kind.TEXT),
    **{name: LogicalType(Kind.INTEGER, bits) for name, bits in _BITS.items()},
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")


def typed(kind: LogicalType) -> str:
    """The engine's type for the values of a column."""
    if kind.kind is Kind.INTEGER:
        return _INTEGERS.get(kind.precision or 64, "VARCHAR")
    if kind.kind is Kind.NUMBER and kind.precision is not None:
        scale = kind.scale or 0
        return f"DECIMAL({kind.precision},{scale})" if 0 <= scale <= kind.precision <= MOST_DIGITS else "VARCHAR"
    if kind.kind is Kind.FLOAT:
        return "FLOAT" if kind.precision == 32 else "DOUBLE"
    return _PLAIN.get(kind.kind, "VARCHAR")


def from_text(kind: LogicalType, column: str) -> str:
    """The SQL that converts a column's text to the engine's value."""
    if kind.kind is Kind.BINARY:
        return f"unhex({column}[3:])"
    if kind.kind is Kind.CHAR:
        return f"rtrim({column}, ' ')"
    if kind.kind in _DATED:
        moved = f"regexp_replace({column}, '^(\\S+)(.*) BC$', '\\1 (BC)\\2')"
        column = f"CASE WHEN ends_with({column}, ' BC') THEN {moved} ELSE {column} END"
    return f"CAST({column} AS {typed(kind)})"


def to_text(kind: LogicalType, value: str) -> str:
    """The SQL that converts a value to a text that databases read."""
    if kind.kind is Kind.BINARY:
        return f"'\\x' || lower(hex({value}))"
    text = f"CAST({value} AS VARCHAR)"
    return f"regexp_replace({text}, '^(\\S+) \\(BC\\)(.*)$', '\\1\\2 BC')" if kind.kind in _DATED else text


def result(engine_type: str) -> LogicalType | None:
    """The logical type of the engine's type; None for a type that no column has."""
    decimal = _DECIMAL.match(engine_type)
    if decimal:
        return LogicalType(Kind.NUMBER, int(decimal[1]), int(decimal[2]))
    return _RESULTS.get(engine_type)


def takes(column: LogicalType, value: LogicalType) -> bool:
    """Whether a column of the master can hold an expression's values; the slave refuses those that are too long."""
    if column.kind in TEXTUAL and value.kind is Kind.TEXT:
        return True
    if Kind.FLOAT is column.kind is value.kind or Kind.JSON is column.kind is value.kind:
        return True
    return holds(column, value)
