"""Values of columns and their canonical texts, both ways: as SQL expressions, by the column's own type.

The canonical text of a value is that of the first vendor's master, see docs/types.md. What the server prints is often
the same; what is not is put right here, where it can be in the server, else in `shown`.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from sluice.model.logical_type import Kind
from sluice.vendors.mysql.connection import literal, quoted

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
        """The canonical text, as far as the server can compute it: `shown` does the rest. `zoned`: for a time with a
        zone."""
        place = f"{alias}.{self.quoted}"
        if self.boolean:
            return f"CASE {place} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE CAST({place} AS CHAR) END"
        if self.base in _TIMES:
            text = f"CAST({place} AS CHAR)"
            if self.length:
                text = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"
            return f"CONCAT({text}, '+00')" if zoned else text
        if self.base in _BYTES:
            return f"CONCAT('\\\\x', LOWER(HEX({place})))"
        if self.base == "bit":
            return f"LPAD(CONV({place} + 0, 10, 2), {self.length or 1}, '0')"
        if self.base in TEXTS:
            return place
        return f"CAST({place} AS CHAR)"

    def shown(self, text: str | None) -> str | None:
        """The canonical text of what `text()` gave."""
        return float_text(text) if text is not None and self.float else text

    def canonical(self, alias: str, kind: Kind) -> str:
        """The text that a value of this kind has on every vendor: docs/types.md."""
        place = f"{alias}.{self.quoted}"
        if kind is Kind.FLOAT:
            return float_digits(f"CAST({place} AS CHAR)")
        if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
            return f"CAST(CAST({place} AS DATETIME(6)) AS CHAR)"
        if kind is Kind.TIME:
            return f"CAST(CAST({place} AS TIME(6)) AS CHAR)"
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
