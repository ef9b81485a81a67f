"""Rows of a table that meet a person's condition."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from sluice.database.errors import StatementFailed
from sluice.database.rows import KeyOrder
from sluice.database.selection import SelectionInvalid
from sluice.model.blocks import Key
from sluice.vendors.common import key_order

_SOME = 5_000


def condition(where: str) -> str:
    """The condition unchanged. Raises `SelectionInvalid` if it could end the statement."""
    if ";" in where:
        raise SelectionInvalid(f"where: {where!r} holds a semicolon, which a condition needs none of")
    return where


def checked(order: KeyOrder, where: str, place: str, run: Callable[[str], object], query: str) -> None:
    """Runs a query that returns nothing and has the condition. Raises `SelectionInvalid`."""
    try:
        run(query)
    except StatementFailed as error:
        raise SelectionInvalid(
            f"where: {where!r} is no condition on {order.shape.table} at {place}: {error.reason}"
        ) from error


def matching(
    order: KeyOrder,
    where: str,
    run: Callable[[str], Iterable[Sequence[str | None]]],
    shown: Callable[[StatementFailed], str],
) -> Iterator[list[Key]]:
    """The keys of rows that match `where`, some at a time.

    Raises `SelectionInvalid` without the values that the server's error would show: `shown` is what is reported of it.
    """
    assert isinstance(order, key_order.KeyOrder)
    texts = ", ".join(column.text("t") for column in order.columns)
    try:
        rows = list(run(f"SELECT {texts} FROM {order.source} t WHERE ({condition(where)})"))
    except StatementFailed as error:
        raise SelectionInvalid(f"where: {where!r} cannot be evaluated on {order.shape.table}: {shown(error)}") from None
    for start in range(0, len(rows), _SOME):
        yield [
            tuple(column.shown(text) or "" for column, text in zip(order.columns, row, strict=True))
            for row in rows[start : start + _SOME]
        ]
