"""Digests of PostgreSQL's tables for comparisons (`sluice.database.digests.Digester`)."""

from collections.abc import Collection, Sequence

from sluice.database.digests import Compared, Copies, DigestedRow, Digester, Method, Part, Texts
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.shape import TableShape
from sluice.vendors.postgres import digest
from sluice.vendors.postgres.canonical import CanonicalDigest
from sluice.vendors.postgres.connection import native
from sluice.vendors.postgres.source import snapshot


class TableDigest(digest.Digest):
    """Its statements, run."""

    def parts(self, connection: Session) -> Sequence[Part]:
        return digest.pages(connection, self.shape)

    def of_blocks(self, connection: Session, part: Part) -> list[tuple[int, int, str]]:
        row = native(connection).cursor(binary=True).execute(self.blocks(part).encode()).fetchone()
        assert row is not None
        return digest.unpacked(*(value or b"" for value in row))

    def of_rows(self, connection: Session, blocks: Collection[int]) -> list[DigestedRow]:
        return connection.execute(self.rows(blocks).encode()).fetchall()

    def copies(self, connection: Session, blocks: Collection[int]) -> list[Copies]:
        return connection.execute(self.counts(blocks).encode()).fetchall()

    def rows_of_keys(
        self, connection: Session, keys: Sequence[Texts]
    ) -> list[tuple[Texts, dict[str, str | None] | None]]:
        return digest.rows_of_keys(connection, self, keys)

    def converted(self, connection: Session, name: str, texts: Sequence[str | None]) -> list[str | None]:
        text = self.as_compared(name, "v")
        result = connection.execute(
            f"SELECT {text} FROM unnest(%s::text[]) WITH ORDINALITY AS u (v, n) ORDER BY n".encode(), [list(texts)]
        )
        return [value for (value,) in result.fetchall()]

    def drawn(self, connection: Session, rows: int, count: int) -> list[Key]:
        return digest.drawn(connection, self, rows, count)


class CanonicalTableDigest(CanonicalDigest, TableDigest):
    """The same over canonical texts."""


class PostgresDigester(Digester):
    """Digests of tables, by a hash of the server or over canonical texts."""

    bounds = staticmethod(digest.bounds)
    encoding = staticmethod(digest.encoding)
    probe = staticmethod(digest.probe)
    hold = staticmethod(snapshot.lock)

    def table(
        self,
        shape: TableShape,
        columns: tuple[Compared, ...],
        key: tuple[str, ...],
        method: Method,
        bounds: tuple[str, ...] = (),
        classes: int = 1,
    ) -> TableDigest:
        digest_class = CanonicalTableDigest if method is Method.CANONICAL else TableDigest
        return digest_class(shape, columns, key, method, bounds, classes)

    def ranged(self, type_name: str) -> bool:
        return type_name in digest.RANGED
