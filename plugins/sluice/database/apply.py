"""What a slave offers to an apply: changes merged, replayed and staged, definitions followed, rows read for repairs."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluice.database.column_types import ColumnTypes
from sluice.database.conflicts import Conflict, Unsettled
from sluice.database.digests import Texts
from sluice.database.names_tables import NamesTables
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import NO_RULES, ConflictRule
from sluice.model.foreign_key import ForeignKey
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import Prefix, TableName
from sluice.model.reject import Rejected
from sluice.model.table_definition import Bound, TableDefinition


@dataclass(frozen=True)
class Acting:
    """A foreign key that changes or deletes rows by itself. `definition` as ADD CONSTRAINT takes it."""

    name: str
    definition: str
    key: ForeignKey


@dataclass(frozen=True)
class DisplacedRow:
    """A row that had to go because `change` needs a unique value that it held."""

    change: RowChange
    key: Texts
    """The values of `change.key`, as texts."""

    @property
    def table(self) -> TableName:
        return self.change.table

    @property
    def row(self) -> dict[str, str | None]:
        """Its key."""
        return dict(zip(self.change.key, self.key, strict=True))

    def __str__(self) -> str:
        row = self.change.mask.row(self.table, self.row)
        return f"{self.table}, row {_named(row)} (it held a value that row {_named(self.change.shown)} has)"


@dataclass
class Replayed:
    changes: int = 0
    rejects: list[Rejected] = field(default_factory=list)
    displaced: dict[tuple[TableName, Texts], DisplacedRow] = field(default_factory=dict)
    """Safe mode: rows that had to go, whatever became of them later."""

    def passed(self, changes: Iterable[RowChange]) -> None:
        """These were applied after what is set aside by now."""
        rows: dict[tuple[object, ...], list[Rejected]] = {}
        for reject in self.rejects:
            for row in rows_of(reject.change):
                rows.setdefault(row, []).append(reject)
        for change in changes if rows else ():
            for row in rows_of(change):
                for reject in rows.get(row, ()):
                    reject.newer = max(reject.newer or 0, change.repl_key)


@dataclass(frozen=True)
class Staged:
    """Net changes that lie on the slave, beside its tables; small enough to travel to the driver."""

    table: TableName
    columns: tuple[str, ...]
    key: tuple[str, ...]
    changes: int
    compared: bool
    """As of `NetChanges`."""


class DefinitionChange(Protocol):
    """What a definition's change consists of."""

    @property
    def action(self) -> Action: ...
    @property
    def table(self) -> TableName: ...
    @property
    def defined(self) -> TableDefinition | None:
        """What the table is now."""
        ...

    @property
    def former(self) -> TableDefinition | None:
        """What it was."""
        ...

    @property
    def bound(self) -> Bound | None:
        """Which rows went with a partition."""
        ...


class ColumnOnSlave(Protocol):
    """One column of a slave's table."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def generated(self) -> str: ...


class TableOnSlave(Protocol):
    @property
    def watched(self) -> bool:
        """Whether a row that goes and comes back is not the same to foreign keys and triggers."""
        ...

    def column(self, name: str) -> ColumnOnSlave:
        """Raises `ColumnMissing`."""
        ...


class TablesOnSlave(NamesTables, Protocol):
    """What is known of the slave's tables, read once a session and table."""

    def __getitem__(self, table: TableName) -> TableOnSlave: ...

    def hides(self, table: TableName) -> bool:
        """Whether a column of the table is masked, as far as it was read. Reads nothing."""
        ...

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """The foreign keys by which `tables` refer to others, and to themselves."""
        ...

    def kin(self, table: TableName, among: Iterable[TableName]) -> set[TableName]:
        """Those of `among` that foreign keys connect with `table`, over whatever steps; itself among them."""
        ...

    def forget(self, table: TableName | None = None) -> None:
        """What was read of `table` is void, of all tables for None."""
        ...


class Replayer(NamesTables, Protocol):
    """Applies changes one by one in REPL_KEY order, in the caller's transaction."""

    def replay(
        self,
        changes: Iterable[RowChange],
        *,
        safe: bool = False,
        images: Collection[TableName] = (),
        reject: bool = False,
        earlier_rejects: Sequence[Rejected] = (),
        deferrable: bool = False,
        rules: Mapping[TableName, ConflictRule] = NO_RULES,
    ) -> Replayed:
        """Applies the changes, of one or many tables.

        `images`: tables whose former values are compared. `reject`: what does not fit is set aside, beside what is
        `earlier_rejects` already. `deferrable`: in safe mode unique values that are checked at the commit displace
        rows as well. `rules`: what decides, in normal mode, about changes of a table that do not fit; whatever they do,
        it is among the rejects. Raises `Conflict`, `ColumnMissing`.
        """
        ...

    def missing(self, displaced: Iterable[DisplacedRow]) -> list[DisplacedRow]:
        """Those that are not on the slave now."""
        ...


