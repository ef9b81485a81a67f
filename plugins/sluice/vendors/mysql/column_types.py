"""Column types of MySQL and MariaDB and logical types, both ways.

Texts need a collation that tells every two of them apart, which the statements that make tables name. What values of a
type do on either server, and which of their conversions lose something without a word, docs/types.md says.

Values of columns and their canonical texts, both ways, are SQL expressions by the column's own type. The canonical text
of a value is that of the first vendor's master, see docs/types.md. What the server prints is often the same; the rest
is converted here, in SQL if possible, otherwise in `shown`.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.schema import TypeDefinition
from sluice.database.session import Session
from sluice.model import logical_type
from sluice.model.logical_type import MICROSECONDS, ColumnType, Fit, Kind, LogicalType, Special
from sluice.vendors.mysql.connection import literal, native, quoted

_TYPE = re.compile(r"(?P<name>\w+)(?:\((?P<inside>[^)]*)\))?")
_TIMES = frozenset({"datetime", "timestamp", "time"})
_BYTES = frozenset({"tinyblob", "blob", "mediumblob", "longblob", "varbinary", "binary"})
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})


@dataclass(frozen=True)
class ColumnTexts:
    """One column: its name and its type as COLUMN_TYPE of information_schema writes it."""

    name: str
    type: str

    @property
    def quoted(self) -> str:
        return quoted(self.name)

    @cached_property
    def base(self) -> str:
        """The type without length and attributes."""
        matched = _TYPE.match(self.type.lower())
        return matched["name"] if matched else self.type.lower()

    @cached_property
    def length(self) -> int:
        matched = _TYPE.match(self.type.lower())
        inside = matched["inside"] if matched else None
        return int(inside) if inside and inside.isdigit() else 0

    @property
    def is_text(self) -> bool:
        """Whether it holds texts or bytes, as long as `length` says; 0 is any length."""
        return self.base.endswith(("char", "binary", "text", "blob"))

    @property
    def boolean(self) -> bool:
        return self.type.lower() == "tinyint(1)"

    @property
    def float(self) -> bool:
        return self.base in ("double", "float")

    def literal(self, text: str) -> str:
        """The column's value as an expression without parameters."""
        return self.value(literal(text))

    def value(self, text: str) -> str:
        """The column's value from the expression of a canonical text."""
        if self.boolean:
            # The CASE keeps what is neither: the column refuses it.
            return f"CASE {text} WHEN 'true' THEN 1 WHEN 't' THEN 1 WHEN 'false' THEN 0 WHEN 'f' THEN 0 ELSE {text} END"
        if self.base in ("datetime", "timestamp"):
            return f"TRIM(TRAILING '+00' FROM {text})"
        if self.base in _BYTES:
            return f"UNHEX(SUBSTRING({text}, 3))"
        if self.base == "bit":
            return f"CAST(CONV({text}, 2, 10) AS UNSIGNED)"
        return text

    @property
    def plain(self) -> bool:
        """Whether a text is assigned as it is."""
        return self.value("x") == "x"

    def text(self, alias: str, *, zoned: bool = False) -> str:
        """The part of the canonical text that the server can compute: `shown` does the rest. `zoned`: for a time with a
        zone."""
        value = f"{alias}.{self.quoted}"
        if self.boolean:
            return f"CASE {value} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE CAST({value} AS CHAR) END"
        if self.base in _TIMES:
            text = f"CAST({value} AS CHAR)"
            if self.length:
                text = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"
            return f"CONCAT({text}, '+00')" if zoned else text
        if self.base in _BYTES:
            return f"CONCAT('\\\\x', LOWER(HEX({value})))"
        if self.base == "bit":
            return f"LPAD(CONV({value} + 0, 10, 2), {self.length or 1}, '0')"
        if self.base in TEXTS:
            return value
        return f"CAST({value} AS CHAR)"

    def shown(self, text: str | None) -> str | None:
        """The canonical text of what `text()` gave."""
        return float_text(text) if text is not None and self.float else text

    def canonical(self, alias: str, kind: Kind) -> str:
        """The text that a value of this kind has on every vendor: docs/types.md."""
        value = f"{alias}.{self.quoted}"
        if kind is Kind.FLOAT:
            return float_digits(f"CAST({value} AS CHAR)")
        if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
            return f"CAST(CAST({value} AS DATETIME(6)) AS CHAR)"
        if kind is Kind.TIME:
            return f"CAST(CAST({value} AS TIME(6)) AS CHAR)"
        return self.text(alias)


