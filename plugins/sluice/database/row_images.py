"""Reading rows and definitions in the items of a source of changes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sluice.errors import SluiceError
from sluice.model.change import RowChange
from sluice.model.names import TableName
from sluice.model.table_definition import Bound, TableDefinition

if TYPE_CHECKING:
    import pyarrow as pa


class MixedShapes(SluiceError):
    """Rows of one batch have different columns, because a definition changed among them.

    This is no failure: the batch must be applied change by change. `names`: the columns of the first row.
    """

    def __init__(self, names: Sequence[str]):
        super().__init__(f"A row has other columns than {', '.join(names)}.")


class RowImageCodec(Protocol):
    """Reads the columns `content` and `oldcontent` of items (`sluice.database.items`).

    `content` is the row after its change; `oldcontent` the row before it: complete for a DELETE, for an UPDATE the
    columns that differ, and the key. What is no row raises `Terminal`.
    """

    def row(self, content: str) -> dict[str, str | None]:
        """One row: the text of each column, None for NULL; in the columns' order."""
        ...

    def is_partial(self, content: str) -> bool:
        """Whether the row lacks columns, because the source does not know their values."""
        ...

    def columns(self, contents: "pa.Array | pa.ChunkedArray", names: Sequence[str]) -> "list[pa.Array]":
        """The values of many rows, as one large_string array for each of `names`, which are the rows' columns in order.

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

        A column that none of them names, or that is in `skip`, is returned as the same array object.
        """
        ...

    def definition(self, content: str) -> TableDefinition:
        """The definition in an item of a change of definition."""
        ...

    def bound(self, content: str) -> Bound:
        """Which rows a DELETE WHERE item deletes."""
        ...

    def changes(self, items: "pa.Table", keys: Mapping[TableName, Sequence[str]]) -> Iterator[RowChange]:
        """The items of row changes, one by one. `keys`: of each table. Raises `KeyError` for a missing key column."""
        ...

    def written(
        self,
        names: Sequence[str],
        values: "Sequence[pa.Array]",
        only: "Sequence[pa.Array | None]" = (),
        plain: Collection[str] = (),
    ) -> "pa.Array":
        """Writes rows as texts for `columns` and `overlay`. `only`: for each column which rows name it; None: all.

        `plain`: columns whose values are unchanged, and were `is_plain` where they were read.
        """
        ...

    def is_plain(self, contents: "pa.Array") -> bool:
        """Whether no value of these rows is escaped in its text."""
        ...
