"""Chooses the format in which a block's rows are read for one slave's table, and writes them there."""

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.database.load import LoadTarget
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of
from sluice.database.rows import RowFormat
from sluice.database.session import Session
from sluice.database.translation import Translator
from sluice.load.update import Update
from sluice.load.worker import SlaveNotReady
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.transform.row_stream import TransformedRows
from sluice.transform.table_transform import TableTransform
from sluice.transform.transforms import Transforms


@dataclass(frozen=True)
class BlockWriter:
    """Writes rows of one table, read under the master's definition at a block's marker."""

    target: LoadTarget
    table: TableName
    columns: tuple[str, ...]
    """The columns of the rows, in order."""
    row_format: RowFormat
    canonical: bool
    """Whether the rows are canonical texts."""
    transform: TableTransform | None

    @classmethod
    def fitting(
        cls,
        update: Update,
        transforms: Transforms,
        master: Session,
        slave: Session,
        shape: TableShape,
        target: TableShape,
    ) -> "BlockWriter":
        """The writer for rows of `shape` into the slave's table `target`. Raises `SlaveNotReady` where they differ."""
        of_master, of_slave = master_of(update.master_info.vendor), vendor_at(update)
        transform = transforms.of(shape, master)
        transformed = shape if transform is None else transform.shape
        translator = Translator(of_master, of_slave, master, slave)
        if unfit := translator.differences(transformed, target, update.slave.lossy_columns):
            raise SlaveNotReady(shape.table, "; ".join(unfit))
        row_format = RowFormat.CSV
        if transform is None:
            offered = of_slave.load_target.formats(shape.replicated, target)
            row_format = next(each for each in offered if each in of_master.rows.formats)
        # Transformations read the canonical texts, which changes have too.
        canonical = transform is not None or of_master.types is not of_slave.types
        names = tuple(column.name for column in shape.replicated)
        return cls(of_slave.load_target, shape.table, names, row_format, canonical, transform)

    def reads_as(self, other: "BlockWriter") -> bool:
        """Whether rows that are read for one of the two can be written by both."""
        return (self.columns, self.row_format, self.canonical) == (other.columns, other.row_format, other.canonical)

    def write(self, slave: Session, pieces: Iterable[bytes | memoryview]) -> int:
        """Writes the rows in the caller's transaction. Returns how many."""
        if self.transform is None:
            return self.target.write(slave, self.table, self.columns, pieces, self.row_format)
        rows_to_write = TransformedRows(pieces, self.columns, self.transform)
        return self.target.write(slave, self.table, rows_to_write.columns, rows_to_write, self.row_format)
