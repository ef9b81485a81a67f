"""The order of a table's keys on an Oracle master, from their texts alone.

Its sessions compare texts by their bytes (NLS_SORT = BINARY), so the order is known without the server.
"""

from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal

from sluice.database.registry import vendor_of
from sluice.model.blocks import Key
from sluice.model.logical_type import Kind
from sluice.model.shape import TableShape
from sluice.model.vendors import FIRST

_NANOSECONDS = 9


def locate(shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """For each key, how many of the sorted `bounds` are at or below it."""
    types = vendor_of(FIRST).types
    kinds = [types.logical(column.type).kind for column in shape.key]
    ends = [_ordered(kinds, bound) for bound in bounds]
    return [bisect_right(ends, _ordered(kinds, key)) for key in keys]


def _ordered(kinds: Sequence[Kind], key: Key) -> tuple[Decimal | float | str | bytes, ...]:
    return tuple(_value(kind, text) for kind, text in zip(kinds, key, strict=True))


def _value(kind: Kind, text: str) -> Decimal | float | str | bytes:
    """A value for a key's text, from the stream or from a row, which Python sorts as the master does."""
    match kind:
        case Kind.NUMBER | Kind.INTEGER:
            return Decimal(text)
        case Kind.FLOAT:
            return float(text)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_ZONE:
            seconds, _, fraction = text.removesuffix("+00").partition(".")
            return f"{seconds}.{fraction.ljust(_NANOSECONDS, '0')}"
        case Kind.CHAR:
            return text.rstrip(" ").encode()
        case _:
            return text.encode()
