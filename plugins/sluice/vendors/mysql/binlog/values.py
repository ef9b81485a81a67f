"""Values in rows of the log, as texts of a recorded stream: those that PostgreSQL writes.

Each function reads one value at a place of an event and returns its text; the sizes of values are known from the types.
"""

import socket
import struct
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sluice.vendors.mysql.column_types import float_text

Read = Callable[[bytes, int], str]
"""The value at a place."""

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""How many bytes so many decimal digits take."""
_FRACTION_BYTES = (0, 1, 1, 2, 2, 3, 3)
_TWO = tuple(f"{number:02d}" for number in range(64))
"""Numbers as two digits: made once, as most of a DATETIME's time would go into them."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (texts have their zone behind them)
_LARGEST_PLAIN = 1e15


def double(value: float) -> str:
    """A DOUBLE."""
    text = repr(value)
    if value and "e" not in text and -_LARGEST_PLAIN < value < _LARGEST_PLAIN:
        return text.removesuffix(".0")
    return float_text(text)


def single(value: float) -> str:
    """A FLOAT: the shortest text that is this value of four bytes."""
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        if struct.unpack("<f", struct.pack("<f", float(text)))[0] == value:
            return float_text(text)
    return float_text(f"{value:.9g}")


def decimal(precision: int, scale: int) -> tuple[Read, int]:
    """Words of nine digits, the first one of each side shorter; a negative number has all bits inverted."""
    left = precision - scale
    wholes = [digits for digits in (left % 9, *[9] * (left // 9)) if digits]
    parts = [digits for digits in (*[9] * (scale // 9), scale % 9) if digits]
    size = sum(_DIGIT_BYTES[digits] for digits in (*wholes, *parts))
    top, ones = 1 << 8 * size - 1, (1 << 8 * size) - 1
    behind, words = 8 * size, []
    for digits in (*wholes, *parts):
        behind -= 8 * _DIGIT_BYTES[digits]
        words.append((behind, (1 << 8 * _DIGIT_BYTES[digits]) - 1, digits))

    def number(of: Sequence[tuple[int, int, int]]) -> str:
        """The expression of a side's digits."""
        terms, factor = [], 1
        for shift, mask, digits in reversed(of):
            terms.append(f"(n >> {shift} & {mask}) * {factor}")
            factor *= 10**digits
        return " + ".join(terms) or "0"

    text = f"{{{number(words[: len(wholes)])}}}"
    text += f".{{{number(words[len(wholes) :])}:0{scale}d}}" if scale else ""
    # Most of a row's time would go into a loop over the words.
    code = (
        f"lambda b, p: f'{text}' if (n := int.from_bytes(b[p:p + {size}], 'big') ^ {top}) < {top} "
        f"else [n := n ^ {ones}] and f'-{text}'"
    )
    made: Read = eval(code)  # noqa: S307 (made of numbers alone)
    return made, size


def _fraction(precision: int) -> tuple[int, Callable[[int], str]]:
    """The bytes of a second's fraction, and its text without zeros at the end."""
    scale = 1 if precision % 2 == 0 else 10

    def text(number: int) -> str:
        return f".{number // scale:0{precision}d}".rstrip("0") if number else ""

    return _FRACTION_BYTES[precision], text


def date(data: bytes, at: int) -> str:
    number = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    return f"{number >> 9:04d}-{number >> 5 & 15:02d}-{number & 31:02d}"


def date_time(precision: int) -> tuple[Read, int]:
    """DATETIME: year and month in one number, then day, hour, minute, second."""
    more, fraction = _fraction(precision)
    size = 5 + more

    def read(data: bytes, at: int) -> str:
        number = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
        year, month = divmod(number >> 22, 13)
        text = (
            f"{year:04d}-{_TWO[month]}-{_TWO[number >> 17 & 31]} "
            f"{_TWO[number >> 12 & 31]}:{_TWO[number >> 6 & 63]}:{_TWO[number & 63]}"
        )
        return text + fraction(int.from_bytes(data[at + 5 : at + size], "big")) if more else text

    return read, size


def timestamp(precision: int) -> tuple[Read, int]:
    """TIMESTAMP, a moment: 0 is the date of zeros."""
    more, fraction = _fraction(precision)
    size = 4 + more

    def read(data: bytes, at: int) -> str:
        seconds = int.from_bytes(data[at : at + 4], "big")
        part = int.from_bytes(data[at + 4 : at + size], "big")
        if not seconds and not part:
            return "0000-00-00 00:00:00+00"
        return f"{_EPOCH + timedelta(seconds=seconds)}{fraction(part)}+00"

    return read, size


def time(precision: int) -> tuple[Read, int]:
    """TIME, up to 838 hours, also negative."""
    more, fraction = _fraction(precision)
    size, shift = 3 + more, 8 * more
    zero, mask = 0x800000 << shift, (1 << shift) - 1

    def read(data: bytes, at: int) -> str:
        number = int.from_bytes(data[at : at + size], "big") - zero
        sign, number = ("-", -number) if number < 0 else ("", number)
        part, number = number & mask, number >> shift
        text = f"{sign}{number >> 12 & 0x3FF:02d}:{number >> 6 & 63:02d}:{number & 63:02d}"
        return text + fraction(part) if more else text

    return read, size


def year(data: bytes, at: int) -> str:
    return str(data[at] + 1900) if data[at] else "0"


def bits(count: int) -> tuple[Read, int]:
    size = (count + 7) // 8
    return lambda data, at: f"{int.from_bytes(data[at : at + size], 'big'):0{count}b}", size


def enum(labels: Sequence[str], size: int) -> Read:
    """An ENUM; number 0 is the empty text that stands for a value that was none."""
    texts = ("", *labels)
    return lambda data, at: texts[int.from_bytes(data[at : at + size], "little")]


def set_of(labels: Sequence[str], size: int) -> Read:
    """A SET: its labels with commas, in the order of the definition."""

    def read(data: bytes, at: int) -> str:
        number = int.from_bytes(data[at : at + size], "little")
        return ",".join(label for index, label in enumerate(labels) if number >> index & 1)

    return read


def binary(value: bytes) -> str:
    return f"\\x{value.hex()}"


def uuid(value: bytes) -> str:
    """A UUID. The server writes the parts of some versions in another order, which sorts better."""
    whole = value.ljust(16, b"\0")
    return str(UUID(bytes=whole))


def inet6(value: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6, value.ljust(16, b"\0"))


def inet4(value: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET, value.ljust(4, b"\0"))


def uncompressed(value: bytes) -> bytes:
    """The content of a value of a COMPRESSED column. Raises `ValueError`."""
    if not value:
        return b""
    # The first byte: the algorithm (0: none), a bit for a raw stream, and the bytes of the length that follows.
    return _raw(value) if value[0] else value[1:]


def _raw(value: bytes) -> bytes:
    try:
        return zlib.decompress(value[1 + (value[0] & 7) :], -15 if value[0] & 8 else 15)
    except zlib.error as error:
        raise ValueError(f"a compressed value cannot be read: {error}") from None


def unpackers() -> tuple[Callable[[bytes, int], tuple[float]], Callable[[bytes, int], tuple[float]]]:
    """Of a FLOAT and a DOUBLE."""
    return struct.Struct("<f").unpack_from, struct.Struct("<d").unpack_from
