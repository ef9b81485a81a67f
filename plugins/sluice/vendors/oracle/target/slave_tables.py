"""The slave's tables as changes are applied to them: read once a session and table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sluice.database.conflicts import ColumnMissing, Conflict, SlaveTableMissing
from sluice.database.session import Session
from sluice.errors import RESTART_APPLY
from sluice.model import foreign_key_order
from sluice.model.foreign_key import ForeignKey
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import OwnIndex
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.errors import refusal
from sluice.vendors.oracle.session import OracleSession, Value, native


class ValueUnfit(Conflict):
    """A value of the master does not fit into the slave's column. `reason`: what the server says."""

    def __init__(self, table: TableName, reason: str):
        super().__init__(
            table,
            f"{table}: a value of the master does not fit on the slave: {reason}",
            "Give the slave's column the master's type and constraints (ALTER TABLE), or take the table out of the "
            f"replication, then {RESTART_APPLY}. An empty text is NULL on Oracle, which no column takes that is NOT "
            "NULL.",
        )
        self.reason = reason


@dataclass(frozen=True)
class SlaveColumn(ColumnTexts):
    """One column of a slave's table."""

    generated: str = ""


@dataclass(frozen=True)
class SlaveTable:
    """One table of the slave."""

    shape: TableShape
    columns: tuple[SlaveColumn, ...]
    uniques: tuple[OwnIndex, ...]
    """What keeps values unique, the primary key among them."""
    watched: bool
    """Whether a trigger acts: a row that goes and comes back is not the same to it."""
    referred: bool
    """Whether other tables refer to its rows: they keep them from going, or go with them."""
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
        """The unique indexes of columns that are not the key itself."""
        return [index for index in self.uniques if index.whole and set(index.columns) != set(key)]

    @property
    def may_come_anew(self) -> bool:
        """Whether a row may be deleted and inserted in place of an update."""
        return not self.watched and not self.referred

    def said(self, error: BaseException) -> str:
        """What the server says, without values that are masked."""
        found = refusal(error)
        return f"{found.code}; its text may hold values of masked columns" if self.hidden else found.text


class Words:
    """Conditions and values of one statement; collects its parameters."""

    def __init__(self, target: SlaveTable):
        self.target = target
        self.values: dict[str, Value] = {}

    def value(self, name: str, text: str | None) -> str:
        """A value of a column. Raises `ColumnMissing`."""
        return self.target.column(name).value(self._place(name, text))

    def equal(self, row: Mapping[str, str | None]) -> str:
        """The columns of `t` have these values, NULL being one."""
        parts = [self.target.column(name).same("t", self._place(name, text)) for name, text in row.items()]
        return " AND ".join(parts) or "1 = 1"

    def sets(self, row: Mapping[str, str | None]) -> str:
        return ", ".join(
            f"{self.target.column(name).quoted} = {self.value(name, text)}" for name, text in self._written(row).items()
        )

    def row(self, row: Mapping[str, str | None]) -> tuple[str, str]:
        """Columns and values, as INSERT takes them."""
        written = self._written(row)
        columns = ", ".join(self.target.column(name).quoted for name in written)
        return columns, ", ".join(self.value(name, text) for name, text in written.items())

    def _place(self, name: str, text: str | None) -> str:
        place = f"v{len(self.values)}"
        self.values[place] = self.target.column(name).bind(text)
        return f":{place}"

    def _written(self, row: Mapping[str, str | None]) -> dict[str, str | None]:
        return {name: text for name, text in row.items() if not self.target.column(name).generated}


def found_under(session: OracleSession, target: SlaveTable, key: Mapping[str, str | None], most: int = 2) -> int:
    """How many rows have these values, `most` at most."""
    words = Words(target)
    text = f"SELECT COUNT(*) FROM {target.place} t WHERE {words.equal(key)} AND ROWNUM <= {most}"
    row = session.run(text, words.values).fetchone()
    return int(row[0]) if row else 0


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
        watched = {table for table, _ in catalog.triggers(session, wanted)}
        referred = {own.key.parent for own in catalog.foreign_keys(session, wanted)}
        for table in wanted:
            shape = shapes.get(table)
            if shape is None:
                raise SlaveTableMissing(table)
            columns = tuple(SlaveColumn(each.name, each.type, each.generated) for each in shape.columns)
            uniques = tuple(index for index in indexes.get(table, ()) if index.unique)
            hidden = frozenset(column.name for column in columns if self.mask.hides(table, column.name))
            self._known[table] = SlaveTable(shape, columns, uniques, table in watched, table in referred, hidden)

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
        """Those of `among` that foreign keys connect with `table`, also over other tables; itself among them."""
        wanted = list(among)
        links = [(key.child, key.parent) for key in self.foreign_keys(wanted)]
        found, more = {table}, True
        while more:
            near = {end for link in links if found & set(link) for end in link} & set(wanted)
            more, found = not near <= found, found | near
        return found

    def forget(self, table: TableName | None = None) -> None:
        """What was read of `table` is void, of all tables for None."""
        if table is None:
            self._known.clear()
        else:
            self._known.pop(table, None)
