"""What an apply needs of a slave's vendor: merge, replay and stage changes, follow definitions."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluice.database.column_types import ColumnTypes
from sluice.database.conflicts import CommitRefused, Conflict, row_text
from sluice.database.digests import Texts
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import NO_RULES, ConflictRule
from sluice.model.defined import Defined
from sluice.model.foreign_key import ForeignKey
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import Prefix, TableName
from sluice.model.reject import Rejected
from sluice.model.table_definition import Bound, TableDefinition


@dataclass(frozen=True)
class Acting:
    """A foreign key whose actions change or delete rows. `definition` as ADD CONSTRAINT takes it."""

    name: str
    definition: str
    key: ForeignKey


@dataclass(frozen=True)
class DisplacedRow:
    """A row that was deleted because `change` needs its unique value."""

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
        return f"{self.table}, row {row_text(row)} (it held a value that row {row_text(self.change.shown)} has)"


@dataclass
class Replayed:
    """The result of a replay."""

    changes: int = 0
    rejects: list[Rejected] = field(default_factory=list)
    displaced: dict[tuple[TableName, Texts], DisplacedRow] = field(default_factory=dict)
    """Safe mode: displaced rows. Some may be on the slave again."""

    def passed(self, changes: Iterable[RowChange]) -> None:
        """Notes that `changes` were applied after the present rejects."""
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
    """Net changes in stage tables of the slave: their description, small enough to be sent to the driver."""

    table: TableName
    columns: tuple[str, ...]
    key: tuple[str, ...]
    changes: int
    compared: bool
    """As of `NetChanges`."""


class DefinitionNotFollowed(Terminal):
    """The slave refuses a change of the definition of `table`."""

    def __init__(self, table: TableName, message: str):
        super().__init__(message)
        self.table = table


class DefinitionChange(Protocol):
    """A change of a definition, a TRUNCATE or a DELETE WHERE."""

    @property
    def repl_key(self) -> int: ...
    @property
    def action(self) -> Action: ...
    @property
    def table(self) -> TableName: ...
    @property
    def defined(self) -> TableDefinition | None:
        """The definition after the change."""
        ...

    @property
    def former(self) -> TableDefinition | None:
        """The definition before an ALTER."""
        ...

    @property
    def bound(self) -> Bound | None:
        """Which rows a DELETE WHERE deletes."""
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
    """A table of the slave, as the apply asks about it."""

    @property
    def watched(self) -> bool:
        """Whether foreign keys or triggers notice a row that is deleted and inserted again."""
        ...

    def column(self, name: str) -> ColumnOnSlave:
        """Raises `ColumnMissing`."""
        ...


class TablesOnSlave(Protocol):
    """The slave's tables, each read once a session."""

    def __getitem__(self, table: TableName) -> TableOnSlave: ...

    def hides(self, table: TableName) -> bool:
        """Whether a column of the table is masked; False for a table that was not read. Reads nothing."""
        ...

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """The foreign keys by which `tables` refer to others, and to themselves."""
        ...

    def connected(self, table: TableName, among: Iterable[TableName]) -> set[TableName]:
        """`table`, and those of `among` that foreign keys connect with it, directly or over other tables."""
        ...

    def forget(self, table: TableName | None = None) -> None:
        """Forgets what was read of `table`, of all tables for None."""
        ...


@dataclass(frozen=True)
class ReplayOptions:
    """How changes are replayed."""

    safe: bool = False
    """Safe mode: a change gives the row the master's values, regardless of what the slave had."""
    images: Collection[TableName] = ()
    """Tables whose rows must have the old image's values (normal mode)."""
    reject: bool = False
    """Whether a change that does not fit becomes a reject; otherwise it raises `Conflict`."""
    deferrable: bool = False
    """Whether, in safe mode, rows are displaced also for unique values that the commit checks."""
    rules: Mapping[TableName, ConflictRule] = field(default_factory=lambda: NO_RULES)
    """The rules that decide, in normal mode, on changes that do not fit; each decision becomes a reject."""


PLAIN_REPLAY = ReplayOptions()


class Replayer(Protocol):
    """Applies changes one by one in REPL_KEY order, in the caller's transaction."""

    def replay(
        self,
        changes: Iterable[RowChange],
        options: ReplayOptions = PLAIN_REPLAY,
        earlier_rejects: Sequence[Rejected] = (),
    ) -> Replayed:
        """Applies the changes of one or many tables. Raises `Conflict`, `ColumnMissing`.

        `earlier_rejects`: those of the same window; the result has them too.
        """
        ...

    def missing(self, displaced: Iterable[DisplacedRow]) -> list[DisplacedRow]:
        """The rows of `displaced` that are not on the slave at present."""
        ...