def float_text(text: str) -> str:
    """A float in the layout of the canonical text: an exponent below -4 or from 15 on, of two digits or more."""
    sign, rest = ("-", text[1:]) if text.startswith("-") else ("", text)
    mantissa, _, exponent = rest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"  # MariaDB keeps no sign of a zero
    power = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits)) - 1
    digits = digits.rstrip("0")
    if power < -4 or power >= 15:
        head, tail = digits[0], digits[1:]
        return f"{sign}{head}{'.' + tail if tail else ''}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    if len(digits) <= power + 1:
        return f"{sign}{digits.ljust(power + 1, '0')}"
    return f"{sign}{digits[: power + 1]}.{digits[power + 1 :]}"


def float_digits(text: str) -> str:
    """A float as its digits, a whole number without zeros at its end, `E` and a power of ten: 0.25 is `25E-2`."""
    mantissa = f"SUBSTRING_INDEX(TRIM(LEADING '-' FROM {text}), 'e', 1)"
    power = f"IF(LOCATE('e', {text}) > 0, CAST(SUBSTRING_INDEX({text}, 'e', -1) AS SIGNED), 0)"
    fraction = f"IF(LOCATE('.', {mantissa}) > 0, CHAR_LENGTH(SUBSTRING_INDEX({mantissa}, '.', -1)), 0)"
    digits = f"TRIM(LEADING '0' FROM REPLACE({mantissa}, '.', ''))"
    whole = f"TRIM(TRAILING '0' FROM {digits})"
    ten = f"{power} - {fraction} + CHAR_LENGTH({digits}) - CHAR_LENGTH({whole})"
    sign = f"IF(LEFT({text}, 1) = '-', '-', '')"
    return f"IF({digits} = '', '0', CONCAT({sign}, {whole}, 'E', {ten}))"


MOST_DIGITS = 65
MOST_SCALE = {True: 38, False: 30}
"""Digits after the point, on MariaDB and on MySQL."""
KEY_CHARACTERS = 768
"""An index entry has 3,072 bytes, and a character up to four."""
FIXED_KEY_CHARACTERS = 16
"""The highest number of characters of a key's column that is no text: a DECIMAL of 65 digits has 30 bytes."""
ROW_BYTES = 65_535
"""What all columns of a row take together, but for those that are stored beside it."""
SHORT = 255
"""Longer texts are no VARCHAR: a row holds few of them."""
TEXT_LENGTHS = {Kind.TIME_ZONE: 32, Kind.INTERVAL: 255, Kind.ADDRESS: 255, Kind.UUID: 36}
"""Characters of types that become texts. MariaDB's own type of a UUID takes only those that a standard knows."""

_CALENDAR = frozenset({Special.INFINITY, Special.BEFORE_YEAR_1, Special.AFTER_YEAR_9999})
_NO_NUMBERS = frozenset({Special.NAN, Special.INFINITY})

