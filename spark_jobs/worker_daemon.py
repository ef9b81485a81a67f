"""The process that forks Spark's Python workers on this machine, with the library imported before any of them.

A worker that begins does so at once: without this each imports for a second what all have in common.
"""

import importlib
from contextlib import suppress

IMPORTED = (
    "pyarrow.compute",
    "sluice.apply.stage_task",
    "sluice.load.loader",
    "sluice.load.transfer.exporter",
    "sluice.load.transfer.importer",
    "sluice.library",
)
"""What tasks need, beside the vendors."""


def import_all() -> None:
    """Imports what tasks need, each vendor's driver as well where it is installed."""
    for name in IMPORTED:
        importlib.import_module(name)
    registry = importlib.import_module("sluice.database.registry")
    for vendor in registry.names():
        with suppress(ImportError):
            registry.vendor_of(vendor)
    # Of what was imported here, and not of files that are exchanged later: workers inherit it.
    importlib.import_module("sluice.library").fingerprint()


if __name__ == "__main__":
    from pyspark import daemon

    import_all()
    daemon.manager()
