"""Removes the DbResources of a prefix from a master."""

import logging

from sluice.capture.plan import Remove
from sluice.capture.reconcile import apply_plan
from sluice.database import lock_waits
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.model.names import Prefix

log = logging.getLogger(__name__)


def uninstall(connection: Session, prefix: Prefix, schema: str) -> bool:
    """Removes everything `prefix` owns in `schema`, changes not yet delivered included; False when there was nothing.

    Other prefixes and the replicated tables stay as they are. The triggers go table by table first,
    so that writers are held up one table at a time. Raises `TablesBusy`.
    """
    connection.expect_idle()
    vendor = vendor_of(connection.vendor)
    resources = vendor.capture
    with connection.transaction():
        have = resources.installed(connection, prefix, schema)
        if have is None:
            log.info("%s: there are no DbResources", prefix)
            return False
        tables = resources.Registry(connection, prefix, schema).tables()
    apply_plan(connection, prefix, schema, [Remove(table) for table in tables])

    def remove() -> None:
        with connection.transaction():
            vendor.sessions.limit_lock_waits(connection, lock_waits.LOCK_SECONDS)
            resources.lock(connection, prefix, schema)
            resources.remove(connection, prefix, schema)

    lock_waits.until_unlocked(remove)
    log.info("%s: DbResources removed", prefix)
    return True
