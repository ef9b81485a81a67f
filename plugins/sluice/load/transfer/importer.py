"""An importer: claims exported blocks one after another, and stores the rows of their files on the slave.

Any number of importers work side by side; they share only BLOCKS on the slave. Rows, marker and "stored" are committed
together, if the block is still begun by this importer and the file is exactly what the manifest says. An importer needs
only the slave and the folder: neither the master nor Airflow nor Redis.
"""

import logging
import math
import threading
import time
from collections.abc import Callable

from sluice.counted import counted
from sluice.database.placed import vendor_at
from sluice.database.rows import RowFormat
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.load.load_job import LoadJob
from sluice.load.load_ownership import expect_loading
from sluice.load.transfer.transfer_folder import FileDamaged, TransferFolder
from sluice.load.update import LoadTarget
from sluice.load.worker import (
    REST_SECONDS,
    WAIT_SECONDS,
    BlockOvertaken,
    BlockWorker,
    LoadReport,
    Pieces,
    SlaveNotReady,
)
from sluice.model.blocks import Block
from sluice.model.manifest import FileBlock, Manifest, header
from sluice.model.names import TableName
from sluice.model.shape import TableShape

log = logging.getLogger("sluice.load")

IDLE_SECONDS = 0.2


def tables_do_not_fit(target: LoadTarget, reasons: dict[TableName, str]) -> Terminal:
    """Blocks do not fit, and the apply did not help."""
    listed = "\n".join(f"- {reason}" for reason in reasons.values())
    return Terminal(
        f"{target}: these tables of the slave cannot take their files:\n{listed}\nA change of the table on the "
        "master reaches the slave only once the transfer is approved and the apply runs: approve it, or fix the "
        "slave's table. Then import again; what is stored stays.",
        code="tables-do-not-fit",
    )


def import_worker(
    target: LoadTarget,
    loader: str,
    transfer_folder: TransferFolder,
    manifest: Manifest,
    stopped: Callable[[], bool] = lambda: False,
    turn_seconds: float = math.inf,
    wait_seconds: float = WAIT_SECONDS,
) -> LoadReport:
    """Imports until no block is left, its turn is over, or `stopped` says so. Runs in a Spark task, or anywhere.

    `loader`: a name in the job (see `sluice.load.load_job`) that no loader had before. Raises `LoadEnded`,
    `FileDamaged`, `FileGone`, `tables-do-not-fit`, `JobOver`, `Transient` for outages that last. `wait_seconds`: how
    long to wait for blocks that fit only when the apply has come further.
    """
    return _Importer(target, loader, transfer_folder, manifest, stopped, wait_seconds).run(turn_seconds)