class Alterer(Protocol):
    """Follows TRUNCATE and changes of definitions, in the caller's transaction."""

    def prepare(self, items: Sequence[DefinitionChange]) -> None:
        """Does what must be committed before `apply`. A second call does nothing."""
        ...

    def apply(self, item: DefinitionChange, placed: Callable[[], None] = lambda: None) -> None:
        """Makes what the slave does not have yet of the change.

        If DDL commits implicitly, `placed` is called when the columns of the former definition are told apart by
        their numbers, and before any of them gets a name of the new one: from then on the new definition is the
        former one, should the change be made once more.
        """
        ...

    def will_drop(self, item: DefinitionChange) -> Sequence[Defined]:
        """The foreign keys that cannot stay although the master may have them, because the server has none whose
        columns are of two types, not even for a moment. If DDL commits implicitly, `apply` drops them; there also
        the indexes of columns that are made again, or may no longer be indexed as they are."""
        ...

    def attempt(self, item: DefinitionChange) -> str:
        """The same as `apply` for a table that is there, or why the slave refuses it: then nothing was changed."""
        ...

    def release(self, table: TableName) -> None:
        """Drops what ties a table that left the replication, and stays on the slave, to other tables."""
        ...

    def rename_labels(self, item: DefinitionChange) -> None:
        """If DDL commits implicitly, after `apply`: renames enum labels that rows have as texts.

        In the transaction of the checkpoint, because two labels may have exchanged their names.
        """
        ...

    def complete_columns(self, changed: Collection[TableName]) -> None:
        """After a window's rows are written: gives columns of the tables `changed` what waited for their values."""
        ...

    def truncate(self, tables: Sequence[TableName]) -> None:
        """Empties the tables."""
        ...

    def delete_where(self, item: DefinitionChange) -> None:
        """Deletes the rows that the item describes."""
        ...

    def keys(self, item: DefinitionChange) -> list[tuple[str, ...]]:
        """The keys of the rows that `item` would delete."""
        ...

    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        """Deletes the rows with these keys. Returns how many."""
        ...


class Merger(Protocol):
    """Merges net changes over one session, and knows the slave's tables."""

    @property
    def cascades(self) -> bool:
        """Whether the slave's foreign keys and triggers act in the session."""
        ...

    @property
    def targets(self) -> TablesOnSlave: ...

    def begin(self, immediate: Collection[str] = ()) -> None:
        """In a new transaction: defers all constraints but those in `immediate` (quoted names)."""
        ...

    def merge(self, changes: Iterable[NetChanges | Staged], *, safe: bool = False) -> object:
        """Applies the net changes of a window. Raises `Collision`, `Conflict`, `ColumnMissing`."""
        ...

    def replayer(self) -> Replayer: ...

    def alterer(self, *, trusted: bool, of_master: ColumnTypes, lossy: Sequence[str]) -> Alterer:
        """`trusted`: any expression of the master may be run. `of_master`: the master's types. `lossy`: the slave's
        `lossy_columns`.
        """
        ...


class Stager(Protocol):
    """Stages net changes beside the slave's tables, over one session in autocommit."""

    def load(self, tables: Iterable[TableName]) -> None:
        """Reads the tables' definitions."""
        ...

    def put(self, changes: NetChanges, *, prefix: Prefix, schema: str, epoch: int, number: str) -> Staged: ...


class ApplyTarget(Protocol):
    """The functions of a slave's vendor, over a session that applies (`Sessions.begin_applying`)."""

    def Merger(self, connection: Session, *, cascades: bool, mask: Mask = NO_PATTERNS) -> Merger: ...  # noqa: N802

    def Stager(self, connection: Session, mask: Mask = NO_PATTERNS) -> Stager: ...  # noqa: N802

    def drop_stages(self, connection: Session, prefix: Prefix, schema: str, *, below: int) -> int:
        """Drops the stage tables of epochs below this one. Returns how many."""
        ...

    def at_commit(self, error: BaseException | None, hides: Callable[[TableName], bool]) -> CommitRefused | None:
        """The conflict that an error at a commit reports; None for other errors."""
        ...

    def row_stays(self, change: RowChange, reason: str) -> Conflict:
        """The conflict of a change that would need another row to be deleted, which the master has."""
        ...

    def acting(self, connection: Session) -> list[Acting]:
        """The foreign keys of the whole database whose actions change or delete rows."""
        ...

    def filled(self, connection: Session, table: TableName) -> bool:
        """Whether the table exists and has rows."""
        ...


def rows_of(change: RowChange) -> set[tuple[object, ...]]:
    """The names (table and key) of the rows that a change touches."""
    return {(change.table, *sorted(change.key_of(row).items(), key=repr)) for row in (change.old, change.new) if row}
