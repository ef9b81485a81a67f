"""An import in threads of this process, for `./sluice import`, where there is no Spark."""

import logging
import threading
import time
from collections.abc import Callable

from sluice.counted import counted
from sluice.errors import Transient
from sluice.load.load_job import LoadJob
from sluice.load.transfer.importer import ImportLimits, import_worker
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.load.update import LoadTarget
from sluice.load.worker import LoadReport
from sluice.model.manifest import Manifest

log = logging.getLogger("sluice.load")

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
                    ImportLimits(wait_seconds),
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
        raise Transient(f"{target}: told to stop. What is stored stays; import again to go on.", code="import-stopped")
    done.seconds = time.monotonic() - began
    return done
