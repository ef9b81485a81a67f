"""The process that forks Spark's Python workers on this machine, after it has imported the library.

So a worker starts at once; otherwise each would import the same for a second.
"""

import gc
import importlib
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import cast

from sluice import library
from sluice.database.registry import names, vendor_of
from sluice.database.vendor import Master
from sluice.errors import Terminal
from spark_jobs.allocator import keep_pages_for_a_while

IMPORTED = (
    "pandas",  # by Arrow, with the first value that a worker converts
    "pyarrow.compute",
    "sluice.apply.stage_driver",
    "spark_jobs.apply_task",
    "sluice.load.loader",
    "sluice.load.transfer.exporter",
    "sluice.load.transfer.importer",
    "spark_jobs.comparison",
)
"""The modules that tasks need, except vendors."""
PARTS: tuple[Callable[[Master], object], ...] = (
    lambda vendor: vendor.images,
    lambda vendor: vendor.reader,
    lambda vendor: vendor.sessions,
    lambda vendor: vendor.rows,
    lambda vendor: vendor.applying,
    lambda vendor: vendor.load_target,
    lambda vendor: vendor.digests,
)
"""The modules of vendors that tasks need. Each would be imported when it is first used: half a second in a new worker.
"""


def import_all() -> None:
    """Imports what tasks need, with each vendor's driver if it is installed."""
    for name in IMPORTED:
        importlib.import_module(name)
    for vendor, part in product(names(), PARTS):
        # A driver is not installed, or the vendor is no master.
        with suppress(ImportError, AttributeError, Terminal):
            part(cast(Master, vendor_of(vendor)))
    # Of what was imported here, and not of files that are exchanged later: workers inherit it.
    library.fingerprint()


if __name__ == "__main__":
    from pyspark import daemon

    keep_pages_for_a_while()
    import_all()
    # A worker collects garbage after each task: what was imported is none, and to look at it took 50 ms.
    gc.freeze()
    daemon.manager()
