"""What captures the changes of an Oracle master (`sluice.database.capture.Capture`)."""

from sluice.vendors.oracle.source.resources import (
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

__all__ = ["Registry", "installed", "lock", "note_wildcards", "pass_on", "remove", "require", "upgrade", "version"]
