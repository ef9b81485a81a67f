"""PostgreSQL's column types and logical types, both ways (`sluice.database.column_types.ColumnTypes`)."""

import re
from collections.abc import Sequence

from sluice.database.column_types import LogicalColumn
from sluice.database.schema import TypeDefinition
from sluice.database.session import Session
from sluice.model import logical_type
from sluice.model.logical_type import MICROSECONDS, ColumnType, Fit, Kind, LogicalType, Special
from sluice.model.names import split_qualified

_PLAIN = {
    "smallint": LogicalType(Kind.INTEGER, 16),
    "integer": LogicalType(Kind.INTEGER, 32),
    "bigint": LogicalType(Kind.INTEGER, 64),
    "oid": LogicalType(Kind.INTEGER, 33),
    "real": LogicalType(Kind.FLOAT, 32),
    "double precision": LogicalType(Kind.FLOAT, 64),
    "boolean": LogicalType(Kind.BOOLEAN),
    "text": LogicalType(Kind.TEXT),
    "bpchar": LogicalType(Kind.TEXT),
    "name": LogicalType(Kind.TEXT, length=63),
    '"char"': LogicalType(Kind.TEXT, length=4),
    "bytea": LogicalType(Kind.BINARY),
    "date": LogicalType(Kind.DATE),
    "uuid": LogicalType(Kind.UUID),
    "json": LogicalType(Kind.JSON, name="json"),
    "jsonb": LogicalType(Kind.JSON, name="jsonb"),
    "xml": LogicalType(Kind.XML),
}
_ADDRESSES = frozenset({"inet", "cidr", "macaddr", "macaddr8"})
_TIMES = {
    "time without time zone": Kind.TIME,
    "time with time zone": Kind.TIME_ZONE,
    "timestamp without time zone": Kind.TIMESTAMP,
    "timestamp with time zone": Kind.TIMESTAMP_ZONE,
}
_NAMES = {kind: name for name, kind in _TIMES.items()}
_MODIFIERS = re.compile(r"\((-?\d+)(?:,\s*(-?\d+))?\)")
_OWN_KINDS = {"e": Kind.ENUM, "c": Kind.COMPOSITE, "t": Kind.COMPOSITE, "r": Kind.RANGE}
MOST_DIGITS = 1_000
"""The highest number of digits of a numeric with a precision."""


def logical(type_name: str, defined: Sequence[TypeDefinition] = ()) -> LogicalType:
    """The logical type of a type."""
    if type_name.endswith("[]"):
        return LogicalType(Kind.ARRAY, element=logical(type_name.removesuffix("[]"), defined), name=type_name)
    matched = _MODIFIERS.search(type_name)
    first, second = (int(part) if part else None for part in matched.groups()) if matched else (None, None)
    name = _MODIFIERS.sub("", type_name, count=1)
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _TIMES:
        return LogicalType(_TIMES[name], precision=first)
    if name == "numeric":
        return LogicalType(Kind.NUMBER, first, second if first is not None else None)
    if name == "character varying":
        return LogicalType(Kind.TEXT, length=first)
    if name == "character":
        return LogicalType(Kind.CHAR, length=first)
    if name in ("bit", "bit varying"):
        return LogicalType(Kind.BITS, length=first or (1 if name == "bit" else None), varying=name != "bit")
    if name == "interval" or name.startswith("interval "):
        return LogicalType(Kind.INTERVAL, name=type_name)
    if name in _ADDRESSES:
        return LogicalType(Kind.ADDRESS, name=name)
    if "." in name:
        return _own(name, defined)
    return LogicalType(Kind.RANGE if name.endswith(("range", "multirange")) else Kind.OTHER, name=type_name)


def _own(name: str, defined: Sequence[TypeDefinition]) -> LogicalType:
    """The logical type of a user-defined type."""
    qualified = tuple(split_qualified(name))
    for each in defined:
        if (each.schema, each.name) == qualified:
            if each.kind == "d" and each.comparable:
                return logical(each.comparable, defined)
            longest = max(map(len, each.labels), default=0) if each.labels else None
            return LogicalType(_OWN_KINDS.get(each.kind, Kind.OTHER), length=longest, name=name)
    return LogicalType(Kind.OTHER, name=name)


def holds(own: str, needed: str) -> bool:
    """Whether a column of the type `own` can hold every value of the type `needed` unchanged."""
    if own == needed:
        return True
    wide, narrow = logical(own), logical(needed)
    # Types that PostgreSQL compares otherwise, though others know one: those of a name go with that name only.
    named = {"oid", "name", '"char"', "bpchar", "json", "jsonb"}
    return not named & {own, needed} and not wide.name and not narrow.name and logical_type.holds(wide, narrow)


def made_of(connection: Session, columns: Sequence[LogicalColumn]) -> list[ColumnType]:
    """The columns of one table on this server: the same on each release."""
    del connection
    return [column_type(column.logical) for column in columns]


def column_type(logical: LogicalType) -> ColumnType:
    """The column type for a logical type."""
    kind, digits, length = logical.kind, logical.precision, logical.length
    if kind is Kind.INTEGER:
        bits = digits or 64
        names = {16: "smallint", 32: "integer", 64: "bigint"}
        fitting = next((name for most, name in names.items() if bits <= most), None)
        return ColumnType(fitting or f"numeric({logical_type.digits(logical)},0)")
    if kind is Kind.NUMBER:
        return _number(logical)
    if kind is Kind.FLOAT:
        return ColumnType("real" if digits == 32 else "double precision")
    if kind in (Kind.TEXT, Kind.CHAR):
        name = "character" if kind is Kind.CHAR else "character varying"
        return ColumnType(f"{name}({length})" if length else "text", excluded=frozenset({Special.ZERO_CHARACTER}))
    if kind is Kind.BITS:
        name = "bit varying" if logical.varying else "bit"
        return ColumnType(f"{name}({length})" if length else name)
    if kind in _NAMES:
        return _time(_NAMES[kind], digits)
    if kind is Kind.INTERVAL:
        return _time("interval", max(digits or 0, MICROSECONDS))
    if kind in (Kind.BOOLEAN, Kind.DATE, Kind.UUID, Kind.XML):
        return ColumnType(str(kind))
    if kind is Kind.BINARY:
        return ColumnType("bytea")
    if kind is Kind.JSON:
        return ColumnType("jsonb" if logical.name == "jsonb" else "json")
    if kind in (Kind.ENUM, Kind.ADDRESS):
        return ColumnType(logical.name if logical.name in _ADDRESSES else "text")
    return ColumnType("text", Fit.LOSSY, f"the {logical} {logical.name} is a text there".replace("  ", " "))


def _number(logical: LogicalType) -> ColumnType:
    if logical.precision is None:
        return ColumnType("numeric")
    scale = logical.scale or 0
    # Before PostgreSQL 15 a scale lies between 0 and the precision.
    precision = logical.precision - scale if scale < 0 else max(logical.precision, scale)
    if precision > MOST_DIGITS:
        return ColumnType("numeric")
    return ColumnType(f"numeric({precision},{max(scale, 0)})")


def _time(name: str, digits: int | None) -> ColumnType:
    if digits is None or digits == MICROSECONDS:
        return ColumnType(name)
    if digits > MICROSECONDS:
        return ColumnType(name, Fit.LOSSY, f"of {digits} digits of a second's fraction, {MICROSECONDS} are left")
    word, _, rest = name.partition(" ")
    return ColumnType(f"{word}({digits}) {rest}")
