"""Removes a replication from its databases.

A failover makes the slave the master, and with `reverse` the master a slave. So each database is cleared of both roles.
"""

import logging
from collections.abc import Iterable

from sluice.capture.plan import Remove
from sluice.capture.reconcile import apply_plan
from sluice.database import lock_waits
from sluice.database.accounts import Accounts
from sluice.database.failover import MasterGuard
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.names import Prefix
from sluice.model.vendors import VENDORS

log = logging.getLogger(__name__)


def leave_master(connection: Session, prefix: Prefix, schema: str, slaves: Iterable[str]) -> bool:
    """Removes the DbResources, and what the database has as one of `slaves`; False if nothing was installed. Raises as
    `uninstall`."""
    done = uninstall(connection, prefix, schema)
    if VENDORS[connection.vendor].fails_over:
        accounts = vendor_of(connection.vendor).accounts
        for name in slaves:
            accounts.remove_slave(connection, prefix, schema, name)
    return done


def leave_slave(connection: Session, accounts: Accounts, prefix: Prefix, schema: str, slave: str) -> bool:
    """Removes CHECKPOINT and what is beside it, and DbResources where there are; whether there were.

    `accounts`: of the slave's vendor. Raises as `uninstall`.
    """
    done = VENDORS[connection.vendor].fails_over and uninstall(connection, prefix, schema)
    accounts.remove_slave(connection, prefix, schema, slave)
    return done


def expect_free(connection: Session, prefix: Prefix, schema: str) -> None:
    """Passes if no failover is about to take the master's place. Raises `master-guarded`."""
    if (guard := guard_of(connection, prefix, schema)) is not None:
        claimed = guard.claimed()
        if claimed is not None and claimed.phase == "guarded":
            raise Terminal(
                f"{prefix}: failover {claimed.id} of slave {claimed.slave} is under way, and the master refuses "
                f"writes meanwhile. Wait until it is through, or trigger the DAG failover for {claimed.slave} with "
                "the action abort; where that is lost, run guard_release.sql on the master. Then start again.",
                code="master-guarded",
            )


def guard_of(connection: Session, prefix: Prefix, schema: str) -> MasterGuard | None:
    """The guard of a failover on the tables; None if nothing is installed, or the vendor does not support failovers."""
    if not VENDORS[connection.vendor].fails_over:
        return None
    vendor = master_of(connection.vendor)
    if vendor.capture(connection, prefix, schema).installed() is None:
        return None
    return vendor.failover.Guard(connection, prefix, schema)


def uninstall(connection: Session, prefix: Prefix, schema: str) -> bool:
    """Removes everything `prefix` owns in `schema`, changes not yet delivered included; False when there was nothing.

    Other prefixes and the replicated tables stay as they are. The triggers go table by table first,
    so that writers are held up one table at a time; a master that a failover left read-only takes writes again.
    Raises `tables-busy`, `master-guarded`.
    """
    connection.expect_idle()
    vendor = master_of(connection.vendor)
    resources = vendor.capture(connection, prefix, schema)
    with connection.transaction():
        have = resources.installed()
        if have is None:
            log.info("%s: there are no DbResources", prefix)
            return False
        tables = resources.registry.tables()
        expect_free(connection, prefix, schema)
        guard = guard_of(connection, prefix, schema)
    if guard is not None:
        guard.release()
    apply_plan(connection, prefix, schema, [Remove(table) for table in tables])

    def remove() -> None:
        with connection.transaction():
            vendor.sessions.limit_lock_waits(connection, lock_waits.LOCK_SECONDS)
            resources.lock()
            resources.remove()

    lock_waits.until_unlocked(remove)
    log.info("%s: DbResources removed", prefix)
    return True
