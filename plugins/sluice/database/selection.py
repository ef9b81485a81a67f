"""Parts of a table that a person names: by keys, or by a condition in the vendor's SQL."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from sluice.database.rows import KeyOrder
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.model.blocks import Key
from sluice.model.key_ranges import Match
from sluice.model.shape import TableShape


class SelectionInvalid(Terminal):
    """The given condition or keys choose no part of the table."""


class NotEvaluated(Transient):
    """A condition could not be evaluated just now."""


class RowSelection(Protocol):
    """Evaluates conditions over a session in autocommit. Raises `SelectionInvalid` or `NotEvaluated` for a condition
    that it cannot evaluate."""

    def check(self, connection: Session, order: KeyOrder, where: str, place: str) -> None:
        """Raises `SelectionInvalid` for a condition that this database, named `place`, does not understand."""
        ...

    def matching(self, connection: Session, order: KeyOrder, where: str) -> Iterator[list[Key]]:
        """The keys of the rows that match `where`, some at a time."""
        ...


class MasterSelection(RowSelection, Protocol):
    """The master says which keys match."""

    def key_of(self, connection: Session, shape: TableShape, text: str) -> Key:
        """A key as a person writes it: the value, or a JSON list of one value a key column; its canonical texts.

        Raises `SelectionInvalid`.
        """
        ...

    def runs(self, connection: Session, order: KeyOrder, where: str, lo: Key | None, hi: Key | None) -> Iterator[Match]:
        """The runs of neighbouring rows that match `where`, in key order, between `lo` and `hi`.

        Each ends at the next row that does not match. Reads the table once.
        """
        ...

    def in_order(self, connection: Session, shape: TableShape, keys: Sequence[Key]) -> list[Key]:
        """`keys` as this database orders them."""
        ...
