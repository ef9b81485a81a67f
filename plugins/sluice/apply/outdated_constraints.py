"""Drops constraints and views that the master has dropped and that refuse changes on the slave.

`sluice.apply.definition_follower` would drop them too, but some seconds later. Where a window does not fit, the slave's
constraints that came from the master are compared with what the master has now.
"""

import logging
from collections.abc import Collection

from sluice.apply.definition_follower import beside_tables
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.window_runs import CutItem
from sluice.configuration.options import Policy
from sluice.control.definitions import DefinitionStore
from sluice.database.following import OfMaster, by_place
from sluice.database.following import defined as defined_of
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, master_of
from sluice.model import defined
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import TableName
from sluice.model.views import View
from sluice.transform import fitting

log = logging.getLogger("sluice.apply")


def refusing(sessions: PairSessions, written: Collection[TableName]) -> list[Defined]:
    """The outdated ones that may refuse changes of the tables `written`; runs in the slave's open transaction.

    The slave's own constraints are not among them, nor kinds that do not follow by `ddl`.
    """
    pair = sessions.pair
    if not has_rows(pair.master_info.vendor):
        return []
    vendor, of_master = vendor_at(pair), master_of(pair.master_info.vendor)
    store = DefinitionStore.of(pair, sessions.slave)
    known = [one for one in store.read() or () if _concerns(one, written) and _follows(sessions, one)]
    if not known:
        return []
    tables = sorted({one.table for one in known if one.of_table}.union(written))
    registered = sessions.queue.registered()
    everything = OfMaster.read(of_master.schemas, sessions.master, tables, registered)
    present = by_place(vendor.following.present(sessions.slave, tables))
    if kinds := beside_tables(pair):
        everything = everything.beside(of_master.schemas, sessions.master, pair.prefix, registered, kinds)
        schemas = {table.schema for table in registered}
        present |= by_place(vendor.following.present_beside(sessions.slave, pair.prefix, schemas))
    wanted = fitting.of_master(everything, pair).made_from
    places = {one.place for one in defined.outdated(wanted, present, known)}
    for one, source in wanted.items():
        if isinstance(source, View) and one.place in places:
            # The follower makes them again together with it.
            places |= {defined_of(reader).place for reader in source.readers}
    order = list(present)
    outdated = [one for one in known if one.place in places and one.place in present]
    return sorted(outdated, key=lambda one: -order.index(one.place))


def drop(sessions: PairSessions, written: Collection[TableName]) -> list[Defined]:
    """Drops the outdated ones, each in a transaction of its own, and returns them. Raises `Transient` where readers
    hold the locks for long."""
    pair = sessions.pair
    vendor = vendor_at(pair)
    store = DefinitionStore.of(pair, sessions.slave)
    with sessions.slave_transaction():
        outdated = refusing(sessions, written)
    for one in outdated:
        with sessions.slave_transaction() as slave:
            vendor.following.drop_at_once(slave, one)
            store.forget(one)
        sessions.merger.targets.forget()
        log.info("%s: dropped on the slave, because the master has it no more and rows need that: %s", pair, one)
    return outdated


def _concerns(one: Defined, written: Collection[TableName]) -> bool:
    # A foreign key also refuses deletes of its parent table, a view changes of the columns that it reads.
    return one.table in written or one.kind in (DefinedKind.FOREIGN_KEYS, DefinedKind.DOMAINS, DefinedKind.VIEWS)


def _follows(sessions: PairSessions, one: Defined) -> bool:
    return sessions.pair.replication.ddl.of(one.kind) is Policy.FOLLOW


def untie(sessions: PairSessions, change: CutItem) -> bool:
    """Drops the master's foreign keys that are in the way of a change of types, in the caller's transaction. Returns
    whether there were any: `DefinitionFollower` makes them again."""
    keys = sessions.alterer.will_drop(change)
    if not keys:
        return False
    store = DefinitionStore.of(sessions.pair, sessions.slave)
    known = {one.place for one in store.read() or ()}
    tied = [key for key in keys if key.place in known and _follows(sessions, key)]
    for key in tied:
        vendor_at(sessions.pair).following.drop_at_once(sessions.slave, key)
        store.forget(key)
    return bool(tied)
