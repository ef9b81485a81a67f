"""The order of a table's keys on an Oracle master, from their texts alone.

Its sessions compare texts by their bytes (NLS_SORT = BINARY).
"""

from collections.abc import Sequence

from sluice.database.registry import vendor_of
from sluice.model.blocks import Key
from sluice.model.key_ranges import located
from sluice.model.shape import TableShape
from sluice.model.vendors import FIRST


def locate(shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """For each key, how many of the sorted `bounds` are at or below it."""
    types = vendor_of(FIRST).types
    return located([types.logical(column.type).kind for column in shape.key], bounds, keys)
