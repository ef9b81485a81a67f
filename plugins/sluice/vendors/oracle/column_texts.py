"""Converts values of columns to canonical texts and back: by SQL expressions, for the column's own type
(docs/types.md).

A value is sent as a text, which `bind` prepares for the expression `value`. '' is NULL there, as always on Oracle,
except in a LOB, which may be empty.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from sluice.model.logical_type import Kind, Special
from sluice.vendors.oracle.column_types import logical
from sluice.vendors.oracle.session import EmptyLob, literal, quoted

MONTHS = "INTERVAL YEAR"
"""Begins the name of the type of years and months; the other one has days and seconds."""
_UNIT = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_TIME = re.compile(r"([+-]?)(\d+):(\d+):(\d+(?:\.\d+)?)$")


def interval_literal(text: str, *, months: bool) -> str:
    """The argument of TO_YMINTERVAL or TO_DSINTERVAL for a canonical text. Raises `ValueError`."""
    units = {unit: int(number) for number, unit in _UNIT.findall(text)}
    time = _TIME.search(text)
    if not units and time is None:
        raise ValueError(f"{text!r} is no interval")
    if months:
        count = 12 * units.get("year", 0) + units.get("mon", 0)
        return f"{'-' if count < 0 else '+'}{abs(count) // 12}-{abs(count) % 12}"
    days = units.get("day", 0)
    sign, clock = (time[1], time[0].lstrip("+-")) if time else ("", "00:00:00")
    return f"{'-' if days < 0 or sign == '-' else '+'}{abs(days)} {clock}"


def interval_text(own: str, *, months: bool) -> str:
    """The expression of the canonical text of the column `own`."""
    if months:
        none = f"EXTRACT(YEAR FROM {own}) = 0 AND EXTRACT(MONTH FROM {own}) = 0"
        units = f"TRIM({_units(own, 'YEAR', 'year')} || ' ' || {_units(own, 'MONTH', 'mon')})"
        return f"CASE WHEN {own} IS NULL THEN NULL WHEN {none} THEN '00:00:00' ELSE {units} END"
    hour, minute, second = (f"EXTRACT({part} FROM {own})" for part in ("HOUR", "MINUTE", "SECOND"))
    day, days = f"EXTRACT(DAY FROM {own})", _units(own, "DAY", "day")
    clock = (
        f"CASE WHEN LEAST({hour}, {minute}, {second}) < 0 THEN '-' END || TO_CHAR(ABS({hour}), 'FM00') || ':' "
        f"|| TO_CHAR(ABS({minute}), 'FM00') || ':' || RTRIM(TO_CHAR(ABS({second}), 'FM00.999999999'), '.')"
    )
    alone = f"{day} <> 0 AND {hour} = 0 AND {minute} = 0 AND {second} = 0"
    return f"CASE WHEN {own} IS NULL THEN NULL WHEN {alone} THEN {days} ELSE LTRIM({days} || ' ') || {clock} END"


def _units(own: str, part: str, unit: str) -> str:
    """`1 day`, `2 days`; NULL for none."""
    number = f"EXTRACT({part} FROM {own})"
    return f"CASE WHEN {number} <> 0 THEN TO_CHAR({number}) || ' {unit}' || CASE WHEN {number} <> 1 THEN 's' END END"


_SECONDS = "YYYY-MM-DD HH24:MI:SS"
_BC = " BC"
LOBS = frozenset({"CLOB", "NCLOB", "BLOB"})
XML = "XMLTYPE"
UNREAD = frozenset({"LONG", "LONG RAW", XML})
"""Types that no trigger can read. No expression of the server's takes a LONG."""
_HEX = "\\x"
_EMPTY = "nothing 6e0f1c52-7b9d-4c38-a1f4-93c2d85e7ab0"
"""What a query returns for an empty LOB, which the driver would return as NULL, and for a CHAR of blanks, which is
NULL without them."""


