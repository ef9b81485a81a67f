"""Constraints and views that the master dropped, and that refuse its rows or changes of columns on the slave.

They go in a round of `sluice.apply.definition_follower`, some seconds later. Rows that the master took meanwhile do not
wait for that: where a window does not fit, what the slave has of the master's is compared with what the master has now.
"""

import logging
from collections.abc import Collection

from sluice.apply.definition_follower import beside_tables
from sluice.apply.pair_sessions import PairSessions
from sluice.configuration.options import Policy
from sluice.control.definitions import DefinitionStore
from sluice.database.following import OfMaster, by_place
from sluice.database.following import defined as defined_of
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, vendor_of
from sluice.model import defined
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import TableName
from sluice.model.views import View
from sluice.transform import fitting

log = logging.getLogger("sluice.apply")


def found(sessions: PairSessions, written: Collection[TableName]) -> list[Defined]:
    """Those that may refuse changes of the tables `written`, in whatever transaction the slave's session is.

    Nothing that the slave has of its own, and nothing of which `ddl` says that it does not follow.
    """
    pair = sessions.pair
    if not has_rows(pair.master_info.vendor):
        return []
    vendor, of_master = vendor_at(pair), vendor_of(pair.master_info.vendor)
    store = DefinitionStore(sessions.slave, pair.prefix, pair.slave.schema, pair.slave.name)
    known = [one for one in store.read() or () if _concerns(one, written) and _follows(sessions, one)]
    if not known:
        return []
    tables = sorted({one.table for one in known if one.of_table}.union(written))
    registered = of_master.changes.registered(sessions.master, pair.prefix, pair.replication.master.schema)
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
            # They come back with it.
            places |= {defined_of(reader).place for reader in source.readers}
    order = list(present)
    gone = [one for one in known if one.place in places and one.place in present]
    return sorted(gone, key=lambda one: -order.index(one.place))


def drop(sessions: PairSessions, written: Collection[TableName]) -> list[Defined]:
    """Drops them, each in a transaction of its own; which. Raises `Transient` where readers are in the way for long."""
    pair = sessions.pair
    vendor = vendor_at(pair)
    store = DefinitionStore(sessions.slave, pair.prefix, pair.slave.schema, pair.slave.name)
    with sessions.slave_transaction():
        gone = found(sessions, written)
    for one in gone:
        with sessions.slave_transaction() as slave:
            vendor.following.drop_at_once(slave, one)
            store.forget(one)
        sessions.merger.targets.forget()
        log.info("%s: dropped on the slave, because the master has it no more and rows need that: %s", pair, one)
    return gone


def _concerns(one: Defined, written: Collection[TableName]) -> bool:
    # A foreign key refuses deletes of the table that it refers to as well, a view changes of columns that it reads.
    return one.table in written or one.kind in (DefinedKind.FOREIGN_KEYS, DefinedKind.DOMAINS, DefinedKind.VIEWS)


def _follows(sessions: PairSessions, one: Defined) -> bool:
    return sessions.pair.replication.ddl.of(one.kind) is Policy.FOLLOW
