"""Values of columns and their canonical texts, both ways: as SQL expressions, by the column's own type (docs/types.md).

A value goes to the server as a text, of which `bind` makes what the expression `value` takes. '' is NULL there, as
everywhere on Oracle.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from sluice.model.logical_type import Kind, Special
from sluice.vendors.oracle import intervals
from sluice.vendors.oracle.column_types import logical
from sluice.vendors.oracle.session import quoted

_SECONDS = "YYYY-MM-DD HH24:MI:SS"
LOBS = frozenset({"CLOB", "NCLOB", "BLOB"})
XML = "XMLTYPE"
UNREAD = frozenset({"LONG", "LONG RAW", XML})
"""Types that no trigger can read. No expression of the server's takes a LONG."""
_HEX = "\\x"


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
    def unread(self) -> bool:
        """Whether no trigger can read it."""
        return self.base in UNREAD

    @property
    def national(self) -> bool:
        """Of the national character set; as a text of the database's."""
        return self.base in ("NVARCHAR2", "NCHAR", "NCLOB")

    @cached_property
    def _fraction(self) -> int:
        """Digits of the fraction with which moments travel."""
        return max(6, logical(self.type).precision or 0)

    # To the server

    def bind(self, text: str | None) -> str | bytes | None:
        """What is sent for a text."""
        if text is None or text == "":
            return None
        if self.binary:
            return bytes.fromhex(text.removeprefix(_HEX)) or None
        if self.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
            return self._moment(text)
        if self.kind is Kind.INTERVAL:
            return intervals.literal(text, months=self.base == intervals.MONTHS)
        return text.replace("Infinity", "INF") if self.kind is Kind.FLOAT else text

    def value(self, place: str) -> str:
        """The column's value from the parameter, or literal, `place` of what `bind` gave."""
        if self.base == "DATE":
            return f"TO_DATE({place}, '{_SECONDS}')"
        if self.zoned:
            return f"TO_TIMESTAMP_TZ({place}, '{_SECONDS}.FF{self._fraction} TZH:TZM')"
        if self.kind is Kind.TIMESTAMP:
            return f"TO_TIMESTAMP({place}, '{_SECONDS}.FF{self._fraction}')"
        if self.kind is Kind.NUMBER:
            return f"CAST({place} AS NUMBER)"
        if self.kind is Kind.FLOAT:
            return f"TO_BINARY_DOUBLE({place})"
        if self.kind is Kind.INTERVAL:
            return f"{'TO_YMINTERVAL' if self.base == intervals.MONTHS else 'TO_DSINTERVAL'}({place})"
        if self.base == XML:
            return f"CASE WHEN {place} IS NOT NULL THEN XMLTYPE({place}) END"
        return place

    def same(self, alias: str, place: str) -> str:
        """The condition that the column has the value of a parameter, NULL being one."""
        own = f"{alias}.{self.quoted}"
        if self.lob:
            to_lob = "TO_BLOB" if self.base == "BLOB" else "TO_CLOB"
            equal = f"DBMS_LOB.COMPARE({own}, {to_lob}({place})) = 0"
        else:
            equal = f"{own} = {self.value(place)}"
        return f"({equal} OR ({own} IS NULL AND {place} IS NULL))"

    def is_special(self, alias: str, special: Special, length: int) -> str | None:
        """The condition that the column has such a value; None where it never has. `length`: the longest that fits."""
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
        plain = text.removesuffix("+00")
        whole, _, fraction = plain.partition(".")
        if " " not in whole:
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
            return f"TO_CHAR({own}, '{_SECONDS}') || CASE WHEN {own} IS NOT NULL THEN '.000000' END"
        if self.zoned:
            return f"TO_CHAR(SYS_EXTRACT_UTC({own}), '{_SECONDS}.FF{self._fraction}')"
        if self.kind is Kind.TIMESTAMP:
            return f"TO_CHAR({own}, '{_SECONDS}.FF{self._fraction}')"
        if self.kind is Kind.NUMBER:
            return self._number_text(own)
        if self.kind is Kind.FLOAT:
            return float_digits(own)
        if self.kind is Kind.INTERVAL:
            return intervals.text(own, months=self.base == intervals.MONTHS)
        if self.base == XML:
            return f"XMLSERIALIZE(CONTENT {own} AS CLOB)"
        if self.national:
            own = f"TO_CLOB({own})" if self.lob else f"TO_CHAR({own})"
        if self.kind is Kind.CHAR:
            return f"RTRIM({own})"
        if self.base == "RAW":
            return f"CASE WHEN {own} IS NOT NULL THEN '{_HEX}' || LOWER(RAWTOHEX({own})) END"
        return own

    def ordered(self, text: str | None) -> Decimal | float | str | bytes:
        """A key's canonical text as a value that Python orders as the server orders the column."""
        given = text or ""
        if self.kind is Kind.NUMBER:
            return Decimal(given)
        if self.kind is Kind.FLOAT:
            return float(given)
        if self.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
            return self._moment(given)
        return (given.rstrip(" ") if self.kind is Kind.CHAR else given).encode()

    def text(self, alias: str) -> str:
        """What `shown` makes a text of: the same, but for bytes of a LOB."""
        return self.canonical(alias)

    def shown(self, found: str | bytes | None) -> str | None:
        """The canonical text of what `text` gave."""
        return _HEX + found.hex() if isinstance(found, bytes) else found

    def _number_text(self, own: str) -> str:
        scale, precision = logical(self.type).scale, logical(self.type).precision or 38
        if scale is None:
            return f"TO_CHAR({own}, 'TM9')"
        if scale <= 0:
            return f"TO_CHAR({own})"
        return f"TO_CHAR({own}, 'FM{'9' * max(0, precision - scale)}0.{'0' * scale}')"


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
