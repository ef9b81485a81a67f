"""An exporter: a loader that reads blocks into files instead of storing them on the slave.

Claims, bounds, "begun", snapshot and marker are the loader's. A block is exported when its file is complete in the
folder and BLOCKS on the slave has it, with marker and SHA-256; a file that no block names is obsolete.
"""

import logging
import math
import time
from collections.abc import Callable

from sluice.database.registry import master_of
from sluice.database.rows import RowFormat, TableRefused
from sluice.errors import SluiceError
from sluice.load import read_modes
from sluice.load.loader import Loader
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.load.update import Update
from sluice.load.worker import REST_SECONDS, BlockOvertaken, LoadReport, Pieces, SlaveNotReady
from sluice.model.blocks import Block
from sluice.model.location import BLOCK_PRIORITY, file_name
from sluice.model.names import TableName
from sluice.transform.row_stream import TransformedRows

log = logging.getLogger("sluice.load")


def export_worker(
    update: Update,
    loader: str,
    transfer_folder: TransferFolder,
    stopped: Callable[[], bool] = lambda: False,
    turn_seconds: float = math.inf,
) -> LoadReport:
    """Exports until no block is left, its turn is over, or `stopped` says so.

    Otherwise as `sluice.load.loader.load_worker`. Raises errors of the folder as well.
    """
    return _Exporter(update, loader, transfer_folder, stopped).run(turn_seconds)


class GoneMeanwhile(TableRefused):
    """A table was dropped or renamed on the master while it was exported."""

    def __init__(self, update: Update, table: TableName):
        super().__init__(
            table,
            f"{update}: {table} was dropped or renamed on the master before all of it was exported, and the slave "
            "learns of that only after the transfer. Then load the table again, if it is still there.",
        )


class KeyChanged(TableRefused):
    """The key of a table is another one than that its blocks are ranges of."""

    def __init__(self, update: Update, table: TableName):
        super().__init__(
            table, f"{update}: the key of {table} changed on the master while it was exported. Load the table again."
        )


class _Exporter(Loader):
    def __init__(self, update: Update, loader: str, transfer_folder: TransferFolder, stopped: Callable[[], bool]):
        super().__init__(update, loader, stopped)
        self.transfer_folder = transfer_folder

    def _key_changed(self, table: TableName) -> SluiceError:
        """As there; but the slave learns nothing while it waits for the end of the transfer, so the export fails."""
        return KeyChanged(self.update, table)

    def _finished(self) -> bool:
        """Whether all blocks are read: they catch up after the import, and are not read again."""
        return self._all_read()

    def _rest(self, reason: SlaveNotReady) -> None:
        """Leaves the table alone for a moment. The slave is not considered: it takes the file after the transfer."""
        self._expect_own_snapshot(reason)
        self._open()
        catalog = master_of(self.update.master_info.vendor).rows
        if catalog.shape(self._linked(self._master), reason.table) is None:
            self._leave_out(GoneMeanwhile(self.update, reason.table))
            return
        log.info("%s: %s", self.update, reason)
        self._resting[reason.table] = time.monotonic() + REST_SECONDS

    def _copy(self, block: Block) -> None:
        """Reads the begun block into a separate file."""
        master, update, order = self._linked(self._master), self.update, self._order(block.table)
        vendor = master_of(update.master_info.vendor)
        name = file_name(BLOCK_PRIORITY, time.time_ns())
        with self._refusing(block.table), read_modes.reading(update, master, order.shape, block) as read:
            if read.shape.key != order.shape.key:
                raise self._key_changed(block.table)
            columns, transform = read.shape.replicated, self._transforms.of(read.shape, master)
            query = order.select(columns, block.lo, block.hi, locked=read.locked, canonical=True)
            taken = read.end if read.locked else None
            stream = vendor.rows.stream(master, query, RowFormat.CSV, taken)
            pieces = Pieces(stream, self._beat(block))
            if transform is None:
                file = self.transfer_folder.write(name, pieces)
                rows = stream.rows
            else:
                transformed = TransformedRows(pieces, [column.name for column in columns], transform)
                file = self.transfer_folder.write(name, transformed)
                rows = transformed.rows
        update.queue(master).secure(read.marker)
        store = self._blocks(self._linked(self._slave))
        if not store.export(block, self.loader, read.marker, rows, pieces.bytes, file):
            self.transfer_folder.folder.remove(name)
            raise BlockOvertaken(f"block {block.number} of {block.table} was taken away while it was read")
        if read.shape != order.shape:
            self._orders.pop(block.table, None)
        self.report.count(rows, file.size)