class Alterer(NamesTables, Protocol):
    """Follows TRUNCATE and changes of definitions, in the caller's transaction."""

    def prepare(self, items: Sequence[DefinitionChange]) -> None:
        """What must be committed before the changes are followed."""
        ...

    def apply(self, item: DefinitionChange) -> None:
        """Does what is missing, in either mode."""
        ...

    def release(self, table: TableName) -> None:
        """The table left the replication and stays: nothing ties it to others any more."""
        ...

    def rename_labels(self, item: DefinitionChange) -> None:
        """Where DDL commits by itself, after `apply`: labels of enums that rows hold as texts are what they are called
        now. In the transaction of the checkpoint: two labels may have changed places."""
        ...

    def settle(self, changed: Collection[TableName]) -> None:
        """To be called when a window's rows are written."""
        ...

    def truncate(self, tables: Sequence[TableName]) -> None:
        """Empties the tables."""
        ...

    def delete_where(self, item: DefinitionChange) -> None:
        """Deletes the rows that the item describes."""
        ...

    def keys(self, item: DefinitionChange) -> list[tuple[str, ...]]:
        """Of the rows that `item` would remove."""
        ...

    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        """Deletes the rows under these keys; how many."""
        ...


class Merger(NamesTables, Protocol):
    """Applies net changes over one session, and knows the slave's tables."""

    @property
    def cascades(self) -> bool:
        """Whether the slave's foreign keys and triggers act in the session."""
        ...

    @property
    def targets(self) -> TablesOnSlave: ...

    def begin(self, at_once: Collection[str] = ()) -> None:
        """In a new transaction: constraints are checked at its end, those `at_once` (quoted) with every statement."""
        ...

    def merge(self, changes: Iterable[NetChanges | Staged], *, safe: bool = False) -> object:
        """Applies the net changes of a window. Raises `Collision`, `Conflict`, `ColumnMissing`."""
        ...

    def replayer(self) -> Replayer: ...

    def alterer(self, *, trusted: bool, of_master: ColumnTypes, lossy: Sequence[str]) -> Alterer:
        """`trusted`: whatever expression the master brings may be run. `of_master`: what the master's types are.
        `lossy`: the slave's `lossy_columns`.
        """
        ...


class Stager(NamesTables, Protocol):
    """Stages net changes beside the slave's tables, over one session in autocommit."""

    def load(self, tables: Iterable[TableName]) -> None:
        """Reads what is to be known of the tables."""
        ...

    def put(self, changes: NetChanges, *, prefix: Prefix, schema: str, epoch: int, number: str) -> Staged: ...


class ApplyTarget(NamesTables, Protocol):
    """Over a session that applies to the slave (`Sessions.begin_applying`)."""

    @property
    def transactional_ddl(self) -> bool:
        """Whether a change of a definition is part of the transaction around it, and goes with its rollback."""
        ...

    def Merger(self, connection: Session, *, cascades: bool, mask: Mask = NO_PATTERNS) -> Merger: ...  # noqa: N802

    def Stager(self, connection: Session, mask: Mask = NO_PATTERNS) -> Stager: ...  # noqa: N802

    def drop_stages(self, connection: Session, prefix: Prefix, schema: str, *, below: int) -> int:
        """Drops what was staged in epochs below this one; how much."""
        ...

    def at_commit(self, error: BaseException | None, hides: Callable[[TableName], bool]) -> Unsettled | None:
        """What an error at a commit says of the slave's rows; None where it is about something else."""
        ...

    def row_stays(self, change: RowChange, reason: str) -> Conflict:
        """A change that could only be applied by deleting a row that lives on."""
        ...

    def acting(self, connection: Session) -> list[Acting]:
        """The foreign keys of the whole database that change or delete rows by themselves."""
        ...

    def filled(self, connection: Session, table: TableName) -> bool:
        """Whether there is such a table, with rows."""
        ...


def _named(row: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())


def rows_of(change: RowChange) -> set[tuple[object, ...]]:
    """What names the rows that a change touches."""
    return {(change.table, *sorted(change.key_of(row).items(), key=repr)) for row in (change.old, change.new) if row}
