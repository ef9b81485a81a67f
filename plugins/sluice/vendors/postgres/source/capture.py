"""What captures the changes of a PostgreSQL master (`sluice.database.capture.Capture`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.vendors.postgres.source.resources import ahead, installed, lock, pass_on, remove, require, upgrade, version
from sluice.vendors.postgres.source.tables_registry import Registry
from sluice.vendors.postgres.source.wildcards import note_wildcards