@dataclass(frozen=True)
class ColumnTexts:
    """One column: its name and its type as `column_types.type_text` writes it."""

    name: str
    type: str

    @property
    def quoted(self) -> str:
        return quoted(self.name)

    @cached_property
    def base(self) -> str:
        """The type without length."""
        return self.type.upper().partition("(")[0].strip()

    @cached_property
    def kind(self) -> Kind:
        return logical(self.type).kind

    @property
    def binary(self) -> bool:
        return self.kind is Kind.BINARY

    @property
    def zoned(self) -> bool:
        return self.kind is Kind.TIMESTAMP_ZONE

    @property
    def lob(self) -> bool:
        return self.base in LOBS

    @property
    def long(self) -> bool:
        """Whether its text may have more than the 4,000 bytes of a VARCHAR2: two digits a byte, three bytes a character
        of the national character set."""
        length = logical(self.type).length or 0
        return self.lob or (self.base == "RAW" and length >= 2_000) or (self.national and length > 1_333)

    @property
    def unread(self) -> bool:
        """Whether no trigger can read it."""
        return self.base in UNREAD

    @property
    def national(self) -> bool:
        """A text of the national character set, converted to the database's."""
        return self.base in ("NVARCHAR2", "NCHAR", "NCLOB")

    @cached_property
    def _fraction(self) -> int:
        """The number of digits of the fraction with which times are sent."""
        return max(6, logical(self.type).precision or 0)

    # To the server

    def bind(self, text: str | None) -> str | bytes | EmptyLob | None:
        """The value that is sent for a text."""
        if text is None:
            return None
        if not text and self.kind is Kind.CHAR:
            return self._padded(text)
        if text in ("", _HEX) and (self.binary or not text):
            return (EmptyLob.BYTES if self.binary else EmptyLob.TEXT) if self.lob else None
        if self.binary:
            return bytes.fromhex(text.removeprefix(_HEX))
        if self.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
            return self._moment(text)
        if self.kind is Kind.INTERVAL:
            return interval_literal(text, months=self.base == MONTHS)
        if self.kind is Kind.CHAR:
            return self._padded(text)
        return text.replace("Infinity", "INF") if self.kind is Kind.FLOAT else text

    def _padded(self, text: str) -> str:
        """The text padded like the column's: the server distinguishes 'a' and 'a ' if one of them is a parameter."""
        length = logical(self.type).length or 0
        if self.national:
            return text + " " * (length - len(text.encode("utf-16-le")) // 2)
        return text + " " * (length - (len(text.encode()) if self.type.endswith(" BYTE)") else len(text)))

    def value(self, bind: str) -> str:
        """The column's value from the parameter, or literal, `bind` of what `bind` gave."""
        if self.base == "DATE":
            return f"TO_DATE({bind}, 'S{_SECONDS}')"
        if self.zoned:
            return f"TO_TIMESTAMP_TZ({bind}, 'S{_SECONDS}.FF{self._fraction} TZH:TZM')"
        if self.kind is Kind.TIMESTAMP:
            return f"TO_TIMESTAMP({bind}, 'S{_SECONDS}.FF{self._fraction}')"
        if self.kind is Kind.NUMBER:
            return f"CAST({bind} AS NUMBER)"
        if self.kind is Kind.FLOAT:
            return f"TO_BINARY_DOUBLE({bind})"
        if self.kind is Kind.INTERVAL:
            return f"{'TO_YMINTERVAL' if self.base == MONTHS else 'TO_DSINTERVAL'}({bind})"
        if self.base == XML:
            return f"CASE WHEN {bind} IS NOT NULL THEN XMLTYPE({bind}) END"
        return bind

    def literal(self, text: str | None) -> str:
        """The column's value as an expression without parameters."""
        bound = self.bind(text)
        if bound is None:
            return "NULL"
        if isinstance(bound, EmptyLob):
            return f"EMPTY_{'BLOB' if self.binary else 'CLOB'}()"
        return f"HEXTORAW('{bound.hex()}')" if isinstance(bound, bytes) else self.value(literal(bound))

    def same(self, alias: str, bind: str) -> str:
        """The condition that the column has the value of a parameter, NULL being one."""
        own = f"{alias}.{self.quoted}"
        if self.lob:
            # Of the same character set: DBMS_LOB converts none.
            equal = f"DBMS_LOB.COMPARE({own}, TO_{self.base}({bind})) = 0"
        else:
            equal = f"{own} = {self.value(bind)}"
        return f"({equal} OR ({own} IS NULL AND {bind} IS NULL))"

    def is_special(self, alias: str, special: Special, length: int) -> str | None:
        """The condition that the column has such a value; None if it never has. `length`: the longest that fits."""
        own = f"{alias}.{self.quoted}"
        if self.unread:
            return None
        if special is Special.NAN and self.kind is Kind.FLOAT:
            return f"{own} IS NAN"
        if special is Special.INFINITY and self.kind is Kind.FLOAT:
            return f"{own} IS INFINITE"
        if special is Special.BEFORE_YEAR_1 and self.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
            return f"{own} < DATE '0001-01-01'"
        if special is Special.TOO_LONG and self.binary:
            return f"{'DBMS_LOB.GETLENGTH' if self.lob else 'UTL_RAW.LENGTH'}({own}) > {length}"
        if special is Special.TOO_LONG:
            return f"LENGTH({own}) > {length}"
        if special is Special.ZERO_CHARACTER and self.kind in (Kind.TEXT, Kind.CHAR):
            return f"INSTR({own}, CHR(0)) > 0"
        return None

    def _moment(self, text: str) -> str:
        """The sign of the year, of which an early one has a minus, first."""
        plain = text.removesuffix(_BC)
        whole, _, fraction = plain.removesuffix("+00").partition(".")
        whole = ("-" if plain != text else " ") + whole
        if ":" not in whole:
            whole += " 00:00:00"
        if self.base == "DATE":
            return whole
        zone = " +00:00" if self.zoned else ""
        return f"{whole}.{fraction.ljust(self._fraction, '0')}{zone}"

    # From the server

    def canonical(self, alias: str) -> str:
        """The text in which servers of every vendor have a value of this type."""
        own = f"{alias}.{self.quoted}"
        if self.base == "DATE":
            text = f"TO_CHAR({own}, '{_SECONDS}')"
            return _with_era(own, text, f"{text} || CASE WHEN {own} IS NOT NULL THEN '.000000' END")
        if self.zoned:
            own = f"SYS_EXTRACT_UTC({own})"
        if self.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
            text = f"TO_CHAR({own}, '{_SECONDS}.FF{self._fraction}')"
            return _with_era(own, f"RTRIM(RTRIM({text}, '0'), '.')", text)
        if self.kind is Kind.NUMBER:
            return self._number_text(own)
        if self.kind is Kind.FLOAT:
            return float_digits(own)
        if self.kind is Kind.INTERVAL:
            return interval_text(own, months=self.base == MONTHS)
        if self.base == XML:
            return f"XMLSERIALIZE(CONTENT {own} AS CLOB)"
        if self.national:
            own = f"TO_CLOB({own})" if self.long else f"TO_CHAR({own})"
        if self.kind is Kind.CHAR:
            return f"RTRIM({own})"
        if self.base == "RAW":
            begin = f"TO_CLOB('{_HEX}')" if self.long else f"'{_HEX}'"
            return f"CASE WHEN {own} IS NOT NULL THEN {begin} || LOWER(RAWTOHEX({own})) END"
        return own

    def ordered(self, text: str | None) -> Decimal | float | str | bytes:
        """A key's canonical text as a value that Python orders as the server orders the column."""
        given = text or ""
        if self.kind is Kind.NUMBER:
            return Decimal(given)
        if self.kind is Kind.FLOAT:
            return float(given)
        if self.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
            moment = self._moment(given)
            # Of years before 1 a higher one comes first.
            return moment[1:] if moment[0] == " " else f"-{9999 - int(moment[1:5]):04}{moment[5:]}"
        return (given.rstrip(" ") if self.kind is Kind.CHAR else given).encode()

    def text(self, alias: str) -> str:
        """The expression of a value in a query, which `shown` converts to a canonical text."""
        if not self.may_be_empty:
            return self.canonical(alias)
        mark = f"TO_BLOB(UTL_RAW.CAST_TO_RAW('{_EMPTY}'))" if self.binary else f"'{_EMPTY}'"
        mark = f"TO_CLOB({mark})" if self.lob and not self.binary else mark
        return f"CASE WHEN {self.is_empty(alias)} THEN {mark} ELSE {self.canonical(alias)} END"

    @staticmethod
    def shown(value: str | bytes | None) -> str | None:
        """The canonical text of what `text` gave."""
        if isinstance(value, bytes):
            return _HEX if value == _EMPTY.encode() else _HEX + value.hex()
        return "" if value == _EMPTY else value

    @property
    def may_be_empty(self) -> bool:
        """Whether a value that is not NULL has an empty canonical text."""
        return self.lob or self.kind is Kind.CHAR

    def is_empty(self, alias: str) -> str:
        """The condition that it has."""
        own = f"{alias}.{self.quoted}"
        return (
            f"DBMS_LOB.GETLENGTH({own}) = 0" if self.lob else f"{own} IS NOT NULL AND NVL(LENGTH(RTRIM({own})), 0) = 0"
        )

    def _number_text(self, own: str) -> str:
        scale, precision = logical(self.type).scale, logical(self.type).precision or 38
        if scale is None:
            return plain_number(own)
        if scale <= 0:
            return f"TO_CHAR({own})"
        return f"TO_CHAR({own}, 'FM{'9' * max(0, precision - scale)}0.{'0' * scale}')"


def _with_era(own: str, early: str, text: str) -> str:
    """The text of a moment; `early`: of one before the year 1, without the era."""
    return f"CASE WHEN {own} < DATE '0001-01-01' THEN {early} || '{_BC}' ELSE {text} END"


def plain_number(own: str) -> str:
    """A number of any digits, with one before the point, and without an exponent.

    The server writes .5, and what would have more than 64 characters as 1.5E+70.
    """
    text = f"TO_CHAR({own}, 'TM9')"
    mantissa = f"RTRIM(REPLACE(LTRIM(SUBSTR({text}, 1, INSTR({text}, 'E') - 1), '-'), '.'), '0')"
    power = f"CAST(SUBSTR({text}, INSTR({text}, 'E') + 1) AS NUMBER)"
    sign = f"CASE WHEN {own} < 0 THEN '-' END"
    return (
        f"CASE WHEN INSTR({text}, 'E') > 0 AND ABS({own}) > 1 THEN {sign} || RPAD({mantissa}, {power} + 1, '0') "
        f"WHEN INSTR({text}, 'E') > 0 THEN {sign} || '0.' || LPAD({mantissa}, LENGTH({mantissa}) - {power} - 1, '0') "
        f"WHEN {own} <> 0 AND ABS({own}) < 1 THEN {sign} || '0' || SUBSTR({text}, INSTR({text}, '.')) ELSE {text} END"
    )


def float_digits(own: str) -> str:
    """A float as its digits, the fewest that give it, a whole number without zeros at its end, `E` and a power of ten.

    Of 15, 16 and 17 digits the first are taken that give the value again.
    """
    texts = [f"TO_CHAR({own}, '9.{'9' * digits}EEEE')" for digits in (14, 15, 16)]
    tried = " ".join(f"WHEN TO_BINARY_DOUBLE({text}) = {own} THEN {_digits(text)}" for text in texts[:2])
    return (
        f"CASE WHEN {own} IS NULL THEN NULL WHEN {own} = 0 THEN '0' WHEN {own} IS NAN THEN 'NaN' "
        f"WHEN {own} = BINARY_DOUBLE_INFINITY THEN 'Infinity' WHEN {own} = -BINARY_DOUBLE_INFINITY THEN '-Infinity' "
        f"{tried} ELSE {_digits(texts[2])} END"
    )


def _digits(text: str) -> str:
    """`-1.2500E+03` as `-125E1`."""
    text = f"UPPER(TRIM({text}))"
    mantissa = f"RTRIM(TRANSLATE(SUBSTR({text}, 1, INSTR({text}, 'E') - 1), '0.', '0'), '0')"
    power = f"TO_NUMBER(SUBSTR({text}, INSTR({text}, 'E') + 1))"
    return f"{mantissa} || 'E' || TO_CHAR({power} - LENGTH(LTRIM({mantissa}, '-')) + 1)"
