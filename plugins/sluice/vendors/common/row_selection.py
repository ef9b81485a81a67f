"""Rows of a table that meet a person's condition."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from sluice.database.errors import StatementFailed
from sluice.database.rows import KeyOrder as RowKeyOrder
from sluice.database.rows import RowSelection, SelectionInvalid
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.vendors.common.key_order import KeyOrder

_SOME = 5_000


def condition(where: str) -> str:
    """The condition unchanged. Raises `SelectionInvalid` if it could end the statement."""
    if ";" in where:
        raise SelectionInvalid(f"where: {where!r} holds a semicolon, which a condition needs none of")
    return where


class PlainSelection(RowSelection, ABC):
    """Of `sluice.database.rows.RowSelection` what vendors share."""

    checking: str
    """A query that returns nothing, with `{source}` and the condition `{where}`."""

    @abstractmethod
    def run(self, connection: Session, query: str) -> Iterable[Sequence[str | None]]: ...

    @abstractmethod
    def shown(self, error: StatementFailed) -> str:
        """What is reported of an error whose text may show values."""

    def check(self, connection: Session, order: RowKeyOrder, where: str, server: str) -> None:
        """Raises `SelectionInvalid`."""
        try:
            self.run(connection, self.checking.format(source=order.source, where=condition(where)))
        except StatementFailed as error:
            raise SelectionInvalid(
                f"where: {where!r} is no condition on {order.shape.table} at {server}: {error.reason}"
            ) from error

    def matching(self, connection: Session, order: RowKeyOrder, where: str) -> Iterator[list[Key]]:
        """The keys of rows that match `where`, some at a time. Raises `SelectionInvalid`."""
        assert isinstance(order, KeyOrder)
        texts = ", ".join(column.text("t") for column in order.columns)
        try:
            rows = list(self.run(connection, f"SELECT {texts} FROM {order.source} t WHERE ({condition(where)})"))
        except StatementFailed as error:
            shown = self.shown(error)
            raise SelectionInvalid(f"where: {where!r} cannot be evaluated on {order.shape.table}: {shown}") from None
        for start in range(0, len(rows), _SOME):
            yield [
                tuple(column.shown(text) or "" for column, text in zip(order.columns, row, strict=True))
                for row in rows[start : start + _SOME]
            ]
