"""Oracle's types by OpenLogReplicator's names: their types and values on a slave."""

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

from sluice.vendors.stream.redo.errors import Unfit

Convert = Callable[[str | int], str]

UNITS = {"ns": 1_000_000_000, "us": 1_000_000, "ms": 1_000, "s": 1}
"""The units of a second in DATE and TIMESTAMP, by `format.timestamp`."""

_EPOCH = date(1970, 1, 1)
_TEXT = {
    "varchar2": "text",
    "nvarchar2": "text",
    "long": "text",
    "clob": "text",
    "nclob": "text",
    "xmltype": "text",
    "rowid": "text",
    "urowid": "text",
    "json": "text",
    "number": "numeric",
    "float": "numeric",
    "binary_float": "real",
    "binary_double": "double precision",
    "raw": "bytea",
    "long raw": "bytea",
    "blob": "bytea",
    "date": "timestamp(0) without time zone",
    "timestamp": "timestamp without time zone",
    "timestamp with time zone": "timestamp with time zone",
    "timestamp with local time zone": "timestamp with time zone",
    "interval year to month": "interval",
    "interval day to second": "interval",
    "boolean": "boolean",
}
LARGE = frozenset({"clob", "nclob", "blob", "xmltype", "json", "long", "long raw"})
"""Types whose values a message may lack although the row has one."""
IMPRECISE = frozenset({"binary_float", "binary_double"})
"""Types of which OpenLogReplicator prints six significant digits."""


def slave_type(column: Mapping[str, Any]) -> str:
    """The type on a slave of a column of a schema message. Raises `Unfit`."""
    name = column["type"]
    if name in ("char", "nchar"):
        return f"character({column['length']})" if "length" in column else "text"
    if name == "number":
        precision, scale = int(column.get("precision", -1)), int(column.get("scale", -1))
        return f"numeric({precision},{scale})" if precision > 0 and 0 <= scale <= precision else "numeric"
    if name not in _TEXT:
        raise Unfit(f"column {column['name']} is of the type {name!r}, whose values OpenLogReplicator does not decode")
    return _TEXT[name]


def converter(name: str, unit: str) -> Convert | None:
    """The conversion of values of the type `name` for a slave; None if none is needed. Each raises `Unfit`."""
    second = UNITS[unit]
    if name in ("raw", "long raw", "blob"):
        return _binary
    if name in ("date", "timestamp"):
        return lambda text: _moment(text, second)
    if name == "timestamp with local time zone":
        return lambda text: f"{_moment(text, second)}+00"
    if name == "timestamp with time zone":
        return lambda text: f"{_moment(str(text).partition(',')[0], second)}+00"
    if name == "interval day to second":
        return lambda text: f"{_decimal(_integer(text), UNITS['ns'])} seconds"
    if name == "interval year to month":
        return lambda text: f"{_integer(text)} mons"
    if name == "boolean":
        return _boolean
    return None


def _binary(text: str | int) -> str:
    return f"\\x{text}"


def _boolean(text: str | int) -> str:
    if str(text) not in ("0", "1"):
        raise Unfit(f"a BOOLEAN is {text!r}")
    return "true" if str(text) == "1" else "false"


def _moment(text: str | int, second: int) -> str:
    seconds, fraction = divmod(_integer(text), second)
    days, rest = divmod(seconds, 86_400)
    shown = f"{_day(days)} {_clock(rest)}"
    if fraction:
        shown += f".{fraction * (UNITS['ns'] // second):09}".rstrip("0")
    return shown


def _decimal(number: int, one: int) -> str:
    sign, (whole, fraction) = "-" * (number < 0), divmod(abs(number), one)
    return f"{sign}{whole}.{fraction * (UNITS['ns'] // one):09}"


def _integer(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise Unfit(
            f"{text!r} is no number of units: set format.timestamp, interval-dts and interval-ytm to 0, and "
            "timestamp-tz to 0"
        ) from None


@lru_cache(maxsize=86_400)
def _clock(second: int) -> str:
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


@lru_cache(maxsize=4096)
def _day(days: int) -> str:
    try:
        return (_EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        raise Unfit("a date is before the year 1 or after the year 9999") from None
