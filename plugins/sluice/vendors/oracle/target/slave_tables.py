"""The slave's tables as changes are applied to them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.database.conflicts import ValueUnfit
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import Catalog, OwnIndex
from sluice.vendors.common.slave_tables import SlaveTable as PlainSlaveTable
from sluice.vendors.common.slave_tables import SlaveTables as PlainSlaveTables
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import OracleSession, Value, native

_EMPTY_TEXTS = " An empty text is NULL on Oracle, which no column takes that is NOT NULL."


def unfit(table: TableName, reason: str) -> ValueUnfit:
    return ValueUnfit(table, reason, hint=_EMPTY_TEXTS)


@dataclass(frozen=True)
class SlaveColumn(ColumnTexts):
    """A column of a slave's table."""

    generated: str = ""


@dataclass(frozen=True)
class SlaveTable(PlainSlaveTable[SlaveColumn]):
    """A table of the slave."""

    referred: bool
    """Whether other tables refer to its rows: then these cannot be deleted, or are deleted with them."""

    @property
    def qualified(self) -> str:
        """Its quoted name."""
        return names.qualified(self.table)

    def uniques_beside(self, key: Sequence[str]) -> list[OwnIndex]:
        """The unique indexes of columns that are not the key itself."""
        return [index for index in super().uniques_beside(key) if index.whole]

    @property
    def may_come_anew(self) -> bool:
        """Whether a row may be deleted and inserted in place of an update."""
        return not self.watched and not self.referred


class Words:
    """Conditions and values of one statement; collects its parameters."""

    def __init__(self, target: SlaveTable):
        self.target = target
        self.values: dict[str, Value] = {}

    def value(self, name: str, text: str | None) -> str:
        """A value of a column. Raises `ColumnMissing`."""
        return self.target.column(name).value(self._bind(name, text))

    def equal(self, row: Mapping[str, str | None]) -> str:
        """The columns of `t` have these values, NULL being one."""
        parts = [self.target.column(name).same("t", self._bind(name, text)) for name, text in row.items()]
        return " AND ".join(parts) or "1 = 1"

    def sets(self, row: Mapping[str, str | None]) -> str:
        written = self.target.written(row)
        return ", ".join(
            f"{self.target.column(name).quoted} = {self.value(name, text)}" for name, text in written.items()
        )

    def row(self, row: Mapping[str, str | None]) -> tuple[str, str]:
        """Columns and values, as INSERT takes them."""
        written = self.target.written(row)
        columns = ", ".join(self.target.column(name).quoted for name in written)
        return columns, ", ".join(self.value(name, text) for name, text in written.items())

    def _bind(self, name: str, text: str | None) -> str:
        bind = f"v{len(self.values)}"
        self.values[bind] = self.target.column(name).bind(text)
        return f":{bind}"


class SlaveTables(PlainSlaveTables[SlaveTable]):
    """The tables of a slave that the apply has read."""

    catalog: Catalog = catalog

    def made(
        self, shapes: Mapping[TableName, TableShape], uniques: Mapping[TableName, tuple[OwnIndex, ...]]
    ) -> Iterable[SlaveTable]:
        session, listed = native(self.connection), list(shapes)
        watched = {table for table, _ in catalog.triggers(session, listed)}
        referred = {own.key.parent for own in catalog.foreign_keys(session, listed)}
        for table, shape in shapes.items():
            columns = tuple(SlaveColumn(each.name, each.type, each.generated) for each in shape.columns)
            hidden = self.hidden(table, columns)
            yield SlaveTable(shape, columns, uniques[table], table in watched, hidden, table in referred)


def differing(
    session: OracleSession, target: SlaveTable, key: Mapping[str, str | None], former: Mapping[str, str | None]
) -> dict[str, tuple[str | None, str | None]]:
    """The columns of the row with `key` that differ from `former`: the slave's value, the master's former one."""
    values: dict[str, tuple[str | None, str | None]] = {}
    for name, text in former.items():
        own, words = target.column(name), Words(target)
        query = f"SELECT {own.text('t')} FROM {target.qualified} t WHERE {words.equal(key)}"
        present = own.bind(text) is not None
        query += f" AND NOT {words.equal({name: text})}" if present else f" AND t.{own.quoted} IS NOT NULL"
        row = session.run(query, words.values).fetchone()
        if row is None and present:
            # A comparison with NULL is neither true nor false.
            words = Words(target)
            query = f"SELECT NULL FROM {target.qualified} t WHERE {words.equal(key)} AND t.{own.quoted} IS NULL"
            row = session.run(query, words.values).fetchone()
        if row is not None:
            values[name] = ColumnTexts.shown(row[0]), text
    return values
