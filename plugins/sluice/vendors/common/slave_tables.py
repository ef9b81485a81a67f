"""The slave's tables, for applying changes to them: read once a session and table."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from sluice.database.conflicts import ColumnMissing, SlaveTableMissing, TableForbidden
from sluice.database.errors import DatabaseError, DatabaseRefused, UndefinedObject
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model import foreign_key
from sluice.model.foreign_key import ForeignKey
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import Catalog, OwnIndex


class TextColumn(Protocol):
    """How the values of a column become canonical texts."""

    def text(self, alias: str) -> str:
        """The value that `shown` converts to a canonical text."""
        ...

    def shown(self, text: str | None, /) -> str | None: ...


class SlaveColumn(Protocol):
    """A column of a slave's table, in the vendor's terms."""

    @property
    def name(self) -> str: ...

    @property
    def generated(self) -> str: ...


N = TypeVar("N", bound=SlaveColumn)


class ColumnsByName(Generic[N]):
    """Finds the columns of a table."""

    columns: tuple[N, ...]
    if TYPE_CHECKING:  # a field or a property

        @property
        def table(self) -> TableName: ...

    @cached_property
    def _by_name(self) -> dict[str, N]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> N:
        """Raises `ColumnMissing`."""
        try:
            return self._by_name[name]
        except KeyError:
            raise ColumnMissing(self.table, name, self._by_name) from None

    def has(self, name: str) -> bool:
        return name in self._by_name

    def has_own(self, replicated: Sequence[str]) -> bool:
        """Whether it has its own columns, whose values live only here."""
        tables = set(replicated)
        return any(column.name not in tables and not column.generated for column in self.columns)


class ReadColumn(SlaveColumn, TextColumn, Protocol):
    """A column whose values are read as canonical texts."""


C = TypeVar("C", bound=ReadColumn)


@dataclass(frozen=True)
class SlaveTable(ColumnsByName[C], ABC):
    """A table of the slave."""

    shape: TableShape
    columns: tuple[C, ...]
    uniques: tuple[OwnIndex, ...]
    """The unique indexes and the primary key."""
    watched: bool
    """Whether a trigger acts, for which a row that is deleted and inserted again is not the same."""
    hidden: frozenset[str]

    @property
    def table(self) -> TableName:
        return self.shape.table

    def reason_shown(self, error: DatabaseError) -> str:
        """The server's message, without masked values."""
        if self.hidden:
            return f"error {error.server_code}; its text may hold values of masked columns"
        return error.reason or str(error)

    def written(self, row: Mapping[str, str | None]) -> dict[str, str | None]:
        """The part of a row that a statement may write: no generated columns. Raises `ColumnMissing`."""
        return {name: text for name, text in row.items() if not self.column(name).generated}

    def uniques_beside(self, key: Sequence[str]) -> list[OwnIndex]:
        """The unique indexes that are not the key itself."""
        return [index for index in self.uniques if set(index.columns) != set(key)]

    @property
    def may_come_anew(self) -> bool:
        """Whether a row may be deleted and inserted in place of an update."""
        return not self.watched


T = TypeVar("T", bound=SlaveTable)  # type: ignore[type-arg]


class Masked(Protocol):
    """A table that may have masked columns."""

    @property
    def hidden(self) -> frozenset[str]:
        """The masked columns. Where there are any, what the server says of the table's rows is not shown."""
        ...


M = TypeVar("M", bound=Masked)


class KnownTables(ABC, Generic[M]):
    """The known tables of the slave."""

    def __init__(self, connection: Session, mask: Mask = NO_PATTERNS):
        self.connection = connection
        self.mask = mask
        self._known: dict[TableName, M] = {}

    @abstractmethod
    def load(self, tables: Iterable[TableName]) -> None:
        """Reads the tables that are not known yet. Raises `SlaveTableMissing`."""

    @abstractmethod
    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """The foreign keys by which `tables` refer to others, and to themselves."""

    def __getitem__(self, table: TableName) -> M:
        self.load([table])
        return self._known[table]

    def hidden(self, table: TableName, columns: Iterable[SlaveColumn]) -> frozenset[str]:
        """The columns whose values nobody may see."""
        return frozenset(column.name for column in columns if self.mask.hides(table, column.name))

    def hides(self, table: TableName) -> bool:
        """Whether a column of the table is known to be masked. Reads nothing."""
        cached = self._known.get(table)
        return bool(self.mask.patterns) if cached is None else bool(cached.hidden)

    def order(self, tables: Iterable[TableName]) -> list[TableName]:
        """Parents before their children."""
        listed = list(tables)
        links = ((key.child, key.parent) for key in self.foreign_keys(listed))
        return foreign_key.write_order(listed, links)

    def forget(self, table: TableName | None = None) -> None:
        """Forgets `table`, or all tables for None."""
        if table is None:
            self._known.clear()
        else:
            self._known.pop(table, None)


class SlaveTables(KnownTables[T]):
    """See `TablesOnSlave`."""

    catalog: Catalog

    @abstractmethod
    def made(
        self, shapes: Mapping[TableName, TableShape], uniques: Mapping[TableName, tuple[OwnIndex, ...]]
    ) -> Iterable[T]:
        """The tables of these shapes, with what else the vendor knows of them."""

    def load(self, tables: Iterable[TableName]) -> None:
        unread = [table for table in dict.fromkeys(tables) if table not in self._known]
        if not unread:
            return
        shapes = self.catalog.shapes(self.connection, unread)
        for table in unread:
            if table not in shapes:
                raise SlaveTableMissing(table)
        uniques: dict[TableName, tuple[OwnIndex, ...]] = dict.fromkeys(unread, ())
        for index in self.catalog.own_indexes(self.connection, unread):
            if index.unique:
                uniques[index.table] = (*uniques[index.table], index)
        self._known |= {made.table: made for made in self.made(shapes, uniques)}

    def refused(self, table: TableName, columns: Iterable[str], error: DatabaseError, otherwise: Terminal) -> Terminal:
        """The error of this table alone, if the slave refuses a statement for `columns` of its rows. `otherwise`: the
        error unless table or column are gone, or the account lacks a privilege."""
        reason = self[table].reason_shown(error)
        if isinstance(error, DatabaseRefused):
            return TableForbidden(table, reason)
        if isinstance(error, UndefinedObject):
            # What is known of the table may be outdated; or a trigger refers to something that is gone.
            self.forget(table)
            try:
                target = self[table]
                for name in columns:
                    target.column(name)
            except (SlaveTableMissing, ColumnMissing) as missing:
                return missing
        return otherwise

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        listed = set(tables)
        keys = self.catalog.foreign_keys(self.connection, sorted(listed))
        return [own.key for own in keys if own.key.child in listed]

    def connected(self, table: TableName, among: Iterable[TableName]) -> set[TableName]:
        """The table, and those of `among` that foreign keys connect with it, also through other tables."""
        listed = list(among)
        links = [(key.child, key.parent) for key in self.foreign_keys(listed)]
        connected, more = {table}, True
        while more:
            near = {end for link in links if connected & set(link) for end in link} & set(listed)
            more, connected = not near <= connected, connected | near
        return connected
