"""Translates a master's table for a slave of another vendor, and finds what is refused.

Between two servers of one vendor a column's type is not changed. Otherwise each column passes through its logical type
(`sluice.model.logical_type`), and losses are refused, unless `lossy_columns` of the slave names the column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from sluice.database.column_types import LogicalColumn
from sluice.database.schema import TypeDefinition
from sluice.database.session import Session
from sluice.database.vendor import Master, Target
from sluice.model.compatibility import differences
from sluice.model.logical_type import ColumnType, Fit
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape


@dataclass(frozen=True)
class Translation:
    """A table of the master in the words of the slave's vendor."""

    shape: TableShape
    """The shape of the table on the slave."""
    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    """The type of each column on the slave; empty if both sides are of one vendor."""

    def refusals(self, allowed: Sequence[str]) -> list[str]:
        """Why the slave cannot have the table, a sentence for each column. `allowed`: its `lossy_columns`."""
        table = self.shape.table
        refused = [
            f"{table}.{name} cannot be there: {lost}; take the table out of `tables`"
            for name, lost in self.refused.items()
        ]
        lossy = [f"{each}; to have it so, name {pattern} under lossy_columns of the slave"
                 for pattern, each in self.lossy(allowed).items()]  # fmt: skip
        return lossy + refused

    @property
    def refused(self) -> dict[str, str]:
        """The columns that the slave cannot have, and why."""
        return {name: column_type.lost for name, column_type in self.columns.items() if column_type.fit is Fit.REFUSED}

    def lossy(self, allowed: Sequence[str]) -> dict[str, str]:
        """What the slave's columns would lose, in words, by their names for `lossy_columns`; without those that it
        names."""
        table = self.shape.table
        start = f"{table.schema}.{table.name}."
        return {
            f"{start}{name}": f"{table}.{name} would be {column_type.type}, which loses something: {column_type.lost}"
            for name, column_type in self.columns.items()
            if column_type.fit is Fit.LOSSY and not allows(allowed, table, name)
        }

    def excluding(self, allowed: Sequence[str]) -> dict[str, ColumnType]:
        """The columns that cannot hold every value of the master's, and may lose none."""
        table = self.shape.table
        return {
            name: column_type
            for name, column_type in self.columns.items()
            if column_type.excluded and not allows(allowed, table, name)
        }


class Translator:
    """Translates tables of a master for a slave, over a session on each."""

    def __init__(
        self,
        of_master: Master,
        of_slave: Target,
        master: Session,
        slave: Session,
        defined: Sequence[TypeDefinition] | None = None,
    ):
        """`defined`: the types of the master's own; None: they are read when they are needed."""
        self._of_master, self._of_slave = of_master, of_slave
        self._master, self._slave = master, slave
        self._defined = defined

    def translate(self, shape: TableShape) -> Translation:
        """A table of the master as the slave would have it.

        On another vendor columns have no defaults, identities and collations of the master's: replicated values need
        none. Columns that the master computes are left out.
        """
        from_types, to_types = self._of_master.types, self._of_slave.types
        if from_types is to_types:
            return Translation(shape)
        defined = self._of_master.schemas.types(self._master, [shape.table]) if self._defined is None else self._defined
        columns = shape.replicated
        logical = [LogicalColumn(each.name, from_types.logical(each.type, defined), each.key > 0) for each in columns]
        types = to_types.made_of(self._slave, logical)
        translated = tuple(_made(column, each) for column, each in zip(columns, types, strict=True))
        return Translation(
            replace(shape, columns=translated, partitioned=False),
            {column.name: each for column, each in zip(columns, types, strict=True)},
        )

    def differences(self, master: TableShape, slave: TableShape, allowed: Sequence[str] = ()) -> list[str]:
        """Why the slave's table cannot take the master's rows, one sentence each; empty when it can.

        `allowed`: `lossy_columns` of the slave, whose types are not compared.
        """
        translated_shape = self.translate(master).shape
        own = {column.name: column.type for column in slave.columns if allows(allowed, master.table, column.name)}
        columns = tuple(replace(each, type=own.get(each.name, each.type)) for each in translated_shape.columns)
        return differences(replace(translated_shape, columns=columns), slave, self._of_slave.types.holds)

    def losses(self, shape: TableShape, allowed: Sequence[str]) -> list[str]:
        """What a created table of the slave would lose of the master's columns, one sentence for each. `allowed`:
        `lossy_columns` of the slave."""
        return self.translate(shape).refusals(allowed)

    def excluded(self, shape: TableShape, allowed: Sequence[str]) -> list[str]:
        """A value of the master's table that the slave's types cannot hold, as a sentence. Reads the table if columns
        have a type that may have such values."""
        excluding = self.translate(shape).excluding(allowed)
        example = self._of_master.rows.special(self._master, shape, excluding) if excluding else None
        if example is None:
            return []
        column, special, key = example
        row = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        name = f"{shape.table.schema}.{shape.table.name}.{column}"
        return [
            f"{shape.table}.{column} would be {excluding[column].type}, which cannot hold each of its values: one is "
            f"{special}{f' (row {row})' if row else ''}; change it on the master, or name {name} under lossy_columns "
            "of the slave"
        ]


def allows(allowed: Sequence[str], table: TableName, column: str) -> bool:
    """Whether a column may lose something; `allowed`: `schema.table.column`, with `*` for anything."""
    name = f"{table.schema}.{table.name}.{column}"
    return name in allowed or any(fnmatchcase(name, pattern) for pattern in allowed)


def _made(column: Column, column_type: ColumnType) -> Column:
    return replace(column, type=column_type.type, default=None, identity="", collation=None)
