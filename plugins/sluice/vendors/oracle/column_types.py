"""Column types of Oracle and logical types, both ways. docs/types.md has the table, and what is lost."""

import re
from collections.abc import Sequence

from sluice.database.column_types import LogicalColumn
from sluice.database.schema import TypeDefinition
from sluice.database.session import Session
from sluice.model import logical_type
from sluice.model.logical_type import MICROSECONDS, ColumnType, Fit, Kind, LogicalType, Special
from sluice.vendors.oracle import names

MOST_DIGITS = 38
SHORT = 1_000
"""Characters of a VARCHAR2: it has 4,000 bytes, and a character up to four."""
SHORT_BYTES = 2_000
"""The highest number of bytes of a RAW."""
KEY_BYTES = 6_000
"""The highest number of bytes of a key: an index entry in blocks of 8 KB has 6,398 bytes."""
FIXED_KEY_BYTES = 36
TIME_TEXT, TEXT_OF_A_VALUE = 32, 255
MOST_FRACTION = 9
OLD = {"LONG": "CLOB", "LONG RAW": "BLOB"}
"""Types of a master that a slave's tables have otherwise: what took their place."""

_CALENDAR = frozenset({Special.INFINITY, Special.BEFORE_YEAR_1, Special.AFTER_YEAR_9999})
_EMPTY = frozenset({Special.EMPTY})
_OF_KNOWN_LENGTH = {
    Kind.BOOLEAN: 5,
    Kind.UUID: 36,
    Kind.TIME: TIME_TEXT,
    Kind.TIME_ZONE: TIME_TEXT,
    Kind.INTERVAL: TEXT_OF_A_VALUE,
    Kind.ADDRESS: TEXT_OF_A_VALUE,
}
_KNOWN = {
    "NUMBER": LogicalType(Kind.NUMBER),
    "FLOAT": LogicalType(Kind.NUMBER),
    "BINARY_FLOAT": LogicalType(Kind.FLOAT, 24),
    "BINARY_DOUBLE": LogicalType(Kind.FLOAT, 64),
    "DATE": LogicalType(Kind.TIMESTAMP, precision=0),
    "CLOB": LogicalType(Kind.TEXT),
    "NCLOB": LogicalType(Kind.TEXT),
    "LONG": LogicalType(Kind.TEXT),
    "BLOB": LogicalType(Kind.BINARY),
    "LONG RAW": LogicalType(Kind.BINARY),
    "XMLTYPE": LogicalType(Kind.TEXT),
    "JSON": LogicalType(Kind.JSON),
    "BOOLEAN": LogicalType(Kind.BOOLEAN),
}
_TEXTS = {"VARCHAR2": Kind.TEXT, "NVARCHAR2": Kind.TEXT, "CHAR": Kind.CHAR, "NCHAR": Kind.CHAR, "RAW": Kind.BINARY}
_SECONDS = re.compile(r"SECOND\((\d)\)")
_TYPE = re.compile(r"(?P<name>[A-Z0-9_]+(?: RAW)?)(?:\((?P<inside>[^)]*)\))?(?P<rest>.*)", re.DOTALL)


def logical(type_name: str, defined: Sequence[TypeDefinition] = ()) -> LogicalType:
    """The logical type of a type, as `type_text` writes it. User-defined types are not supported."""
    del defined
    matched = _TYPE.fullmatch(type_name.upper())
    if matched is None:
        return LogicalType(Kind.OTHER, name=type_name)
    name, inside, rest = matched["name"], matched["inside"], matched["rest"]
    if name == "NUMBER" and inside:
        precision, _, scale = inside.partition(",")
        return LogicalType(Kind.NUMBER, MOST_DIGITS if precision == "*" else int(precision), int(scale or 0))
    if name in _TEXTS:
        return LogicalType(_TEXTS[name], length=int((inside or "1").split()[0]))
    if name == "TIMESTAMP":
        kind = Kind.TIMESTAMP_ZONE if "TIME ZONE" in rest else Kind.TIMESTAMP
        return LogicalType(kind, precision=int(inside or MICROSECONDS))
    if name == "INTERVAL":
        fraction = _SECONDS.search(rest)
        return LogicalType(Kind.INTERVAL, precision=int(fraction[1]) if fraction else None)
    return _KNOWN.get(name, LogicalType(Kind.OTHER, name=type_name))


def holds(own: str, needed: str) -> bool:
    """Whether a column of the type `own` can hold every value of the type `needed` unchanged."""
    if own in OLD:
        return False  # no condition can be put on it
    if own == needed:
        return True
    type_, other = logical(own), logical(needed)
    if own.upper().endswith(" BYTE)") and not needed.upper().endswith(" BYTE)"):
        return False  # so many bytes hold fewer characters
    return logical_type.holds(type_, other)


def made_of(connection: Session, columns: Sequence[LogicalColumn]) -> list[ColumnType]:
    """The columns of one table, on any release."""
    del connection
    return of_table(columns)


