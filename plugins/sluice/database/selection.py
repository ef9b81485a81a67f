"""Parts of a table that a person names: by keys, or by a condition in the vendor's SQL."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from sluice.database.names_tables import NamesTables
from sluice.database.rows import KeyOrder
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.model.blocks import Key
from sluice.model.key_ranges import Match
from sluice.model.shape import TableShape


class SelectionInvalid(Terminal):
    """What a person wrote names no part of the table."""


class NotEvaluated(Transient):
    """A condition could not be evaluated just now."""


class RowSelection(NamesTables, Protocol):
    """Over a session in autocommit. Raises `SelectionInvalid` or `NotEvaluated` for a condition it cannot evaluate."""

    def key_of(self, connection: Session, shape: TableShape, text: str) -> Key:
        """A key as a person writes it: the value, or a JSON list of one value a key column; its canonical texts.

        Raises `SelectionInvalid`.
        """
        ...

    def check(self, connection: Session, order: KeyOrder, where: str, place: str) -> None:
        """Raises `SelectionInvalid` for a condition that this database, named `place`, does not understand."""
        ...

    def runs(self, connection: Session, order: KeyOrder, where: str, lo: Key | None, hi: Key | None) -> Iterator[Match]:
        """The runs of neighbouring rows for which `where` holds, in key order, between `lo` and `hi`.

        Each ends where the next row begins for which it does not. Reads the table once.
        """
        ...

    def matching(self, connection: Session, order: KeyOrder, where: str) -> Iterator[list[Key]]:
        """The keys of the rows for which `where` holds, some at a time."""
        ...

    def in_order(self, connection: Session, shape: TableShape, keys: Sequence[Key]) -> list[Key]:
        """`keys` as this database orders them."""
        ...
