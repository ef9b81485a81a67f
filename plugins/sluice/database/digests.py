"""Digests of a table's blocks and rows for a comparison, computed by each side itself."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sluice.database.column_types import ColumnTypes
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.logical_type import UNKNOWN, LogicalType
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.model.vendors import VENDORS

ROWS_A_BLOCK = 1_250
MOST_BLOCKS = 8_192

Texts = tuple[str | None, ...]
"""The canonical texts of columns of one row."""
Part = tuple[int, int | None] | None
"""A part of a table that is read by one query, in a vendor's own terms; None: the whole table."""
DigestedRow = tuple[int, *Texts]
"""A row's digest, and the texts of its key."""
Copies = tuple[int, *Texts]
"""How many copies of a row a keyless table has, and the texts of its columns."""


class Method(StrEnum):
    """How a row's text is hashed to 64 bits."""

    HASH = "hash64"
    """The server's own hash: the fastest, equal on servers of the same kind."""
    MD5 = "md5"
    """The first half of the MD5 of the row's text, which servers of one vendor write alike."""
    CANONICAL = "md5 of canonical texts"
    """The first digits of the MD5 of the canonical texts, which are equal on every vendor (docs/types.md)."""


@dataclass(frozen=True)
class Compared:
    """A column that is compared."""

    name: str
    type: str
    """The type of the slave's column, in its vendor's words."""
    logical: LogicalType = UNKNOWN
    """Its logical type, for `Method.CANONICAL`."""


@dataclass(frozen=True)
class ComparedTable:
    """A table whose rows are read as texts, to compare or repair them."""

    table: TableName
    columns: tuple[Compared, ...]
    key: tuple[str, ...] = ()
    """Empty for a keyless table."""
    canonical: bool = False
    """Texts are canonical, see `by_canonical_texts`."""


def compared(slave: ColumnTypes, columns: Iterable[tuple[str, str]]) -> tuple[Compared, ...]:
    """The columns to compare, from names and types of the slave's columns."""
    return tuple(Compared(name, kind, slave.logical(kind)) for name, kind in columns)


def by_canonical_texts(master: str, slave: str) -> bool:
    """Whether rows are compared by canonical texts: if the vendors differ, or lack cheaper texts that are alike."""
    return master != slave or not VENDORS[master].own_texts


class TableDigest(Protocol):
    """Computes the digests of one side's table."""

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
        """The bounds of blocks in the key's first column; empty where blocks are classes of hashes."""
        ...

    def parts(self, connection: Session) -> Sequence[Part]:
        """The parts in which the table is read."""
        ...

    def of_blocks(self, connection: Session, part: Part) -> list[tuple[int, int, str]]:
        """For each block in `part`: its number, its number of rows, and the sum of their digests as text, modulo 2^64
        or not."""
        ...

    def of_rows(self, connection: Session, blocks: Collection[int]) -> list[DigestedRow]:
        """The rows of `blocks`: digest, and texts of the key."""
        ...

    def copies(self, connection: Session, blocks: Collection[int]) -> list[Copies]:
        """For a keyless table: the distinct rows of `blocks`, with their numbers of copies."""
        ...

    def rows_of_keys(
        self, connection: Session, keys: Sequence[Texts]
    ) -> list[tuple[Texts, dict[str, str | None] | None]]:
        """For each of `keys` the key and its row, or None."""
        ...

    def converted(self, connection: Session, name: str, texts: Sequence[str | None]) -> list[str | None]:
        """Converts values of a column in changes to the form in which rows are compared."""
        ...

    def drawn(self, connection: Session, rows: int, count: int) -> list[Key]:
        """The keys of about `count` random rows of the table, which has about `rows`."""
        ...


def rows_under(
    rows: Iterable[tuple[Texts, dict[str, str | None] | None]], of: ComparedTable, *, alike: bool
) -> list[Texts | None]:
    """The rows of `TableDigest.found`; unless `alike`, None if a key is equal but its texts are not."""
    return [
        None
        if row is None or (not alike and tuple(row[name] for name in of.key) != texts)
        else tuple(row[column.name] for column in of.columns)
        for texts, row in rows
    ]


class Digester(Protocol):
    """Makes `TableDigest`s, over sessions that see one moment."""

    def table(
        self,
        shape: TableShape,
        columns: tuple[Compared, ...],
        key: tuple[str, ...],
        method: Method,
        bounds: tuple[str, ...] = (),
        classes: int = 1,
    ) -> TableDigest:
        """`bounds`: of blocks. `classes`: the number of hash classes if there are no bounds, a power of two."""
        ...

    def hold(self, connection: Session, table: TableShape) -> None:
        """Locks the table's definition until the transaction ends."""
        ...

    def encoding(self, connection: Session) -> str:
        """The database's encoding of texts, such as UTF8."""
        ...

    def probe(self, connection: Session, method: Method) -> list[int] | None:
        """This server's digests of fixed values; None if it lacks the method."""
        ...

    def ranged(self, type_name: str) -> bool:
        """Whether every database orders values of the type alike."""
        ...

    def bounds(self, connection: Session, shape: TableShape, rows: int) -> list[str]:
        """Bounds of blocks of about `ROWS_A_BLOCK` rows, for (about) `rows`; empty if one block is enough."""
        ...
