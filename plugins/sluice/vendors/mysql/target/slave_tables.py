"""The slave's tables as changes are applied to them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice import sql_files
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common import slave_tables
from sluice.vendors.common.catalog import Catalog, OwnIndex
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native


@dataclass(frozen=True)
class SlaveColumn(ColumnTexts):
    """One column of a slave's table."""

    generated: str = ""
    collation: str | None = None


@dataclass(frozen=True)
class SlaveTable(slave_tables.SlaveTable[SlaveColumn]):
    """One table of the slave."""

    @property
    def place(self) -> str:
        """Its quoted name."""
        return names.place(self.table)


class SlaveTables(slave_tables.SlaveTables[SlaveTable]):
    """Foreign keys do not act in these sessions."""

    catalog: Catalog = catalog

    def made(
        self, shapes: Mapping[TableName, TableShape], uniques: Mapping[TableName, tuple[OwnIndex, ...]]
    ) -> Iterable[SlaveTable]:
        session = native(self.connection)
        condition, values = catalog.among(session, list(shapes), catalog.OF_TRIGGERS)
        triggers = session.read_schema(sql_files.render("mysql", "triggers", tables=condition), values).fetchall()
        watched = {names.table_of(session, database, name) for database, name, _ in triggers}
        for table, shape in shapes.items():
            columns = tuple(SlaveColumn(each.name, each.type, each.generated, each.collation) for each in shape.columns)
            yield SlaveTable(shape, columns, uniques[table], table in watched, self.hidden(table, columns))

    def connected(self, table: TableName, among: Iterable[TableName]) -> set[TableName]:
        """The table alone."""
        return {table}
