"""The slave's tables as changes are applied to them: read once a session and table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sluice import sql_files
from sluice.database.conflicts import ColumnMissing, SlaveTableMissing
from sluice.database.session import Session
from sluice.model import foreign_key_order
from sluice.model.foreign_key import ForeignKey
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import OwnIndex
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native


@dataclass(frozen=True)
class SlaveColumn(ColumnTexts):
    """One column of a slave's table."""

    generated: str = ""
    collation: str | None = None


@dataclass(frozen=True)
class SlaveTable:
    """One table of the slave."""

    shape: TableShape
    columns: tuple[SlaveColumn, ...]
    uniques: tuple[OwnIndex, ...]
    """What keeps values unique besides the key under which the master's changes come."""
    watched: bool
    """Whether a trigger acts: a row that goes and comes back is not the same to it."""
    hidden: frozenset[str]

    @property
    def table(self) -> TableName:
        return self.shape.table

    @cached_property
    def _by_name(self) -> dict[str, SlaveColumn]:
        return {column.name: column for column in self.columns}

    @property
    def place(self) -> str:
        """Its quoted name."""
        return names.place(self.table)

    def column(self, name: str) -> SlaveColumn:
        """Raises `ColumnMissing`."""
        try:
            return self._by_name[name]
        except KeyError:
            raise ColumnMissing(self.table, name, self._by_name) from None

    def has(self, name: str) -> bool:
        return name in self._by_name

    def has_own(self, replicated: Sequence[str]) -> bool:
        """Whether it has columns of its own, whose values live only here."""
        known = set(replicated)
        return any(column.name not in known and not column.generated for column in self.columns)

    def uniques_beside(self, key: Sequence[str]) -> list[OwnIndex]:
        """The unique indexes that are not the key itself."""
        return [index for index in self.uniques if set(index.columns) != set(key)]


class SlaveTables:
    """See `TablesOnSlave`."""

    def __init__(self, connection: Session, mask: Mask = NO_PATTERNS):
        self.connection = connection
        self.mask = mask
        self._known: dict[TableName, SlaveTable] = {}

    def load(self, tables: Iterable[TableName]) -> None:
        """Reads those not known yet. Raises `SlaveTableMissing`."""
        wanted = [table for table in dict.fromkeys(tables) if table not in self._known]
        if not wanted:
            return
        session = native(self.connection)
        shapes = catalog.shapes(session, wanted)
        indexes: dict[TableName, list[OwnIndex]] = {}
        for index in catalog.own_indexes(session, wanted):
            indexes.setdefault(index.table, []).append(index)
        condition, values = catalog.among(session, wanted)
        condition = condition.replace("table_schema, table_name", "event_object_schema, event_object_table")
        triggers = session.look_up(sql_files.render("mysql", "triggers", tables=condition), values).fetchall()
        watched = {names.table_of(session, database, name) for database, name, _ in triggers}
        for table in wanted:
            shape = shapes.get(table)
            if shape is None:
                raise SlaveTableMissing(table)
            columns = tuple(SlaveColumn(each.name, each.type, each.generated, each.collation) for each in shape.columns)
            uniques = tuple(index for index in indexes.get(table, ()) if index.unique)
            hidden = frozenset(column.name for column in columns if self.mask.hides(table, column.name))
            self._known[table] = SlaveTable(shape, columns, uniques, table in watched, hidden)

    def __getitem__(self, table: TableName) -> SlaveTable:
        self.load([table])
        return self._known[table]

    def hides(self, table: TableName) -> bool:
        """Whether a column of the table is masked, as far as it was read. Reads nothing."""
        known = self._known.get(table)
        return bool(self.mask.patterns) if known is None else bool(known.hidden)

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """The foreign keys by which `tables` refer to others, and to themselves."""
        wanted = set(tables)
        return [own.key for own in catalog.foreign_keys(self.connection, sorted(wanted)) if own.key.child in wanted]

    def order(self, tables: Iterable[TableName]) -> list[TableName]:
        """Parents before their children."""
        wanted = list(tables)
        links = ((key.child, key.parent) for key in self.foreign_keys(wanted))
        return foreign_key_order.write_order(wanted, links)

    def kin(self, table: TableName, among: Iterable[TableName]) -> set[TableName]:
        """The table alone: foreign keys do not act in these sessions."""
        return {table}

    def forget(self, table: TableName | None = None) -> None:
        """What was read of `table` is void, of all tables for None."""
        if table is None:
            self._known.clear()
        else:
            self._known.pop(table, None)
