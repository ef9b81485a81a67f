"""What a column's values are, in no vendor's words: what two vendors compare, and turn into types of their own.

Each vendor says what its column types are (`sluice.database.column_types.ColumnTypes.logical`) and what it makes of a
logical type (`made_of`). docs/types.md has the tables, and the canonical text of each kind.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What values are."""

    INTEGER = "integer"
    NUMBER = "number"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TEXT = "text"
    CHAR = "char"
    """A text whose blanks at the end say nothing."""
    BINARY = "binary"
    BITS = "bits"
    DATE = "date"
    TIME = "time"
    TIME_ZONE = "time with zone"
    TIMESTAMP = "timestamp"
    TIMESTAMP_ZONE = "timestamp with zone"
    """A moment."""
    INTERVAL = "interval"
    UUID = "uuid"
    JSON = "json"
    XML = "xml"
    ADDRESS = "network address"
    ENUM = "enum"
    ARRAY = "array"
    RANGE = "range"
    COMPOSITE = "composite"
    OTHER = "other"


class Special(StrEnum):
    """Values that some vendors' types hold and others' do not. The text ends a sentence."""

    NAN = "NaN"
    INFINITY = "infinity"
    BEFORE_YEAR_1 = "before the year 1"
    AFTER_YEAR_9999 = "after the year 9999"
    ZERO_CHARACTER = "a text with the character 0x00"
    EMPTY = "an empty text"
    TOO_LONG = "longer than that"
    """Longer than the type that holds it as a key, see `ColumnType.length`."""


@dataclass(frozen=True)
class LogicalType:
    """A type of values."""

    kind: Kind
    precision: int | None = None
    """INTEGER, FLOAT: bits. NUMBER: digits, None for any number of them. Times: digits of the second's fraction."""
    scale: int | None = None
    """NUMBER: digits after the point; None with any precision."""
    length: int | None = None
    """TEXT, CHAR, ENUM: characters at most; BINARY: bytes; BITS: bits. None for no limit."""
    varying: bool = False
    """BITS: of any length up to `length`."""
    element: "LogicalType | None" = None
    """ARRAY: of what."""
    name: str = ""
    """The vendor's own word, of kinds that vendors do not share."""

    def __str__(self) -> str:
        if self.kind is Kind.ARRAY:
            return f"array of {self.element}"
        if self.kind is Kind.NUMBER and self.precision is not None:
            return f"number({self.precision},{self.scale or 0})"
        if self.kind in (Kind.INTEGER, Kind.FLOAT):
            return f"{self.kind} of {self.precision} bits"
        detail = self.length if self.length is not None else self.precision
        return f"{self.kind}({detail})" if detail is not None else str(self.kind)


UNKNOWN = LogicalType(Kind.OTHER)
ORDERED_ALIKE = frozenset({Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP})
"""Kinds whose values all vendors order alike, and whose texts all vendors read."""
TIMES = frozenset({Kind.TIME, Kind.TIME_ZONE, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE})
"""Kinds whose `precision` is digits of the second's fraction; None means `MICROSECONDS`."""
MICROSECONDS = 6
_DIGITS = {8: 3, 16: 5, 24: 7, 32: 10, 64: 19}
"""Decimal digits of whole numbers, by their bits."""


def digits(integer: LogicalType) -> int:
    """How many decimal digits an INTEGER may have."""
    bits = integer.precision or 64
    return _DIGITS.get(bits) or len(str(2 ** (bits - 1)))


def holds(wide: LogicalType, narrow: LogicalType) -> bool:
    """True when `wide` takes every value of `narrow` without changing or refusing it."""
    if wide == narrow:
        return True
    if narrow.kind is Kind.INTEGER:
        if wide.kind is Kind.INTEGER:
            return (wide.precision or 64) >= (narrow.precision or 64)
        return wide.kind is Kind.NUMBER and _takes(wide, digits(narrow), 0)
    if narrow.kind is Kind.NUMBER and wide.kind is Kind.NUMBER:
        if narrow.precision is None:
            return wide.precision is None
        return _takes(wide, narrow.precision - (narrow.scale or 0), narrow.scale or 0)
    if narrow.kind is wide.kind is Kind.TEXT or narrow.kind is wide.kind is Kind.BINARY:
        return wide.length is None or (narrow.length is not None and wide.length >= narrow.length)
    if narrow.kind is wide.kind is Kind.BITS:
        return wide.varying and (wide.length is None or (narrow.length is not None and wide.length >= narrow.length))
    if narrow.kind is wide.kind and narrow.kind in TIMES:
        return _fraction(wide) >= _fraction(narrow)
    return False


def _takes(wide: LogicalType, whole: int, scale: int) -> bool:
    if wide.precision is None:
        return True
    return (wide.scale or 0) >= scale and wide.precision - (wide.scale or 0) >= whole


def _fraction(time: LogicalType) -> int:
    return MICROSECONDS if time.precision is None else time.precision


class Fit(StrEnum):
    """What becomes of the values of a column that is made on another vendor."""

    EXACT = "exact"
    """Each comes back as it was."""
    LOSSY = "lossy"
    """Something is lost; made only where the configuration allows it."""
    REFUSED = "refused"
    """There is no such column there."""


@dataclass(frozen=True)
class ColumnType:
    """What a vendor makes of a logical type."""

    type: str
    """In the vendor's words; empty where it refuses."""
    fit: Fit = Fit.EXACT
    lost: str = ""
    """What is lost, or why it is refused, as a sentence's end."""
    excluded: frozenset[Special] = frozenset()
    """Values that it cannot hold; others it holds as `fit` says."""
    length: int | None = None
    """With `Special.TOO_LONG`: characters that it holds; of bytes, bytes."""
