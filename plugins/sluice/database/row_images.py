"""How a source of changes writes rows and definitions into its items, and what reads them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sluice.errors import SluiceError
from sluice.model.table_definition import TableDefinition

if TYPE_CHECKING:
    import pyarrow as pa


class MixedShapes(SluiceError):
    """Rows of different columns lie in one batch: a change of definition is among them.

    No failure by itself: the batch must be applied change by change. `names` are the columns of
    the first row, `content` is a row that has others.
    """

    def __init__(self, names: Sequence[str], content: str):
        super().__init__(f"A row has other columns than {', '.join(names)}: {content[:200]!r}")
        self.names = tuple(names)
        self.content = content


class RowImageCodec(Protocol):
    """Reads the columns `content` and `oldcontent` of items (`sluice.database.items`).

    `content` is a row after its change; `oldcontent` one before it: whole of a DELETE, of an UPDATE the columns that
    were other, and the key. What is no row raises `Terminal`.
    """

    def row(self, content: str) -> dict[str, str | None]:
        """One row: the text of each column, None for NULL; in the columns' order."""
        ...

    def is_partial(self, content: str) -> bool:
        """Whether the row leaves columns out, whose values the source does not know."""
        ...

    def columns(self, contents: "pa.Array | pa.ChunkedArray", names: Sequence[str]) -> "list[pa.Array]":
        """Of many rows the values of each of `names` (the columns of every row, in order) as large_string arrays.

        `contents`: large_string without nulls. Raises `MixedShapes`.
        """
        ...

    def overlay(
        self,
        values: "Sequence[pa.Array]",
        names: Sequence[str],
        oldcontents: "pa.Array | pa.ChunkedArray",
        skip: Sequence[str] = (),
    ) -> "list[pa.Array]":
        """Rows before an UPDATE: `values` (one array a column), overlaid with the columns that `oldcontents` name.

        A column that none of them names comes back as the very same array, and so do those in `skip`.
        """
        ...

    def definition(self, content: str) -> TableDefinition:
        """The definition of a table that an item of a change of definition brings."""
        ...

    def as_content(self, items: "pa.Table") -> "pa.Table":
        """The same items, their rows and definitions written as ITEMS has them (`sluice.model.content`,
        `sluice.model.table_definition`): so a slave replays them one by one, and REJECTS keeps them.
        """
        ...
