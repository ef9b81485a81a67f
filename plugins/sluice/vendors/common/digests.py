"""Digests over canonical texts, as vendors share them whose servers have no hash of their own that Sluice uses.

Blocks are ranges of a key that is one whole number, or begins with one; else classes of the key's hash, of the whole
row's for a table without a key. A block's digest is how many rows it has and the sum of theirs.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sluice.database.digests import Compared, Method, Part
from sluice.database.session import Session
from sluice.model.logical_type import Kind
from sluice.model.shape import TableShape

SHOWN = frozenset(
    {Kind.INTEGER, Kind.NUMBER, Kind.FLOAT, Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE}
    | {Kind.UUID}
)
"""Kinds whose texts are in a row's text as they are; of all others their MD5."""
DIGITS = 15
"""The number of hexadecimal digits of an MD5 that form a number."""


@dataclass(frozen=True)
class Digest(ABC):
    """The digest of a table: the texts of its statements, and their results."""

    shape: TableShape
    columns: tuple[Compared, ...]
    key: tuple[str, ...]
    bounds: tuple[str, ...] = ()
    classes: int = 1

    @abstractmethod
    def text(self, name: str) -> str:
        """The expression of a column in a query."""

    @property
    def names(self) -> list[str]:
        """The compared columns."""
        return [column.name for column in self.columns]

    @property
    def kinds(self) -> dict[str, Kind]:
        return {column.name: column.logical.kind for column in self.columns}

    def parts(self, connection: Session) -> Sequence[Part]:
        return [None]


class Digester:
    """The part of `sluice.database.digests.Digester` that vendors share."""

    def encoding(self, connection: Session) -> str:
        return "UTF8"

    def probe(self, connection: Session, method: Method) -> list[int] | None:
        """Empty: Sluice uses no digest of the server."""
        return None


def in_blocks(column: str, bounds: Sequence[str], blocks: Collection[int]) -> str:
    """The condition that `column` is in one of `blocks`, of which each but the first begins at one of `bounds`."""
    conditions = []
    for number in sorted(blocks):
        ends = [f"{column} >= {bounds[number - 1]}"] if number > 0 else []
        ends += [f"{column} < {bounds[number]}"] if number < len(bounds) else []
        conditions.append(f"({' AND '.join(ends) or '1 = 1'})")
    return " OR ".join(conditions)
