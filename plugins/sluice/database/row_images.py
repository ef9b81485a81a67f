"""How a source of changes writes rows and definitions into its items, and what reads them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sluice.errors import SluiceError
from sluice.model.change import RowChange
from sluice.model.names import TableName
from sluice.model.table_definition import Bound, TableDefinition

if TYPE_CHECKING:
    import pyarrow as pa


class MixedShapes(SluiceError):
    """Rows of different columns lie in one batch: a change of definition is among them.

    No failure by itself: the batch must be applied change by change. `names` are the columns of the first row. Values
    are not said: they would be in logs.
    """

    def __init__(self, names: Sequence[str]):
        super().__init__(f"A row has other columns than {', '.join(names)}.")
        self.names = tuple(names)


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

    def bound(self, content: str) -> Bound:
        """Which rows an item says that went with a partition."""
        ...

    def changes(self, items: "pa.Table", keys: Mapping[TableName, Sequence[str]]) -> Iterator[RowChange]:
        """Items that change rows, one by one; `keys`: of each table. `KeyError` for a key column that a row lacks."""
        ...

    def written(
        self,
        names: Sequence[str],
        values: "Sequence[pa.Array]",
        only: "Sequence[pa.Array | None]" = (),
        plain: Collection[str] = (),
    ) -> "pa.Array":
        """Rows as texts that `columns` and `overlay` read. `only`: for each column which rows name it; None: all.

        `plain`: columns that were `is_plain` where they were read, and whose values are the same.
        """
        ...

    def is_plain(self, contents: "pa.Array") -> bool:
        """Whether every value of these rows stands in its text as it is."""
        ...
