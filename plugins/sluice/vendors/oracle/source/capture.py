"""The capture of an Oracle master's changes (`sluice.database.capture.Capture`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.vendors.oracle.source.resources import (
    ahead,
    installed,
    lock,
    note_wildcards,
    pass_on,
    remove,
    require,
    upgrade,
    version,
)
from sluice.vendors.oracle.source.tables_registry import Registry
