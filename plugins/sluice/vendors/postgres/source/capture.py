"""What captures the changes of a PostgreSQL master (`sluice.database.capture.Capture`)."""

from sluice.vendors.postgres.source.resources import installed, lock, pass_on, remove, require, upgrade, version
from sluice.vendors.postgres.source.tables_registry import Registry
from sluice.vendors.postgres.source.wildcards import note_wildcards

__all__ = ["Registry", "installed", "lock", "note_wildcards", "pass_on", "remove", "require", "upgrade", "version"]
