"""The transformations of one slave's tables for the master's present definitions: for loads, comparisons and checks."""

from collections.abc import Sequence

from sluice.config import Replication, SlaveConfig
from sluice.database.registry import vendor_of
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.transform import definitions
from sluice.transform.binding import Binder
from sluice.transform.engine import Engine
from sluice.transform.table_transform import TableTransform, TransformationInvalid


class Transforms:
    """The transformations of one slave; it has an engine of its own, so only one thread may use it."""

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
            fitted.append(definition if transform is None else definitions.of_slave(definition, transform))
        return fitted, problems
