"""What captures the changes of a PostgreSQL master (`sluice.database.capture.Capture`)."""

from sluice.vendors.postgres.source.resources import installed, lock, pass_on, remove, require, upgrade, version
from sluice.vendors.postgres.source.tables_registry import Registry

__all__ = ["Registry", "installed", "lock", "pass_on", "remove", "require", "upgrade", "version"]
