"""Parts of a slave's table that a person names (`sluice.database.selection.RowSelection`).

Which rows those are the master says, whose rows come; here those are looked for that the master has not.
"""

from collections.abc import Iterator

from sluice.database.rows import KeyOrder
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.vendors.common import row_selection as common
from sluice.vendors.common.row_selection import condition
from sluice.vendors.mysql.connection import native


def check(connection: Session, order: KeyOrder, where: str, place: str) -> None:
    """Raises `SelectionInvalid`."""
    query = f"EXPLAIN SELECT 1 FROM {order.source} WHERE ({condition(where)})"
    common.checked(order, where, place, native(connection).run, query)


def matching(connection: Session, order: KeyOrder, where: str) -> Iterator[list[Key]]:
    """Raises `SelectionInvalid`."""
    return common.matching(order, where, native(connection).run, lambda error: f"error {error.code}")
