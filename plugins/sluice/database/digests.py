"""What a database offers to a comparison: digests of a table's blocks and rows, each side its own."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sluice.database.column_types import ColumnTypes
from sluice.database.names_tables import NamesTables
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.logical_type import UNKNOWN, LogicalType
from sluice.model.shape import TableShape
from sluice.model.vendors import VENDORS

ROWS_A_BLOCK = 1_000
MOST_BLOCKS = 8_192

Texts = tuple[str | None, ...]
"""The canonical texts of columns of one row."""
Part = tuple[int, int | None] | None
"""A part of a table that is read at once, in the vendor's own terms; None: the whole table."""


DigestedRow = tuple[int, *Texts]
"""A row's digest, and the texts of its key."""
Copies = tuple[int, *Texts]
"""How often a table without a key has a row, and the texts of its columns."""


class Method(StrEnum):
    """How a text becomes 64 bits."""

    HASH = "hash64"
    """The server's own: the fastest, and alike on servers of one kind."""
    MD5 = "md5"
    """The first half of the MD5 of a text that servers of one vendor write alike."""
    CANONICAL = "md5 of canonical texts"
    """The first digits of the MD5 of the canonical texts: alike on every vendor (docs/types.md)."""


@dataclass(frozen=True)
class Compared:
    """A column of both sides, as it is compared."""

    name: str
    type: str
    """That of the slave's column, in its vendor's words."""
    logical: LogicalType = UNKNOWN
    """What that is, for `Method.CANONICAL`."""


def compared(slave: ColumnTypes, columns: Iterable[tuple[str, str]]) -> tuple[Compared, ...]:
    """Names and types of the slave's columns, as they are compared."""
    return tuple(Compared(name, kind, slave.logical(kind)) for name, kind in columns)


def by_canonical_texts(master: str, slave: str) -> bool:
    """Whether rows are compared by their canonical texts: where the vendors differ, or have no forms of their own that
    are alike and cost less.
    """
    return master != slave or not VENDORS[master].own_texts


class TableDigest(NamesTables, Protocol):
    """How one side's table is digested: what is compared, and into which blocks it falls."""

    @property
    def shape(self) -> TableShape:
        """This side's table."""
        ...

    @property
    def columns(self) -> tuple[Compared, ...]:
        """The compared columns."""
        ...

    @property
    def bounds(self) -> tuple[str, ...]:
        """Where blocks of the key's first column end; empty: blocks are classes of hashes."""
        ...

    def parts(self, connection: Session) -> Sequence[Part]:
        """The parts in which the table is read."""
        ...

    def of_blocks(self, connection: Session, part: Part) -> list[tuple[int, int, str]]:
        """Of each block in `part`: its number, how many rows, the sum of their digests as text, modulo 2^64 or not."""
        ...

    def of_rows(self, connection: Session, blocks: Collection[int]) -> list[DigestedRow]:
        """Of each row in `blocks`: its digest, the texts of its key."""
        ...

    def copies(self, connection: Session, blocks: Collection[int]) -> list[Copies]:
        """Of a table without a key: each distinct row in `blocks`."""
        ...

    def found(self, connection: Session, keys: Sequence[Texts]) -> list[tuple[Texts, dict[str, str | None] | None]]:
        """For each of `keys` the row that the table has under it, or None."""
        ...

    def converted(self, connection: Session, name: str, texts: Sequence[str | None]) -> list[str | None]:
        """Values of a column, as changes bring them: in the form in which rows are compared."""
        ...

    def drawn(self, connection: Session, rows: int, wanted: int) -> list[Key]:
        """The keys of about `wanted` rows, each of the table's (about) `rows` drawn with the same chance."""
        ...


def rows_under(
    found: Iterable[tuple[Texts, dict[str, str | None] | None]],
    key: Sequence[str],
    columns: Sequence[Compared],
    *,
    alike: bool,
) -> list[Texts | None]:
    """The rows that `TableDigest.found` gave; None where a key is equal and its texts are not, unless `alike`."""
    return [
        None
        if row is None or (not alike and tuple(row[name] for name in key) != texts)
        else tuple(row[column.name] for column in columns)
        for texts, row in found
    ]


class Digester(NamesTables, Protocol):
    """Over sessions that see one moment."""

    def table(
        self,
        shape: TableShape,
        columns: tuple[Compared, ...],
        key: tuple[str, ...],
        method: Method,
        bounds: tuple[str, ...] = (),
        classes: int = 1,
    ) -> TableDigest:
        """`bounds`: where blocks end. `classes`: how many there are where there are no bounds, a power of two."""
        ...

    def hold(self, connection: Session, table: TableShape) -> None:
        """Keeps the table's definition as it is until the transaction ends."""
        ...

    def encoding(self, connection: Session) -> str:
        """What the database keeps texts in, such as UTF8."""
        ...

    def probe(self, connection: Session, method: Method) -> list[int] | None:
        """What this server makes of values that are the same everywhere; None where it lacks the method."""
        ...

    def ranged(self, type_name: str) -> bool:
        """Whether every database orders values of the type alike."""
        ...

    def bounds(self, connection: Session, shape: TableShape, rows: int) -> list[str]:
        """Where blocks of about `ROWS_A_BLOCK` of the table's (about) `rows` may end; empty where one will do."""
        ...
