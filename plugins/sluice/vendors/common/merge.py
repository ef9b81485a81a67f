"""Stages net changes of a window, and merges them as sets of rows, if the server checks unique values row by row.

All deletes come first: rows that are deleted, and the former versions of rows whose key or unique values change. Then
other rows are updated, and new ones inserted. The vendor provides the statements.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from sluice.database.apply import ApplyTarget, Staged, Stager
from sluice.database.conflicts import Collision, CommitRefused, RowStays
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.vendors.common.slave_tables import SlaveTable, SlaveTables

ACTIONS = {"deletes": "DELETE", "updates": "UPDATE", "moves": "UPDATE", "inserts": "INSERT"}

T = TypeVar("T", bound=SlaveTable)  # type: ignore[type-arg]


@dataclass(frozen=True)
class StageTable:
    """Rows of one kind in a table of the slave, temporary or not."""

    table: str
    """Its quoted name."""
    columns: tuple[str, ...]
    """`c1`, `k2`, `b3`, `copies`, see `NetChanges`."""
    rows: int
    expected: int
    """The number of rows of the slave that they represent, with copies."""


@dataclass(frozen=True)
class StagedSets(Staged):
    """Net changes in stage tables of the slave."""

    sets: Mapping[str, StageTable] = field(default_factory=dict)
    """By the kinds of `NetChanges`."""


class PlainStager(Stager, ABC, Generic[T]):
    """Stages net changes over one session."""

    def __init__(self, connection: Session, targets: SlaveTables[T]):
        self.connection = connection
        self.targets = targets

    @abstractmethod
    def filled(self, name: str, changes: NetChanges, kind: str, target: T) -> StageTable:
        """Makes a table of that name, in place of one that is there, with the rows of one kind. Raises `ValueUnfit`,
        `ColumnMissing`."""

    def load(self, tables: Iterable[TableName]) -> None:
        self.targets.load(tables)

    def put(self, changes: NetChanges, *, prefix: Prefix, schema: str, epoch: int, number: str) -> StagedSets:
        target, begin = self.targets[changes.table], f"{prefix.lower}stage_{epoch}_{number}"
        sets = {kind: self.filled(f"{begin}_{kind}", changes, kind, target) for kind in kinds_of(changes)}
        return StagedSets(changes.table, changes.columns, changes.key, changes.changes, changes.compared, sets)


def kinds_of(changes: NetChanges) -> list[str]:
    """The kinds of which there are rows."""
    return [kind for kind, rows in changes.by_kind.items() if rows.num_rows]


class PlainApplyTarget(ApplyTarget, ABC):
    """The part of `ApplyTarget` that vendors share."""

    row_stays = RowStays

    @abstractmethod
    def stages(self, connection: Session, begin: str) -> Sequence[str]:
        """The tables of Sluice's own whose names begin so."""

    @abstractmethod
    def drop_stage(self, connection: Session, name: str) -> None: ...

    def drop_stages(self, connection: Session, prefix: Prefix, schema: str, *, below: int) -> int:
        begin = f"{prefix.lower}stage_"
        pattern = re.compile(re.escape(begin) + r"(\d+)_")
        names = self.stages(connection, begin)
        outdated = [name for name in names if (match := pattern.match(name)) and int(match[1]) < below]
        for name in outdated:
            self.drop_stage(connection, name)
        return len(outdated)

    def at_commit(self, error: BaseException | None, hides: Callable[[TableName], bool]) -> CommitRefused | None:
        """None: what is checked at the commit, if anything, names its constraint."""
        return None


class Rows(Protocol):
    """Rows of one kind, as the vendor's statements take them."""

    @property
    def columns(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True)
class RowSet(Generic[T, R]):
    """Rows of one kind of one table."""

    kind: str
    target: T
    columns: tuple[str, ...]
    key: tuple[str, ...]
    compared: bool
    """Each of the slave's rows must look as it did on the master."""
    rows: R

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of each row: `c1`, `k2`, `b3`, `copies`, see `NetChanges`."""
        return self.rows.columns

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


class Merger(ABC, Generic[T, R, S]):
    """Merges net changes over one session: the order of the statements."""

    row_set: type[S]
    replacing = False
    """Whether safe mode deletes the rows that it replaces, so that a row with another key may do the same."""

    def __init__(self, connection: Session, targets: SlaveTables[T], *, cascades: bool):
        self.connection = connection
        self.targets = targets
        self.cascades: bool = cascades

    @abstractmethod
    def rows_of(self, changes: NetChanges, kind: str, number: int, target: T) -> R:
        """The rows of one kind of the changes with this number."""

    @abstractmethod
    def rows_in(self, staged: StageTable) -> R: ...

    def in_order(self, sets: list[S]) -> list[S]:
        """The sets in an order in which foreign keys allow their rows to come."""
        return sets

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
        """Safe mode: writes the row, regardless of what had its key before."""

    def merge(self, changes: Iterable[NetChanges | Staged], *, safe: bool = False) -> None:
        """Applies the net changes of a window (or slice). Several of one table must not share keys."""
        applied = [change for change in changes if isinstance(change, Staged) or change.rows]
        self.targets.load(change.table for change in applied)
        # Outside of the savepoint: what is staged here is no change of the slave's tables.
        sets = self.in_order([one for number, change in enumerate(applied) for one in self._sets(change, number, safe)])
        if sets:
            self.apply(sets, safe, self._anew(sets, safe))

    def apply(self, sets: Sequence[S], safe: bool, again: Collection[TableName]) -> None:
        """`sets`: parents before their children. `again`: tables whose changed rows are deleted and inserted."""
        with self.connection.transaction():
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

    def _sets(self, change: NetChanges | Staged, number: int, safe: bool) -> list[S]:
        target = self.targets[change.table]
        if isinstance(change, NetChanges):
            sets = {kind: self.rows_of(change, kind, number, target) for kind in kinds_of(change)}
        else:
            assert isinstance(change, StagedSets), "staged on another vendor's slave"
            sets = {kind: self.rows_in(staged) for kind, staged in change.sets.items()}
        compared = change.compared and not safe and bool(change.key)
        return [self.row_set(kind, target, change.columns, change.key, compared, rows) for kind, rows in sets.items()]

    def _anew(self, sets: Sequence[S], safe: bool) -> set[TableName]:
        """Tables whose changed rows are deleted and inserted: others may need the unique values that they had."""
        again = set()
        for each in sets:
            own = each.target.has_own(each.columns)
            stays = own or not each.target.may_come_anew
            if safe and each.kind == "moves" and (own if self.replacing else stays):
                raise Collision(each.target.table, "keys of its rows change, which may not go and come")
            if not safe and each.changes_unique_values:
                if stays:
                    raise Collision(
                        each.target.table, "unique values of its rows change, and these may not go and come"
                    )
                again.add(each.target.table)
        return again