def of_table(columns: Sequence[LogicalColumn]) -> list[ColumnType]:
    """The columns of one table."""
    made = {column.name: column_type(column.logical) for column in columns}
    keys = [column for column in columns if column.key]
    long = [column for column in keys if made[column.name].type in ("CLOB", "BLOB")]
    taken = sum(_key_bytes(column.logical, made[column.name]) for column in keys if column not in long)
    for column in long:
        made[column.name] = _of_key(column.logical, made[column.name], (KEY_BYTES - taken) // len(long))
    if taken > KEY_BYTES:
        first = keys[0].name
        made[first] = ColumnType("", Fit.REFUSED, f"no index has a key of more than {KEY_BYTES:,} bytes")
    for column in columns:
        if why := names.column_fault(column.name):
            made[column.name] = ColumnType("", Fit.REFUSED, why)
    return [made[column.name] for column in columns]


def column_type(logical: LogicalType) -> ColumnType:
    """The column type for a logical type outside of a key."""
    kind, length = logical.kind, logical.length
    if kind is Kind.INTEGER:
        return ColumnType(f"NUMBER({logical_type.digits(logical)},0)")
    if kind is Kind.NUMBER:
        return _number(logical)
    if kind is Kind.FLOAT:
        return ColumnType("BINARY_DOUBLE")
    if kind is Kind.DATE:
        return ColumnType("DATE", excluded=_CALENDAR)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
        fraction = MICROSECONDS if logical.precision is None else logical.precision
        zone = " WITH TIME ZONE" if kind is Kind.TIMESTAMP_ZONE else ""
        return ColumnType(f"TIMESTAMP({min(fraction, MOST_FRACTION)}){zone}", excluded=_CALENDAR)
    if kind is Kind.BINARY:
        return ColumnType("BLOB")
    if kind in _OF_KNOWN_LENGTH:
        return ColumnType(f"VARCHAR2({_OF_KNOWN_LENGTH[kind]} CHAR)")
    if kind is Kind.BITS and not logical.varying:
        return ColumnType(_text(length))
    if kind in (Kind.TEXT, Kind.CHAR, Kind.ENUM, Kind.BITS):
        text = _text(length)
        return ColumnType(text, excluded=frozenset() if text == "CLOB" else _EMPTY)
    if kind in (Kind.JSON, Kind.XML):
        return ColumnType("CLOB")
    named = f"a value of the type {logical.name}" if kind is Kind.OTHER else f"the {kind}"
    return ColumnType("CLOB", Fit.LOSSY, f"{named} is a text there, which nothing takes apart")


def type_text(
    name: str, length: int, characters: int, unit: str | None, precision: int | None, scale: int | None
) -> str:
    """A type as CREATE TABLE takes it, of what ALL_TAB_COLS says."""
    if name in ("VARCHAR2", "CHAR"):
        return f"{name}({characters} CHAR)" if unit == "C" else f"{name}({length} BYTE)"
    if name in ("NVARCHAR2", "NCHAR"):
        return f"{name}({characters})"
    if name == "RAW":
        return f"RAW({length})"
    if name == "NUMBER" and (precision is not None or scale is not None):
        return f"NUMBER({'*' if precision is None else precision},{scale or 0})"
    return name


def _number(logical: LogicalType) -> ColumnType:
    nan = frozenset({Special.NAN})
    if logical.precision is None:
        lost = f"of a number's digits {MOST_DIGITS} are left, and numbers from 1E126 on are refused"
        return ColumnType("NUMBER", Fit.LOSSY, lost, nan)
    scale = logical.scale or 0
    if logical.precision > MOST_DIGITS or not -84 <= scale <= 127:
        return ColumnType("NUMBER", Fit.LOSSY, f"of a number's digits {MOST_DIGITS} are left", nan)
    return ColumnType(f"NUMBER({logical.precision},{scale})", excluded=nan)


def _text(length: int | None) -> str:
    return f"VARCHAR2({length} CHAR)" if length and length <= SHORT else "CLOB"


def _key_bytes(logical: LogicalType, made: ColumnType) -> int:
    matched = _TYPE.fullmatch(made.type)
    if matched is None or matched["name"] != "VARCHAR2":
        return FIXED_KEY_BYTES
    return 4 * int((matched["inside"] or "1").split()[0])


def _of_key(logical: LogicalType, made: ColumnType, most: int) -> ColumnType:
    """The same in a key: a text or bytes of limited length."""
    if logical.kind not in (Kind.TEXT, Kind.CHAR, Kind.ENUM, Kind.BINARY, Kind.BITS):
        return ColumnType("", Fit.REFUSED, "no index holds such a value")
    binary = logical.kind is Kind.BINARY
    length = min(most, SHORT_BYTES) if binary else min(most // 4, SHORT)
    if length < 1:
        return ColumnType("", Fit.REFUSED, f"no index has a key of more than {KEY_BYTES:,} bytes")
    own = f"RAW({length})" if binary else f"VARCHAR2({length} CHAR)"
    return ColumnType(own, excluded=_EMPTY | {Special.TOO_LONG}, length=length)
