"""Merges net changes as sets of rows, if the server checks unique values row by row.

So all deletes come first: rows that are deleted, and the former versions of rows whose key or unique values change.
Then other rows are updated, and new ones inserted. The vendor provides the statements.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sluice.model.names import TableName
from sluice.vendors.common.slave_tables import SlaveTable

ACTIONS = {"deletes": "DELETE", "updates": "UPDATE", "moves": "UPDATE", "inserts": "INSERT"}

T = TypeVar("T", bound=SlaveTable)  # type: ignore[type-arg]


@dataclass(frozen=True)
class RowSet(Generic[T]):
    """Rows of one kind of one table."""

    kind: str
    names: tuple[str, ...]
    """The columns of each row: `c1`, `k2`, `b3`, `copies`, see `NetChanges`."""
    target: T
    columns: tuple[str, ...]
    key: tuple[str, ...]
    compared: bool
    """Each of the slave's rows must look as it did on the master."""

    @property
    def changed(self) -> bool:
        """Whether its rows exist before and afterwards."""
        return self.kind in ("updates", "moves")

    @property
    def key_places(self) -> list[str]:
        """The places in a row of the key that the slave has."""
        if "k1" in self.names:
            return [f"k{number}" for number in range(1, len(self.key) + 1)]
        return self.new_key_places

    @property
    def new_key_places(self) -> list[str]:
        return [f"c{self.columns.index(name) + 1}" for name in self.key]

    @property
    def images(self) -> list[tuple[str, str]]:
        """The columns that are compared, with the places of their old values: an unchanged column has no `b`."""
        if not self.compared or self.kind == "inserts":
            return []
        images = []
        for number, name in enumerate(self.columns, start=1):
            if name in self.key or self.target.column(name).generated:
                continue
            place = f"b{number}" if f"b{number}" in self.names else f"c{number}"
            if place in self.names:
                images.append((name, place))
        return images

    @property
    def changes_unique_values(self) -> bool:
        """Whether it may change a value that another row needs; without old images that is unknown."""
        watched = {name for index in self.target.uniques_beside(self.key) for name in index.columns}
        if self.kind == "moves":
            watched |= set(self.key)
        if not watched or not self.changed:
            return False
        if not self.compared or self.kind == "moves":
            return True
        return bool(watched & {self.columns[int(place[1:]) - 1] for place in self.names if place[0] == "b"})


S = TypeVar("S", bound=RowSet)  # type: ignore[type-arg]


class Merger(ABC, Generic[S]):
    """The order of a merge's statements."""

    @abstractmethod
    def delete(self, each: S, *, safe: bool) -> None:
        """Deletes rows of a table with a key; in normal mode all must exist, as they were on the master."""

    @abstractmethod
    def remove(self, each: S) -> None:
        """Deletes copies of rows of a table without a key."""

    @abstractmethod
    def update(self, each: S) -> None: ...

    @abstractmethod
    def insert(self, each: S) -> None: ...

    @abstractmethod
    def put(self, each: S) -> None:
        """Safe mode: afterwards the row exists, whatever had its key."""

    def apply(self, sets: Sequence[S], safe: bool, again: Collection[TableName]) -> None:
        """`sets`: parents before their children. `again`: tables whose changed rows are deleted and inserted."""
        for each in reversed(sets):
            if each.kind == "deletes":
                self.delete(each, safe=safe) if each.key else self.remove(each)
        for each in reversed(sets):
            if each.changed and (each.target.table in again or (safe and each.kind == "moves")):
                self.delete(each, safe=safe)
        for each in sets:
            if each.changed:
                if each.target.table in again:
                    self.insert(each)
                else:
                    self.put(each) if safe else self.update(each)
            elif each.kind == "inserts":
                self.put(each) if safe and each.key else self.insert(each)
