"""Types of values, independent of a vendor: what two vendors compare, and map to their own types.

Each vendor maps its column types to logical types (`sluice.database.column_types.ColumnTypes.logical`), and logical
types to its own (`made_of`). docs/types.md has the tables, and the canonical text of each kind.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of values."""

    INTEGER = "integer"
    NUMBER = "number"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TEXT = "text"
    CHAR = "char"
    """A text whose blanks at the end are not significant."""
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
    """Values that some vendors' types can hold and others' cannot. The text ends a sentence."""

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
    """INTEGER, FLOAT: bits. NUMBER: digits, None for any number. Times: digits of the fraction of a second."""
    scale: int | None = None
    """NUMBER: digits after the point; None: any number."""
    length: int | None = None
    """TEXT, CHAR, ENUM: the highest number of characters; BINARY: of bytes; BITS: of bits. None: no limit."""
    varying: bool = False
    """BITS: of any length up to `length`."""
    element: "LogicalType | None" = None
    """ARRAY: the type of its elements."""
    name: str = ""
    """The vendor's name of the type, for kinds that vendors do not share."""

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
"""Kinds whose values all vendors sort in the same order, and whose texts all vendors read."""
TIMES = frozenset({Kind.TIME, Kind.TIME_ZONE, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE})
"""Kinds whose `precision` counts digits of the fraction of a second; None means `MICROSECONDS`."""
MICROSECONDS = 6
_DIGITS = {8: 3, 16: 5, 24: 7, 32: 10, 64: 19}
"""Decimal digits of whole numbers, by their bits."""


def digits(integer: LogicalType) -> int:
    """The highest number of decimal digits of an INTEGER."""
    bits = integer.precision or 64
    return _DIGITS.get(bits) or len(str(2 ** (bits - 1)))


def holds(wide: LogicalType, narrow: LogicalType) -> bool:
    """Whether `wide` can hold every value of `narrow` unchanged."""
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
    """How another vendor's column holds the values."""

    EXACT = "exact"
    """Each value is preserved."""
    LOSSY = "lossy"
    """Something is lost; created only if the configuration allows it."""
    REFUSED = "refused"
    """There is no such type."""


@dataclass(frozen=True)
class ColumnType:
    """A vendor's type for a logical type."""

    type: str
    """The type in DDL; empty if it is refused."""
    fit: Fit = Fit.EXACT
    lost: str = ""
    """What is lost, or why it is refused, as the end of a sentence."""
    excluded: frozenset[Special] = frozenset()
    """Values that it cannot hold; `fit` is about all others."""
    length: int | None = None
    """With `Special.TOO_LONG`: the highest number of characters, or of bytes for BINARY."""