_SIZES = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXT_BYTES = {"tinytext": 255, "text": 65_535, "mediumtext": 16_777_215}
_BLOB_BYTES = {"tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215}
_BYTES_A_CHARACTER = 4
_WITHOUT_LENGTH = {
    "float": LogicalType(Kind.FLOAT, 24),
    "double": LogicalType(Kind.FLOAT, 64),
    "date": LogicalType(Kind.DATE),
    "year": LogicalType(Kind.INTEGER, 16),
    "longtext": LogicalType(Kind.TEXT),
    "longblob": LogicalType(Kind.BINARY),
    "json": LogicalType(Kind.JSON),
    "uuid": LogicalType(Kind.UUID),
}
_WITH_LENGTH = {
    "char": Kind.CHAR,
    "varchar": Kind.TEXT,
    "binary": Kind.OTHER,  # filled up with 0x00
    "varbinary": Kind.BINARY,
    "bit": Kind.BITS,
}
_TYPE = re.compile(r"(?P<name>\w+)(?:\((?P<inside>[^)]*)\))?(?P<rest>.*)", re.DOTALL)


def logical(type_name: str, defined: Sequence[TypeDefinition] = ()) -> LogicalType:
    """The logical type of a type, as in COLUMN_TYPE of information_schema. User-defined types do not exist."""
    del defined
    matched = _TYPE.fullmatch(type_name.lower())
    if matched is None:
        return LogicalType(Kind.OTHER, name=type_name)
    name, inside, unsigned = matched["name"], matched["inside"], "unsigned" in matched["rest"]
    if type_name.lower() == "tinyint(1)":
        return LogicalType(Kind.BOOLEAN)
    if name in _SIZES:
        return LogicalType(Kind.INTEGER, _SIZES[name] + unsigned)
    if name in _WITHOUT_LENGTH:
        return _WITHOUT_LENGTH[name]
    if name in _TEXT_BYTES:
        return LogicalType(Kind.TEXT, length=_TEXT_BYTES[name] // _BYTES_A_CHARACTER)
    if name in _BLOB_BYTES:
        return LogicalType(Kind.BINARY, length=_BLOB_BYTES[name])
    if name == "decimal":
        precision, _, scale = (inside or "10").partition(",")
        return LogicalType(Kind.NUMBER, int(precision), int(scale or 0))
    if name in _WITH_LENGTH:
        return LogicalType(_WITH_LENGTH[name], length=int(inside or 1))
    if name in ("datetime", "time"):
        return LogicalType(Kind.TIMESTAMP if name == "datetime" else Kind.TIME, precision=int(inside or 0))
    return LogicalType(Kind.ENUM if name == "enum" else Kind.OTHER, name=type_name)


def holds(own: str, needed: str) -> bool:
    """Whether a column of the type `own` can hold every value of the type `needed` unchanged."""
    return own == needed or logical_type.holds(logical(own), logical(needed))


def made_of(columns: Sequence[LogicalColumn], *, mariadb: bool) -> list[ColumnType]:
    """The columns of one table."""
    made = {column.name: column_type(column.logical, mariadb=mariadb) for column in columns}
    keys = [column for column in columns if column.key]
    texts = [column for column in keys if made[column.name].type.startswith(("varchar", "long"))]
    texts.sort(key=lambda column: _length(column.logical))
    left = KEY_CHARACTERS - FIXED_KEY_CHARACTERS * (len(keys) - len(texts))
    for index, column in enumerate(texts):
        # Short ones leave more to the others.
        most = min(_length(column.logical), max(left, 0) // (len(texts) - index))
        made[column.name] = _of_key(column.logical, made[column.name], most)
        left -= most
    fitting = fitting_row(
        [made[column.name].type for column in columns], [number for number, each in enumerate(columns) if each.key]
    )
    return [replace(made[column.name], type=type_) for column, type_ in zip(columns, fitting, strict=True)]


def fitting_row(types: Sequence[str], kept: Collection[int] = ()) -> list[str]:
    """The types of a row's columns. If the row would be longer than a server takes, texts become LONGTEXT, which is
    stored beside the row, until it fits: the longest first, of equal ones the last. `kept`: columns that stay."""
    fitting = list(types)
    left = ROW_BYTES - sum(map(_row_bytes, types)) - len(types) // 8 - 1
    texts = [number for number, each in enumerate(types) if each.startswith("varchar") and number not in kept]
    for number in sorted(texts, key=lambda number: (-_row_bytes(types[number]), -number)):
        if left >= 0:
            break
        left += _row_bytes(types[number]) - _row_bytes("longtext")
        fitting[number] = "longtext"
    return fitting


def _row_bytes(type_: str) -> int:
    """The most that a value takes of a row."""
    matched = _TYPE.fullmatch(type_)
    name, length = (matched["name"], matched["inside"]) if matched else (type_, None)
    if name in ("varchar", "char", "varbinary", "binary") and length:
        size = int(length) * (_BYTES_A_CHARACTER if name.endswith("char") else 1)
        return size + (1 if size < 256 else 2)
    return {"decimal": 30}.get(name, 12)  # numbers and times have 8 bytes at most, a LONGTEXT 12


def column_type(logical: LogicalType, *, mariadb: bool) -> ColumnType:
    """The column type for a logical type outside of a key."""
    kind, length = logical.kind, logical.length
    if kind is Kind.INTEGER:
        bits = logical.precision or 64
        names = {16: "smallint", 32: "int", 64: "bigint"}
        fitting = next((name for most, name in names.items() if bits <= most), None)
        return ColumnType(fitting or f"decimal({logical_type.digits(logical)},0)")
    if kind is Kind.NUMBER:
        return _number(logical, mariadb)
    if kind is Kind.FLOAT:
        return ColumnType("double", excluded=_NO_NUMBERS)  # a FLOAT compares with no literal
    if kind in (Kind.TEXT, Kind.CHAR):
        return _text(length)
    if kind is Kind.BITS:
        return ColumnType(f"bit({length})") if length and length <= 64 and not logical.varying else _text(length)
    if kind is Kind.TIME:
        return _time("time", logical.precision, frozenset())
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
        return _time("datetime", logical.precision, _CALENDAR)
    if kind is Kind.DATE:
        return ColumnType("date", excluded=_CALENDAR)
    if kind in TEXT_LENGTHS:
        return ColumnType(f"varchar({TEXT_LENGTHS[kind]})")
    if kind is Kind.ENUM:
        return _text(length)
    # JSON too: MySQL's own changes its texts, and MariaDB's refuses deep ones.
    exact = {Kind.BOOLEAN: "tinyint(1)", Kind.BINARY: "longblob", Kind.JSON: "longtext", Kind.XML: "longtext"}
    if kind in exact:
        return ColumnType(exact[kind])
    return ColumnType("longtext", Fit.LOSSY, f"{_named(logical)} is a text there, which nothing takes apart")


def _named(logical: LogicalType) -> str:
    return f"a value of the type {logical.name}" if logical.kind is Kind.OTHER else f"the {logical.kind}"


def _number(logical: LogicalType, mariadb: bool) -> ColumnType:
    if logical.precision is None:
        return ColumnType("longtext", Fit.LOSSY, "a number without a precision is a text there, in a text's order")
    scale = logical.scale or 0
    precision = logical.precision - scale if scale < 0 else max(logical.precision, scale)
    most = MOST_SCALE[mariadb]
    if precision > MOST_DIGITS or scale > most:
        return ColumnType(
            "longtext",
            Fit.LOSSY,
            f"a number of more than {MOST_DIGITS} digits, {most} after the point, is a text there, in a text's order",
        )
    return ColumnType(f"decimal({precision},{max(scale, 0)})", excluded=frozenset({Special.NAN}))


def _text(length: int | None) -> ColumnType:
    return ColumnType(f"varchar({length})" if length and length <= SHORT else "longtext")


def _time(name: str, precision: int | None, excluded: frozenset[Special]) -> ColumnType:
    digits = MICROSECONDS if precision is None else precision
    if digits > MICROSECONDS:
        lost = f"of {digits} digits of a second's fraction, {MICROSECONDS} are left"
        return ColumnType(f"{name}({MICROSECONDS})", Fit.LOSSY, lost, excluded)
    return ColumnType(f"{name}({digits})" if digits else name, excluded=excluded)


def _length(logical: LogicalType) -> int:
    """The characters of a key's column, at most as many as an index entry holds."""
    most = KEY_CHARACTERS if logical.length is None else logical.length
    if logical.kind is Kind.BINARY:
        most = -(-most // _BYTES_A_CHARACTER)
    return min(TEXT_LENGTHS.get(logical.kind, most), KEY_CHARACTERS)


def _of_key(logical: LogicalType, made: ColumnType, most: int) -> ColumnType:
    """The same for an index, which must hold it: a text of at most so many characters."""
    if most < 1:
        return ColumnType("", Fit.REFUSED, f"no index has as many columns, or more than {KEY_CHARACTERS} characters")
    binary = logical.kind is Kind.BINARY
    length = most * _BYTES_A_CHARACTER if binary else most
    if logical.length is not None and logical.length <= length:
        return replace(made, type=f"{'varbinary' if binary else 'varchar'}({logical.length})")
    excluded = made.excluded if logical.kind in TEXT_LENGTHS else made.excluded | {Special.TOO_LONG}
    return replace(made, type=f"{'varbinary' if binary else 'varchar'}({length})", excluded=excluded, length=length)


class MySQLTypes(ColumnTypes):
    """The types of the columns of these servers."""

    def logical(self, type_name: str, defined: Sequence[TypeDefinition] = ()) -> LogicalType:
        return logical(type_name, defined)

    def made_of(self, connection: Session, columns: Sequence[LogicalColumn]) -> list[ColumnType]:
        return made_of(columns, mariadb=native(connection).mariadb)

    def holds(self, own: str, needed: str) -> bool:
        return holds(own, needed)


TYPES = MySQLTypes()
