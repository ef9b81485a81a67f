"""Drops constraints of the slave that came from the master, that the master has no more, and that may refuse rows.

The apply does so if a window does not fit, and its comparison of definitions for tables that are ready. Of a table
that is loaded nobody else does.
"""

import logging
from collections.abc import Collection

from sluice.configuration.options import Policy
from sluice.control.definitions import DefinitionStore
from sluice.database.following import OfMaster, by_id
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of
from sluice.database.session import Session
from sluice.load.update import Update
from sluice.model import defined
from sluice.model.defined import Defined
from sluice.model.names import TableName
from sluice.transform import fitting

log = logging.getLogger("sluice.load")


def drop(update: Update, master: Session, slave: Session, tables: Collection[TableName]) -> list[Defined]:
    """Drops those of `tables` and of the domains of their columns, each in a separate transaction; returns them.

    Kinds that do not follow by `ddl` stay, and so do the slave's own. Both sessions are in autocommit. Raises
    `LockNotAvailable` if readers of the slave hold the table for long.
    """
    store = DefinitionStore.of(update, slave)
    known = [one for one in store.read() or () if update.replication.ddl.of(one.kind) is Policy.FOLLOW]
    if not known or not tables:
        return []
    of_master, following = master_of(update.master_info.vendor), vendor_at(update).following
    registered = update.queue(master).registered()
    master_definitions = fitting.of_master(
        OfMaster.read(of_master.schemas, master, list(tables), list(registered)), update
    )
    present = by_id(following.present(slave, list(tables)))
    outdated = defined.outdated(master_definitions.made_from, present, known)
    for one in outdated:
        with slave.transaction():
            following.drop_at_once(slave, one)
            store.forget(one)
        log.info("%s: dropped on the slave, because the master has it no more: %s", update, one)
    return outdated
