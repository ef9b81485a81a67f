"""An importer: claims exported blocks one after another, and stores the rows of their files on the slave.

Any number work side by side; BLOCKS on the slave is all they share. Rows, marker and "stored" are committed together,
provided the block is still begun by this very importer, and the file was what the manifest says to its last byte.
Only the slave and the folder are reached: neither the master nor Airflow nor Redis.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection, Error

from sluice import vendors
from sluice.domain.blocks import Block
from sluice.domain.manifest import FileBlock, Manifest
from sluice.domain.names import TableName
from sluice.errors import SluiceError, Terminal, Transient
from sluice.initial.carried import Carried, FileDamaged
from sluice.initial.loader import NOT_YET, PATIENCE_SECONDS, BlockOvertaken, JobOver, LoadReport, NotYet
from sluice.initial.owner import expect_loading
from sluice.initial.update import LoadTarget

log = logging.getLogger("sluice.initial")

REST_SECONDS = 1.0
"""How long a table is left alone when a block of it did not fit yet."""
IDLE_SECONDS = 0.2
BEAT_SECONDS = 1.0


class NeverFits(Terminal):
    """Blocks do not fit, and the apply did not mend it."""

    def __init__(self, target: LoadTarget, reasons: dict[TableName, str]):
        listed = "\n".join(f"- {reason}" for reason in reasons.values())
        super().__init__(
            f"{target}: these tables of the slave cannot take their files:\n{listed}\nA change of the table on the "
            "master reaches the slave only once the transfer is approved and the apply runs: approve it, or mend the "
            "slave's table. Then import again; what is stored stays."
        )
        self.tables = tuple(reasons)


def import_worker(
    target: LoadTarget,
    loader: str,
    carried: Carried,
    manifest: Manifest,
    stopped: Callable[[], bool] = lambda: False,
    patience: float = PATIENCE_SECONDS,
) -> LoadReport:
    """Imports until no block is left or `stopped` says so. Runs inside a Spark task, or anywhere.

    `loader`: a name of the job's (see `sluice.initial.job`) that no loader had before. `patience`: for how many
    seconds blocks are waited for that fit only when the apply has come further.
    Raises `LoadEnded`, `FileDamaged`, `FileGone`, `NeverFits`, `JobOver`, `Transient` for outages that last.
    """
    worker = _Importer(target, loader, carried, manifest, stopped, patience)
    try:
        return worker.run()
    finally:
        worker.close()


class _Importer:
    def __init__(
        self,
        target: LoadTarget,
        loader: str,
        carried: Carried,
        manifest: Manifest,
        stopped: Callable[[], bool],
        patience: float,
    ):
        self.target = target
        self.loader = loader
        self.carried = carried
        self.files = {block.file.name: block for block in manifest.blocks}
        self.same_order = {table.shape.table: table.same_order for table in manifest.tables}
        self.stopped = stopped
        self.patience = patience
        self.report = LoadReport()
        self._slave: Connection[Any] | None = None
        self._control: Connection[Any] | None = None
        self._resting: dict[TableName, float] = {}
        self._reasons: dict[TableName, str] = {}
        self._fine_at = time.monotonic()

    def run(self) -> LoadReport:
        started, backoff = time.monotonic(), 0.0
        while not self.stopped():
            try:
                self._open()
                block = self._claim()
                if block is not None:
                    self._store_rows(block)
                    self._fine_at = time.monotonic()
                elif self._finished():
                    break
                else:
                    self._wait()
                backoff = 0.0
            except NotYet as reason:
                self._give_back()
                self._resting[reason.table] = time.monotonic() + REST_SECONDS
                self._reasons[reason.table] = str(reason)
            except JobOver:
                raise
            except BlockOvertaken as reason:
                self._give_back()
                log.info("%s: %s", self.target, reason)
            except Transient as outage:
                self._give_back()
                if time.monotonic() - self._fine_at > PATIENCE_SECONDS:
                    raise
                backoff = min(max(2 * backoff, 0.1), 5.0)
                log.warning("%s: %s Next try in %.2g s.", self.target, outage, backoff)
                time.sleep(backoff)
            except BaseException:
                self._give_back()
                raise
        self.report.seconds = time.monotonic() - started
        return self.report

    def close(self) -> None:
        """Ends the sessions; never raises."""
        for link in (self._slave, self._control):
            if link is not None:
                try:
                    link.close()
                except Error as error:
                    log.debug("closing: %s", error)
        self._slave = self._control = None

    # -- the protocol

    def _claim(self) -> Block | None:
        """An exported block that is begun by this importer, committed; None when none can be claimed now."""
        control = self._linked(self._control)
        updates = vendors.module(self.target.slave_info.vendor, "updates")
        now = time.monotonic()
        with self._on_slave(), control.transaction():
            job = self.loader.rpartition("/")[0]
            if not updates.claiming(control, self.target.prefix, self.target.slave.name, job):
                raise JobOver(f"{self.target}: the import job of {self.loader} is over")
            expect_loading(self.target, control)
            block: Block | None = self._blocks(control).begin_import(
                self.loader, [table for table, until in self._resting.items() if until > now]
            )
        return block

    def _store_rows(self, block: Block) -> None:
        slave = self._linked(self._slave)
        vendor = self.target.slave_info.vendor
        copying, catalog = vendors.module(vendor, "copying"), vendors.module(vendor, "catalog")
        listed = self.files.get(block.file or "")
        if listed is None:
            raise FileDamaged(self.carried.location, f"has no file for block {block.number} of {block.table}")
        with self._on_slave(block.table), slave.transaction():
            shape = catalog.shape(slave, block.table)
            if shape is None:
                raise NotYet(block.table, f"{block.table} does not exist on the slave")
            if self.target.slave.existing_tables == "keep":
                self._clear(slave, shape, block)
            try:
                columns, pieces = copying.header(self.carried.read(listed.file))
            except ValueError as error:
                raise FileDamaged(self.carried.location.below(listed.file.name), f"is no CSV: {error}") from error
            lacking = [name for name in columns if name not in {column.name for column in shape.columns}]
            if lacking:
                raise NotYet(block.table, f"the slave's table lacks {', '.join(lacking)}")
            rows = copying.copy_in(slave, block.table, columns, self._beating(pieces, block))
            if rows != listed.rows:
                raise FileDamaged(
                    self.carried.location.below(listed.file.name), f"has {rows} rows instead of {listed.rows}"
                )
            if not self._blocks(slave).store(block, self.loader, listed.marker, rows, listed.bytes):
                raise BlockOvertaken(f"block {block.number} of {block.table} was taken away while it was imported")
        self._count(listed)

    def _count(self, listed: FileBlock) -> None:
        self.report.blocks += 1
        self.report.rows += listed.rows
        self.report.bytes += listed.file.size
        self._reasons.pop(listed.table, None)

    def _clear(self, slave: Connection[Any], shape: Any, block: Block) -> None:
        """Deletes the old rows of a kept table that this block replaces, see `sluice.initial.preparation`."""
        vendor = self.target.slave_info.vendor
        order = vendors.module(vendor, "ranges").key_order(slave, shape)
        whole = block.lo is None and block.hi is None
        if whole or (order.same_everywhere and self.same_order.get(block.table, False)):
            vendors.module(vendor, "copying").clear(slave, order, block)

    def _beating(self, pieces: Iterator[bytes], block: Block) -> Iterator[bytes]:
        """Looks once a second whether the block is still ours, so that a cancelled import ends within it."""
        last = time.monotonic()
        for piece in pieces:
            if time.monotonic() - last > BEAT_SECONDS:
                last = time.monotonic()
                if self.stopped() or not self._blocks(self._linked(self._control)).is_mine(block, self.loader):
                    raise BlockOvertaken(f"block {block.number} of {block.table} was taken away or the import stopped")
            yield piece

    def _finished(self) -> bool:
        with self._on_slave():
            _, begun, exported = self._blocks(self._linked(self._control)).left()
        return bool(begun == exported == 0)

    def _wait(self) -> None:
        """Others have the remaining blocks, or they do not fit yet. Raises `NeverFits`."""
        if self._reasons and time.monotonic() - self._fine_at > self.patience:
            raise NeverFits(self.target, self._reasons)
        time.sleep(IDLE_SECONDS)

    def _give_back(self) -> None:
        """Drops the sessions, which may be in the middle of anything, and puts the block in hand back to exported."""
        self.close()
        try:
            self._open()
            with self._on_slave():
                self._blocks(self._linked(self._control)).release(self.loader)
        except SluiceError as error:
            log.warning("%s: block not given back yet: %s", self.target, error)

    # -- its sessions

    def _open(self) -> None:
        target = self.target
        if self._control is None:
            self._control = target.connect_slave(target.loader_application)
        if self._slave is None:
            self._slave = target.connect_slave(target.loader_application)
            with self._on_slave():
                session = vendors.module(target.slave_info.vendor, "session")
                session.begin_applying(self._slave, origin=str(target.prefix))

    def _blocks(self, connection: Connection[Any]) -> Any:
        module = vendors.module(self.target.slave_info.vendor, "blocks")
        return module.BlockStore(connection, self.target.prefix, self.target.slave.schema, self.target.slave.name)

    @contextmanager
    def _on_slave(self, table: TableName | None = None) -> Iterator[None]:
        """Errors of the slave classified; with `table`, a row that does not fit in it is `NotYet`."""
        with vendors.module(self.target.slave_info.vendor, "connection").classified(self.target.slave_info):
            try:
                yield
            except Error as error:
                if table is not None and error.sqlstate in NOT_YET:
                    raise NotYet(table, " ".join(str(error).split())) from error
                raise

    def _linked(self, connection: Connection[Any] | None) -> Connection[Any]:
        assert connection is not None, "_open() first"
        return connection
