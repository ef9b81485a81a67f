"""The transformations of one slave's tables for the master's present definitions: for loads, comparisons and checks."""

from collections.abc import Sequence
from dataclasses import replace

from sluice.configuration.model import Replication, SlaveConfig
from sluice.database.registry import vendor_of
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.model.table_definition import TableDefinition as Definition
from sluice.model.transformation import Excluded, Renamed, Transformation
from sluice.transform.binding import Binder
from sluice.transform.engine import Engine
from sluice.transform.table_transform import TableTransform, TransformationInvalid

# Transforms the definitions of the master's tables to those of the slave's.

__all__ = ["Definition", "change_of_slave", "master_key", "of_slave", "vanished"]


def of_slave(definition: TableDefinition, transform: TableTransform) -> TableDefinition:
    """The definition of a table that a load creates."""
    own = {name: change for name, change in transform.rule.columns if not isinstance(change, Renamed)}
    sequences = tuple(
        replace(each, column=transform.rule.name_on_slave(each.column))
        for each in definition.sequences
        if each.column not in own
    )
    generated = {name: text for name, text in definition.generated.items() if name not in own}
    return replace(definition, shape=transform.shape, sequences=sequences, generated=generated)


def change_of_slave(definition: Definition, transform: TableTransform) -> Definition:
    """The definition in an item of a change of definition."""
    names = {column.name for column in transform.shape.columns}
    missing = {
        transform.rule.name_on_slave(name): value
        for name, value in definition.missing.items()
        if not isinstance(transform.rule.by_name.get(name), Excluded)
    }
    return replace(
        definition, shape=transform.shape, missing={name: value for name, value in missing.items() if name in names}
    )


def master_key(shape: TableShape, rule: Transformation | None) -> list[str]:
    """The names of the key of a master's table on the slave, whose key may have further columns (`extra_key`)."""
    return [column.name if rule is None else rule.name_on_slave(column.name) for column in shape.key]


def vanished(rule: Transformation, was: Definition, now: Definition) -> Sequence[str]:
    """Columns with a line under `columns` that the master has renamed, where the new name has no such line."""
    places = {column.position: column.name for column in now.shape.columns}
    renames = []
    for name, change in rule.columns:
        place = next((column.position for column in was.shape.columns if column.name == name), None)
        renamed = places.get(place) if place is not None else None
        if renamed is not None and renamed != name and rule.by_name.get(renamed) != change:
            renames.append(f"{name} is {renamed} now")
    return renames


class Transforms:
    """The transformations of one slave; it has its own engine, so only one thread may use it."""

    def __init__(self, replication: Replication, slave: SlaveConfig):
        self.replication = replication
        self.slave = slave
        self._bound: dict[TableName, TableTransform] = {}
        self._engine: Engine | None = None

    def of(self, shape: TableShape, master: Session) -> TableTransform | None:
        """The transformation of a table of the master, if it has one. Raises `TransformationInvalid`."""
        rule = self.replication.transformation(shape.table, self.slave)
        if rule is None:
            return None
        known = self._bound.get(shape.table)
        if known is None or known.master != shape:
            self._engine = self._engine or Engine()
            types = vendor_of(self.replication.master.vendor).types
            binder = Binder(types, master, self._engine, Mask(self.replication.verify.mask))
            known = self._bound[shape.table] = binder.bind(rule, shape, strict=True)
        return known

    def definitions(
        self, of_master: Sequence[TableDefinition], master: Session
    ) -> tuple[list[TableDefinition], list[str]]:
        """The slave's definitions of the tables, and the faults of the configuration."""
        fitted: list[TableDefinition] = []
        problems: list[str] = []
        for definition in of_master:
            try:
                transform = self.of(definition.shape, master)
            except TransformationInvalid as invalid:
                problems += invalid.problems
                transform = None
            fitted.append(definition if transform is None else of_slave(definition, transform))
        return fitted, problems
