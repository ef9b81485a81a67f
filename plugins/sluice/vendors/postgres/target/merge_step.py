"""A step of a merge: rows of one table, and how they are applied."""

from dataclasses import dataclass
from functools import cached_property

from sluice.vendors.postgres.target import merge_statements, stage
from sluice.vendors.postgres.target.slave_tables import SlaveColumn, SlaveTable
from sluice.vendors.postgres.target.stage import Rows, Source

SMALL_ROWS = 2_000
SMALL_BYTES = 1 << 20
"""Up to this size rows are sent as parameters of the statement: no stage table, one round trip for all tables."""

# Kinds of steps: first those that delete, children before parents; then the others, parents before children.
FIRST = ("delete", "remove")
THEN = ("update", "move", "upsert", "insert")
# The kind of step that each table of `NetChanges` becomes, in normal and in safe mode.
STRICT = {"deletes": "delete", "updates": "update", "moves": "move", "inserts": "insert"}
SAFE = {"deletes": "delete", "updates": "upsert", "inserts": "upsert"}
# The action in messages.
ACTION = {
    "delete": "DELETE",
    "remove": "DELETE",
    "update": "UPDATE",
    "move": "UPDATE",
    "upsert": "UPDATE",
    "insert": "INSERT",
}


@dataclass(frozen=True)
class MergeStep:
    """One set of rows of one table, applied by one kind of statement."""

    kind: str
    """delete, remove (copies), update, move, upsert (update, then insert what is absent), insert."""
    target: SlaveTable
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: Rows
    counted: bool
    """Whether it must touch exactly `rows.count` rows."""
    compared: bool
    """Whether each of those must have the old image's values."""
    cascades: bool
    """Foreign keys of the slave act in this session."""

    @cached_property
    def typed(self) -> list[SlaveColumn | None]:
        return stage.labels(self.target, self.columns, self.key, self.rows.names)

    @property
    def small(self) -> bool:
        rows = self.rows.arrow
        if rows is None or rows.num_rows > SMALL_ROWS or rows.nbytes > SMALL_BYTES:
            return False
        return all(column is None or column.castable for column in self.typed)

    @property
    def key_places(self) -> list[str]:
        """The source's columns with the key under which the slave has the row."""
        if "k1" in self.rows.names:
            return [f"k{number}" for number in range(1, len(self.key) + 1)]
        return [f"c{self.columns.index(name) + 1}" for name in self.key]

    @property
    def images(self) -> list[tuple[SlaveColumn, str]]:
        """The columns that are compared, and the source's columns with their former values."""
        if not self.compared:
            return []
        numbered = ((self.target.column(name), f"b{number}") for number, name in enumerate(self.columns, start=1))
        return [
            (column, self.rows.image(place))
            for column, place in numbered
            if column.name not in self.key and column.comparable(self.cascades)
        ]

    @property
    def same_key(self) -> str:
        return merge_statements.same_key(self.target, self.key, self.key_places)

    def texts(self, source: Source) -> list[str]:
        """The statements, in order."""
        target, columns, sql = self.target, self.columns, source.sql
        if self.kind == "remove":
            return [merge_statements.remove(target, columns, sql)]
        if self.kind == "insert":
            return [merge_statements.insert(target, columns, sql)]
        match = " AND ".join([self.same_key, *merge_statements.same_images(self.images)])
        if self.kind == "delete":
            return [merge_statements.delete(target, sql, match)]
        if self.kind == "move":
            return [merge_statements.update(target, columns, sql, match)]
        update = merge_statements.update(target, columns, sql, match, skip=self.key)
        if self.kind == "update":
            return [update]
        return [
            update,
            merge_statements.insert(target, columns, sql, merge_statements.absent(target, match), self.key_places),
        ]
