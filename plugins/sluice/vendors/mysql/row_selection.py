"""Parts of a slave's table that a person names (`sluice.database.selection.RowSelection`).

Which rows those are the master says, whose rows come; here those are looked for that the master has not.
"""

from collections.abc import Iterator

from sluice.database.errors import StatementFailed
from sluice.database.rows import KeyOrder
from sluice.database.selection import SelectionInvalid
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native
from sluice.vendors.mysql.errors import refusal
from sluice.vendors.mysql.not_a_master import not_a_master

key_of = runs = in_order = not_a_master

_SOME = 5_000


def check(connection: Session, order: KeyOrder, where: str, place: str) -> None:
    """Raises `SelectionInvalid`."""
    try:
        native(connection).run(f"EXPLAIN SELECT 1 FROM {order.source} WHERE ({_condition(where)})")
    except StatementFailed as error:
        raise SelectionInvalid(
            f"where: {where!r} is no condition on {order.shape.table} at {place}: {error.reason}"
        ) from error


def matching(connection: Session, order: KeyOrder, where: str) -> Iterator[list[Key]]:
    """Raises `SelectionInvalid`, without the values that its error would show."""
    columns = [ColumnTexts(column.name, column.type) for column in order.shape.key]
    texts = ", ".join(column.text("t") for column in columns)
    try:
        rows = native(connection).run(f"SELECT {texts} FROM {order.source} t WHERE ({_condition(where)})").fetchall()
    except StatementFailed as error:
        number = refusal(error).number
        raise SelectionInvalid(f"where: {where!r} cannot be evaluated on {order.shape.table}: error {number}") from None
    for start in range(0, len(rows), _SOME):
        yield [
            tuple(column.shown(text) or "" for column, text in zip(columns, row, strict=True))
            for row in rows[start : start + _SOME]
        ]


def _condition(where: str) -> str:
    """Raises `SelectionInvalid` for what could end the statement."""
    if ";" in where:
        raise SelectionInvalid(f"where: {where!r} holds a semicolon, which a condition needs none of")
    return where