class _Importer(BlockWorker):
    work = "import"

    def __init__(
        self,
        target: LoadTarget,
        loader: str,
        transfer_folder: TransferFolder,
        manifest: Manifest,
        stopped: Callable[[], bool],
        wait_seconds: float,
    ):
        super().__init__(target, loader, stopped)
        self.transfer_folder = transfer_folder
        self.files = {block.file.name: block for block in manifest.blocks}
        self.tables = {table.shape.table: table for table in manifest.tables}
        self.wait_seconds = wait_seconds
        self._reasons: dict[TableName, str] = {}

    # -- the protocol

    def _claim(self) -> Block | None:
        control = self._linked(self._control)
        with control.transaction():
            self._expect_job(control)
            expect_loading(self.target, control)
            block: Block | None = self._blocks(control).begin_import(self.loader, self._backoff_over())
        return block

    def _transfer(self, block: Block) -> None:
        slave = self._linked(self._slave)
        vendor = vendor_at(self.target)
        listed = self.files.get(block.file or "")
        if listed is None:
            raise FileDamaged(self.transfer_folder.location, f"has no file for block {block.number} of {block.table}")
        with self._fitting(block.table), slave.transaction():
            shape = vendor.rows.shape(slave, block.table)
            if shape is None:
                raise SlaveNotReady(block.table, f"{block.table} does not exist on the slave")
            if self.target.slave.existing_tables == "keep":
                self._clear(slave, shape, block)
            try:
                columns, pieces = header(self.transfer_folder.read(listed.file))
            except ValueError as error:
                raise FileDamaged(
                    self.transfer_folder.location.below(listed.file.name), f"is no CSV: {error}"
                ) from error
            missing = [name for name in columns if name not in {column.name for column in shape.columns}]
            if missing:
                raise SlaveNotReady(block.table, f"the slave's table lacks {', '.join(missing)}")
            beaten = Pieces(pieces, self._beat(block))
            rows = vendor.load_target.write(slave, block.table, columns, beaten, RowFormat.CSV)
            if rows != listed.rows:
                raise FileDamaged(
                    self.transfer_folder.location.below(listed.file.name),
                    f"has {counted(rows, 'row')} instead of {listed.rows}",
                )
            if not self._blocks(slave).store(block, self.loader, listed.marker, rows, listed.bytes):
                raise BlockOvertaken(f"block {block.number} of {block.table} was taken away while it was imported")
        self._count(listed)

    def _count(self, listed: FileBlock) -> None:
        self.report.count(listed.rows, listed.file.size)
        self._reasons.pop(listed.table, None)

    def _clear(self, slave: Session, shape: TableShape, block: Block) -> None:
        """Deletes the old rows of a kept table that this block replaces, see `sluice.load.preparation`."""
        vendor, listed = vendor_at(self.target), self.tables.get(block.table)
        bound = block.hi if block.lo is None else block.lo
        if listed is not None and bound is not None:
            # A bound is of the master's key, which other columns may follow in the slave's (`extra_key`).
            shape = shape.keyed_by([column.name for column in listed.shape.key[: len(bound)]])
        order = vendor.rows.key_order(slave, shape)
        if bound is None or (order.same_everywhere and listed is not None and listed.same_order):
            vendor.load_target.clear(slave, order, block)

    def _finished(self) -> bool:
        _, begun, exported = self._blocks(self._linked(self._control)).left()
        return bool(begun == exported == 0)

    def _idle(self) -> None:
        """Raises `tables-do-not-fit`."""
        if self._reasons and time.monotonic() - self._fine_at > self.wait_seconds:
            raise tables_do_not_fit(self.target, self._reasons)
        time.sleep(IDLE_SECONDS)

    def _rest(self, reason: SlaveNotReady) -> None:
        self._resting[reason.table] = time.monotonic() + REST_SECONDS
        self._reasons[reason.table] = str(reason)


# An import in threads of this process, for `./sluice import`, which has no Spark.


TICK_SECONDS = 1.0


def import_in_threads(
    target: LoadTarget,
    transfer_folder: TransferFolder,
    manifest: Manifest,
    parallel: int,
    stopped: Callable[[], bool] = lambda: False,
    wait_seconds: float = 5.0,
) -> LoadReport:
    """Imports the files that the slave lacks. Returns the work of all threads.

    Raises the first failure of a thread (`sluice.load.transfer.importer.import_worker`), and as `LoadJob`.
    """
    done, failures = LoadReport(), list[BaseException]()
    began = time.monotonic()
    with LoadJob(target) as job:

        def run(number: int) -> None:
            try:
                report = import_worker(
                    target,
                    job.loader(number),
                    transfer_folder,
                    manifest,
                    lambda: bool(failures) or stopped(),
                    wait_seconds=wait_seconds,
                )
                done.blocks += report.blocks
                done.rows += report.rows
                done.bytes += report.bytes
            except BaseException as failure:  # the waiting thread raises it
                failures.append(failure)

        threads = [threading.Thread(target=run, args=[number], daemon=True) for number in range(1, parallel + 1)]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                deadline = time.monotonic() + TICK_SECONDS
                for thread in threads:
                    thread.join(max(deadline - time.monotonic(), 0.0))
                left = job.tick()
                log.info(
                    "%s: to import: %s of %s", target, left.begun + left.exported, counted(len(manifest.blocks), "file")
                )
        except BaseException as failure:
            failures.append(failure)
            for thread in threads:
                thread.join(10.0)
    if failures:
        raise failures[0]
    if stopped():
        raise Transient(
            f"{target}: told to stop. What is stored stays; import again to continue.", code="import-stopped"
        )
    done.seconds = time.monotonic() - began
    return done
